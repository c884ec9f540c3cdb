"""Cells: their questions, stages, methods and variants of a config."""

from pathlib import Path

import pytest

from mbc_engine.config import load_preset
from mbc_engine.errors import DataError
from mbc_engine.evaluation.cells import Cell, Stage, cells, variant
from mbc_engine.evaluation.methods import METHODS, controls_of
from mbc_engine.evaluation.suite import Base, Dataset, Suite
from mbc_engine.names import preset_names
from mbc_engine.paper.checkpoint import save_model
from tests.newswire import TWO


def cell_of(settings, **changes):
    """The only cell of a suite, its dataset changed."""
    dataset = settings.datasets[0].model_copy(update=changes)
    (cell,) = cells(settings.model_copy(update={"datasets": [dataset]}))
    return cell


def test_validation_documents_are_held_back(settings):
    cell = cell_of(settings(), validation=None)
    assert (len(cell.train), len(cell.validation)) == (18, 2)
    assert not {own.text for own in cell.train} & {own.text for own in cell.validation}


def test_testing_with_what_was_trained_on_is_refused(settings):
    given = settings()
    test = given.datasets[0].test
    all_of_it = {"train": [test]}, {"validation": test}, {"questions_train": [test]}
    a_part = {"train": [test], "most_train": 2}, {"validation": test, "most_validation": 1}
    for changes in (*all_of_it, *a_part):
        with pytest.raises(DataError, match="8 of the 8 documents"):
            cell_of(given, **changes).require_same()


def test_wrong_bank_without_training_documents():
    base = Base(name="mini", title="mini", model="mini")
    dataset = Dataset(name="news", title="News", test=TWO)
    cell = Cell(base, dataset, Suite(title="", bases=[base], datasets=[dataset], methods=["mbc-wrong"]))
    documents = cell.other_documents()
    assert len(documents) == 8
    assert set(documents).isdisjoint(cell.test.documents)


def test_seed_is_the_suites(settings, tiny, tmp_path):
    config = tiny.config("gpt2", "bert", "training.seed=3")
    save_model(tiny.model("gpt2", "bert"), config, tmp_path / "model")
    given = settings().model_copy(update={"seed": 7})
    base = Base(name="own", title="own", model=str(tmp_path / "model"))
    for own in (*given.bases, base):
        cell = Cell(own, given.datasets[0], given)
        assert [cell.config_of(name).training.seed for name in ("mbc", "mac")] == [7, 7]


@pytest.mark.parametrize(
    ("methods", "protocols", "expected"),
    [
        (
            "uniform mbc closed-book",
            "online",
            "prepare questions, prepare mbc, uniform rate, uniform online, mbc online, closed-book online",
        ),
        (
            "camels",
            "online retention scaling",
            "prepare questions, prepare camels, camels rate, camels online, camels retention",
        ),
        (
            "mbc mbc-wrong mbc-empty oracle",
            "retention scaling",
            "prepare mbc, mbc retention, mbc scaling 2, mbc-wrong scaling 2",
        ),
        ("uniform mac", "scaling", "prepare mac, mac scaling 2"),
        ("mbc", "code-usage", "prepare reset, prepare no-reset, code-usage"),
    ],
)
def test_what_stages_need_comes_first_and_once(settings, methods, protocols, expected):
    """Retention and scaling leave out methods whose answers do not depend on the documents, and what only they need."""
    stages = [*cell_of(settings(methods=methods.split(), protocols=protocols.split())).stages()]
    assert ", ".join(stage.name for stage in stages) == expected
    done = set()
    for stage in stages:
        assert done.issuperset(stage.needs)
        done.add(stage.name)
    assert all(stage.needs for stage in stages if stage.subject == "camels")


def test_answering_uses_the_training_precision(settings, monkeypatch):
    cell = cell_of(settings(question_training={"epochs": 1, "precision": "bf16"}))
    loaded = []
    monkeypatch.setattr("mbc_engine.lm.base.load_base", lambda path, **how: loaded.append((path, how["weights"])))
    cell.method("closed-book")
    cell.base_lm("questions")
    questions = str(cell.folder.prepared / "questions")
    assert loaded == [(questions, "bf16"), (questions, "float32")]


@pytest.fixture
def untrained(settings, tiny):
    """A cell with an untrained model, of one chunk a document."""

    def make(**changes):
        cell = cell_of(settings(**changes))
        cell.memory_model = lambda name: tiny.model("gpt2", "bert", "model.routing=true")
        return cell

    return make


@pytest.mark.parametrize(
    ("read", "bank", "is_asked"),
    [
        ("flat", None, False),
        ("hierarchical:8", None, False),
        ("hierarchical:7", None, True),
        ("hierarchical:3", 3, False),
        ("hierarchical:2", 3, True),
        ("hierarchical", None, False),  # 256 documents a group
        ("routed:8", None, False),
        ("routed:7", None, True),
        ("routed", None, True),  # two
        ("routed", 2, False),
    ],
)
def test_indistinguishable_control_is_skipped(untrained, read, bank, is_asked):
    cell = untrained(read=read, bank_documents=bank, documents=8)
    names = ("mbc-shuffled-documents", "mbc-shuffled-codes", "mbc-empty", "mbc")
    reasons = [cell.skip_reason(Stage("online", name, Path())) for name in names]
    assert [reason is None for reason in reasons] == [is_asked, True, True, True]
    assert cell.skip_reason(Stage("scaling", "mbc", Path(), documents=8)) == "there are only 8 documents"


def test_a_read_mode_is_the_suites_or_in_the_name(untrained):
    cell = untrained(read="routed:3")
    assert {cell.method(name)._read_mode for name in ("mbc", "mac", "mbc-shuffled-codes")} == {"routed:3"}
    methods = [cell.method(f"{name}-flat") for name in ("mbc", "mbc-wrong", "mac", "mac-wrong")]
    assert [type(method).__name__ for method in methods] == ["MemoryMethod", "WrongBank"] * 2
    methods[1::2] = [wrong._method for wrong in methods[1::2]]
    assert {method._read_mode for method in methods} == {"flat"}
    assert [method._codebook is None for method in methods] == [False, False, True, True]


def test_controls_of_methods():
    controls = {name for name, kind in METHODS.items() if kind.control_of}
    assert {name for name, kind in METHODS.items() if kind.corrupted_bank} == controls - {"mbc-empty", "mbc-text-empty"}
    assert controls_of("mac-flat") == ("mac-wrong-flat",)
    assert controls_of("mbc") == ("mbc-shuffled-documents", "mbc-shuffled-codes", "mbc-wrong", "mbc-null")
    assert controls_of("uniform") == ("closed-book",)
    assert controls_of("mbc-wrong") == controls_of("closed-book") == controls_of("retriever-reader") == ()
    assert METHODS["mbc-wrong-flat"].title == "MBC, wrong bank (flat read)"
    assert "uniform-flat" not in METHODS


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mac", ["model.quantised=false", "model.lora.layers=0", "training.quantise_from=0.0"]),
        ("mbc-unquantised", ["model.quantised=false", "training.quantise_from=0.0"]),
        ("no-reset", ["training.reset_codes=false"]),
        ("mbc", []),
    ],
)
def test_variants_differ_only_in_what_defines_them(preset, name, changes):
    assert variant(load_preset(preset), name) == load_preset(preset, changes)
