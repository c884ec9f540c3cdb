import json
from dataclasses import replace

import pytest

from mbc_engine.experiments.cells import cells
from mbc_engine.experiments.requirements import Machine, obstacles, requirements
from mbc_engine.experiments.settings import ExperimentSettings, load_suite
from mbc_engine.paper.builder import parameter_table

LARGE = Machine("cuda", "a large card", memory=10**13, speed=1e14, has_hub=True)


@pytest.fixture
def settings(tiny, examples, tmp_path):
    """An experiment around a tiny preset, with questions on 30 documents to train on and 20 to test with."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(tiny.config("gpt2", "bert").to_toml())
    rows = [{"text": own.text, "question": own.question, "answers": [*own.answers]} for own in examples(50)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(**changes):
        dataset = {
            "name": "moves",
            "title": "Moves",
            "train": [f"{tmp_path}/rows.jsonl[:30]"],
            "test": f"{tmp_path}/rows.jsonl[30:]",
        }
        base = {"name": "tiny", "title": "tiny", "preset": str(preset)}
        table = {"title": "Moves", "bases": [base], "datasets": [dataset], "methods": ["mbc", "uniform", "camels"]}
        return ExperimentSettings.model_validate({**table, **changes})

    return make


def only(settings, machine, **arguments):
    (cell,) = requirements(settings, machine, **arguments)
    return cell


def test_every_stage_can_be_done_where_there_is_room(settings):
    experiment = settings(protocols=["online", "retention", "scaling", "code-usage"])
    cell = only(experiment, LARGE)
    assert [stage.name for stage in cell.stages] == [stage.name for own in cells(experiment) for stage in own.stages()]
    assert cell.possible == len(cell.stages)
    assert all(thing.is_here for thing in (*cell.data, *cell.models))
    assert all(stage.memory is not None and stage.hours is not None for stage in cell.stages)
    assert obstacles([cell]) == {}


def test_a_file_that_is_missing_stands_in_the_way_of_every_stage_of_its_cell(settings):
    experiment = settings()
    lost = experiment.datasets[0].model_copy(update={"name": "lost", "test": "/nowhere/rows.csv"})
    complete, incomplete = requirements(experiment.model_copy(update={"datasets": [*experiment.datasets, lost]}), LARGE)
    assert complete.possible == len(complete.stages)
    assert {stage.obstacle for stage in incomplete.stages} == {"/nowhere/rows.csv is not available"}
    assert [thing.name for thing in incomplete.data if not thing.can_be_had] == ["/nowhere/rows.csv"]


def test_a_stage_that_takes_more_memory_than_there_is_takes_what_follows_with_it(settings):
    experiment = settings(methods=["mbc", "closed-book"])
    taken = {stage.name: stage.memory for stage in only(experiment, LARGE).stages}
    most = taken["prepare questions"]  # weights, gradients and two moments: four times the weights that answering takes
    assert taken["closed-book online"] == most // 4
    small = Machine("cpu", "2 cores", memory=most - 1, speed=1e12, has_hub=False)
    cell = only(experiment, small)
    stood = {stage.name: stage for stage in cell.stages if stage.obstacle}
    assert "of memory; only 0 GB available (2 cores)" in stood["prepare questions"].obstacle
    answering = stood["closed-book online"]
    assert (answering.obstacle, answering.follows) == ("prepare questions cannot be done", "prepare questions")
    assert ("tiny-moves", "prepare questions") in obstacles([cell])
    assert ("tiny-moves", "closed-book online") not in obstacles([cell])


def test_a_stage_s_own_obstacle_comes_first(settings):
    """If the preparation was done on a larger machine, this is the only obstacle."""
    cell = only(settings(), Machine("cpu", "2 cores", memory=1, speed=1e12, has_hub=False))
    assert {stage.follows for stage in cell.stages} == {None}
    assert [name for _, name in obstacles([cell])] == [stage.name for stage in cell.stages]


def test_a_hub_model_is_available_only_where_the_hub_is(settings, monkeypatch):
    monkeypatch.setattr("mbc_engine.lm.packaged.local_folder", lambda name: None)
    away = load_suite("paper").model_copy(update={"methods": ["mbc"], "protocols": ["online"]})
    away = away.model_copy(update={"bases": away.bases[:1], "datasets": settings().datasets})
    offline = Machine("cuda", "a large card", memory=10**13, speed=1e14, has_hub=False)
    assert only(away, LARGE).possible == 2
    assert {stage.obstacle for stage in only(away, offline).stages} == {
        "distilbert/distilgpt2 is not in the hub cache, and the hub cannot be reached from here"
    }


def test_more_hours_than_are_allowed_stand_in_the_way(settings):
    slow = Machine("cpu", "an abacus", memory=10**12, speed=1e3, has_hub=False)
    cell = only(settings(methods=["mbc"]), slow, max_hours=10)
    assert cell.stages[0].obstacle.endswith("hours on an abacus, more than the 10 allowed")
    assert only(settings(methods=["mbc"]), slow, max_hours=1e9).possible == len(cell.stages)


@pytest.mark.parametrize("name", ["nobody/knows-this", "/no/such/folder"])
def test_sizes_that_nobody_knows_are_no_error(settings, name):
    experiment = settings(methods=["mbc"])
    base = experiment.bases[0].model_copy(update={"changes": [f"model.base={name}"]})
    cell = only(experiment.model_copy(update={"bases": [base]}), LARGE)
    assert f"The size of {name} is unknown" in cell.unknown
    assert (cell.memory, cell.hours) == (None, None)


def test_fine_tuning_7b_with_adam_is_more_than_the_paper_s_card_holds():
    paper = load_suite("paper")

    def llama(optimiser):
        base = paper.bases[-1].model_copy(update={"optimiser": optimiser})
        return paper.model_copy(update={"bases": [base], "datasets": paper.datasets[1:2]})

    card = Machine("cuda", "80 GB", memory=80 * 10**9, speed=1e14, has_hub=True)
    stood = {stage for _, stage in obstacles([only(llama("adam"), card)])}
    assert {"uniform online", "salient-spans online", "camels online"} <= stood
    assert not {"prepare mbc", "mbc online", "prepare mac", "mac online"} & stood
    assert "uniform online" not in {stage for _, stage in obstacles([only(llama("adafactor"), card)])}


PLENTY = {"protocols": ["online", "retention", "scaling", "code-usage"], "rates": [1e-3, 1e-4], "scaling": [5, 10, 50]}


def test_hours_are_counted_by_hand(settings):
    """2 operations per parameter and token, 6 in training; documents have 256 tokens, questions with answers 48."""
    asked = settings(
        **PLENTY, methods=["mbc", "uniform", "camels", "closed-book", "bm25"], retention={"first": 4, "step": 8}
    )
    config = next(cells(asked)).config()
    table = parameter_table(config.model)
    base, encoder = table["base LM"].frozen, table["amortizer"]
    encoded = encoder.trainable + encoder.frozen
    slow = Machine("cpu", "an abacus", memory=10**13, speed=1 / 3600, has_hub=False)  # an hour is an operation
    cell = only(asked, slow, max_hours=1e30)
    hours = {stage.name: stage.hours for stage in cell.stages}
    answer, adapt = 2 * base * 48, 6 * base * 256
    memorise, ask = 2 * encoded * 256, 2 * encoded * 48 + answer
    # 30 documents with a question each, of which 3 are held back, are trained on; 20 are the stream.
    assert hours["prepare questions"] == pytest.approx(8 * 27 * 3 * answer)
    assert hours["prepare reader"] == pytest.approx(8 * 27 * 6 * base * (256 + 48))
    assert hours["prepare camels"] == pytest.approx(2000 * 4 * 6 * 2 * adapt)
    learned = 27 * (6 * encoder.trainable * (256 + 48) + 3 * answer)
    assert hours["prepare mbc"] == pytest.approx(config.training.epochs * learned)
    assert hours["uniform rate"] == pytest.approx(2 * 3 * (adapt + answer))
    assert hours["uniform online"] == pytest.approx(20 * (adapt + answer))
    assert hours["uniform retention"] == pytest.approx(20 * adapt + 3 * 4 * answer)
    assert hours["mbc scaling"] == pytest.approx(2 * 20 * (memorise + ask))  # of 5 and of 10 documents
    assert hours["closed-book online"] == pytest.approx(20 * answer)
    assert hours["bm25 online"] == pytest.approx(20 * (answer + 2 * base * 256))
    assert hours["mbc online"] == pytest.approx(20 * (memorise + ask))
    assert cell.hours == pytest.approx(sum(hours.values()))


def test_what_is_tuned_in_bf16_is_faster_and_smaller_on_a_machine_made_for_it(settings):
    given = settings(methods=["mbc", "closed-book"], question_training={"precision": "bf16"}, protocols=["online"])
    slow = Machine("cpu", "an abacus", memory=10**13, speed=1 / 3600, has_hub=False)
    usual, fast = (only(given, one, max_hours=1e30) for one in (slow, replace(slow, bf16_gain=5.0)))
    gains = {one.name: one.hours / other.hours for one, other in zip(usual.stages, fast.stages, strict=True)}
    in_bf16 = next(cells(given)).config().training.precision == "bf16"
    assert gains == pytest.approx(
        {"prepare mbc": 5 if in_bf16 else 1, "prepare questions": 5, "mbc online": 1, "closed-book online": 5}
    )
    memory = {stage.name: stage.memory for stage in usual.stages}
    parameters = parameter_table(next(cells(given)).config().model)["base LM"].frozen
    assert memory["closed-book online"] == 2 * parameters


def test_datasets_of_the_paper_are_counted_by_the_paper_where_their_files_are_missing(settings, tmp_path):
    paper = load_suite("paper", tmp_path)
    dataset = paper.datasets[0].model_copy(update={"most_train": 100})
    preset = settings().bases[0]
    asked = paper.model_copy(update={"bases": [preset], "datasets": [dataset], "methods": ["closed-book"]})
    one = Machine("cpu", "an abacus", memory=10**13, speed=1 / 3600, has_hub=False)
    cell = only(asked.model_copy(update={"protocols": ["online"]}), one)
    prepare, online = (stage.hours for stage in cell.stages)
    assert cell.possible == 0
    assert prepare / online == pytest.approx(8 * 100 * 3 / 1665)
    unknown = dataset.model_copy(update={"name": "mine"})
    assert only(asked.model_copy(update={"datasets": [unknown]}), one).hours is None
