import json
from types import SimpleNamespace

import pytest

from mbc_engine.experiments.cells import Stage, cells
from mbc_engine.experiments.requirements import Estimates, Machine, obstacles, requirements
from mbc_engine.experiments.settings import ExperimentSettings, load_suite

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


def test_every_stage_is_estimated_and_can_be_done_where_there_is_room(settings):
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
    here, away = requirements(experiment.model_copy(update={"datasets": [*experiment.datasets, lost]}), LARGE)
    assert here.possible == len(here.stages)
    assert {stage.obstacle for stage in away.stages} == {"/nowhere/rows.csv is not available"}
    assert [thing.name for thing in away.data if not thing.can_be_had] == ["/nowhere/rows.csv"]


def test_a_stage_that_takes_more_memory_than_there_is_takes_what_follows_with_it(settings):
    taken = {stage.name: stage.memory for stage in only(settings(), LARGE).stages}
    most = taken.pop("prepare camels")
    assert max(taken.values()) < 0.8 * most
    small = Machine("cpu", "2 cores", memory=most, speed=1e12, has_hub=False)
    cell = only(settings(), small)
    stood = {stage.name: stage for stage in cell.stages if stage.obstacle}
    assert "of memory; there are 0 GB on 2 cores" in stood["prepare camels"].obstacle
    assert {name: (stage.obstacle, stage.follows) for name, stage in stood.items() if name != "prepare camels"} == {
        "camels rate": ("prepare camels cannot be done", "prepare camels"),
        "camels online": ("prepare camels cannot be done", "prepare camels"),
    }
    assert [name for _, name in obstacles([cell])] == ["prepare camels"]


def test_what_follows_is_told_its_own_obstacle_first(settings):
    """Where the preparation was done on a larger machine, that alone is in the way here."""
    tiny = Machine("cpu", "2 cores", memory=1, speed=1e12, has_hub=False)
    cell = only(settings(), tiny)
    assert {stage.follows for stage in cell.stages} == {None}
    assert [name for _, name in obstacles([cell])] == [stage.name for stage in cell.stages]


def test_more_hours_than_are_allowed_stand_in_the_way(settings):
    slow = Machine("cpu", "an abacus", memory=10**12, speed=1e3, has_hub=False)
    cell = only(settings(methods=["mbc"]), slow, most_hours=10)
    assert cell.stages[0].obstacle.endswith("hours on an abacus, more than the 10 allowed")
    assert only(settings(methods=["mbc"]), slow, most_hours=1e9).possible == len(cell.stages)


def test_a_model_of_the_hub_is_had_only_where_the_hub_is(settings, monkeypatch):
    monkeypatch.setattr("mbc_engine.experiments.requirements._is_cached_model", lambda name: False)
    away = load_suite("paper").model_copy(update={"methods": ["mbc"], "protocols": ["online"]})
    away = away.model_copy(update={"bases": away.bases[:1], "datasets": settings().datasets})
    offline = Machine("cuda", "a large card", memory=10**13, speed=1e14, has_hub=False)
    assert only(away, LARGE).possible == 2
    assert {stage.obstacle for stage in only(away, offline).stages} == {
        "distilbert/distilgpt2 is not in the hub cache, and the hub cannot be reached from here"
    }


@pytest.mark.parametrize("name", ["nobody/knows-this", "/no/such/folder"])
def test_sizes_that_nobody_knows_leave_no_estimate_and_no_error(settings, name):
    experiment = settings(methods=["mbc"])
    base = experiment.bases[0].model_copy(update={"changes": [f"model.base={name}"]})
    cell = only(experiment.model_copy(update={"bases": [base]}), LARGE)
    assert f"How large {name} is, is not known here" in cell.unknown
    assert (cell.memory, cell.hours) == (None, None)


def test_the_paper_s_grid_is_counted_by_the_paper_where_its_files_are_missing(tmp_path):
    first = only_first(load_suite("paper", tmp_path))
    assert first.cell == "distilgpt2-streamingqa"
    assert first.hours > 0


def only_first(settings):
    return next(iter(requirements(settings, LARGE)))


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


def test_operations_are_counted_by_hand(tiny):
    """2 operations a weight and token, 6 with gradients; 120 weights in the layers of every part, none in its head."""
    shape = SimpleNamespace(num_hidden_layers=10, hidden_size=1, num_attention_heads=1, vocab_size=0)
    config = tiny.config("gpt2", "bert")
    settings = ExperimentSettings(title="", bases=[], datasets=[], methods=[], rates=[1.0, 2.0], scaling=[2, 50])
    counts = {"train": 7, "base-train": 5, "swept documents": 3, "swept questions": 4, "documents": 10, "questions": 20}
    estimates = Estimates(settings, config, "adam", 1, counts, 0, 0, 10, shape, shape, shape)

    def operations(*stage):
        return estimates.of(Stage(*stage))[1]

    adapt, answer = 6 * 120 * 256, 2 * 120 * 48
    assert operations("online", "uniform") == 10 * adapt + 20 * answer
    assert operations("rate", "uniform") == 2 * (3 * adapt + 4 * answer)
    assert operations("scaling", "uniform") == (2 + 10) * adapt + 2 * (2 + 10) * answer
    assert operations("online", "mbc") == 10 * 2 * 120 * 256 + 20 * (answer + 2 * 120 * 32)
    assert operations("prepare", "questions") == 8 * 5 * 6 * 120 * 32
    one = (6 * 256 + 6 * 32 + 4 * 32) * 120
    assert operations("prepare", "mbc") == config.training.epochs * 7 * one
    assert operations("prepare", "no-reset") == 7 * one
