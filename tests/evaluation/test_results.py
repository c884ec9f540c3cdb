"""Results: how replies are scored; files come back as written, damage is reported, one process works at a time."""

import re
from dataclasses import replace

import pytest
from hypothesis import strategies as st

from mbc_engine.datasets.examples import QAExample
from mbc_engine.errors import ConfigError, DataError
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.results import (
    CodeUsage,
    Cost,
    ExperimentFolder,
    Measurement,
    MethodResults,
    Prediction,
    QuestionScores,
    predict,
    score,
)
from mbc_engine.evaluation.statistics import Interval

FIGURE = Interval(50.0, 0.0, 100 / 3)
COST = Cost(4, 0.5, 1e-9, 123, None)
USAGE = CodeUsage(512, ((1, 1.0), (2, 2.5)), ())
PREDICTION = Prediction("1", 0, "Who?", ("Ada",), "Ada", True, 1.0, True, None)
ONLINE = Measurement(QuestionScores(1, FIGURE, FIGURE, 12.5, None, 75.0), COST, predictions=[PREDICTION])
# What files can hold: no infinity, no lone surrogates.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(str, st.text(st.characters(exclude_categories=["Cs"])))
KEPT = {
    "online": (ONLINE,),
    "retention": (ONLINE, replace(ONLINE, cost=replace(COST, documents=5), retained=FIGURE)),
    "scaling-9": (replace(ONLINE, cost=replace(COST, documents=9, text=99)),),
}
SETTINGS = {"title": "T", "seed": 0, "bases": [{"name": "b", "title": "B"}], "rates": [1e-4, 6.25e-6], "read": "flat"}
HERE = {"cores": 2, "date": "2030-01-01T00:00:00+00:00", "command": "mbc eval", "packages": {"torch": "2"}}


@pytest.fixture
def folder(tmp_path):
    return ExperimentFolder(tmp_path)


@pytest.fixture
def cell(folder):
    """A cell with a result of every kind."""
    cell = folder.cell("b-d")
    for kind, outcomes in KEPT.items():
        cell.write_measured("mbc", kind, outcomes)
    cell.write("mbc", "rate", 1e-4)
    cell.write("", "code-usage", USAGE)
    return cell


def test_everything_comes_back_as_it_was(folder, cell):
    (online,) = KEPT["online"]
    assert cell.results("mbc") == MethodResults(
        online=online, retention=KEPT["retention"], scaling=(*KEPT["scaling-9"], online), rate=1e-4
    )
    assert cell.read("", "code-usage") == USAGE
    names = ["online", "online.predictions", "rate", "retention-4.predictions", "retention-5.predictions", "retention"]
    assert sorted(str(path.relative_to(cell.results_folder)) for path in folder.path.rglob("*.json*")) == [
        "code-usage.json",
        *(f"mbc/{name}.json{'l' if 'predictions' in name else ''}" for name in names),
        "mbc/scaling-9.json",
        "mbc/scaling-9.predictions.jsonl",
    ]


def test_older_results_had_neither_answers_nor_intervals_of_ratios(folder):
    cell = folder.cell("b-d")
    cell.write("mbc", "retention", (replace(ONLINE, retained=40.0),))
    path = cell.file("mbc", "retention")
    path.write_text(re.sub(r',\s*"(shared|text)": \w+', "", path.read_text()))
    assert cell.results("mbc").retention == (replace(ONLINE, retained=40.0, predictions=[]),)


@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00", b"null", b'{"banks": "1"}'])
def test_a_damaged_file_is_named_with_the_way_out(cell, kind, damage):
    path = cell.file("mbc", kind)
    path.write_bytes(damage)
    with pytest.raises(DataError) as caught:
        cell.results("mbc")
    assert caught.value.message.startswith(f"{path} cannot be read: ")
    assert "\n" not in caught.value.message
    assert caught.value.hint == f"Delete {path} and run the evaluation again."


class TestBeginning:
    def test_environments_that_differ_in_more_than_date_and_command_are_kept(self, folder):
        for environment in (HERE, {**HERE, "cores": 3}, {**HERE, "date": "2031"}):
            folder.begin(SETTINGS, environment, SETTINGS)
        assert folder.environments() == [HERE, {**HERE, "cores": 3}]

    def test_settings_that_no_file_can_hold_are_refused(self, folder):
        with pytest.raises(ConfigError, match="not UTF-8"):
            folder.begin({**SETTINGS, "title": "caf\udce9.jsonl"}, HERE, SETTINGS)
        assert not folder.exists()

    def test_other_settings_are_refused_and_named(self, folder):
        folder.begin(SETTINGS, HERE, SETTINGS)
        folder.cell("b-d").require_same("questions", "abc")
        with pytest.raises(ConfigError, match=r"holds an evaluation with other settings: questions, rates\."):
            folder.begin({**SETTINGS, "rates": [1e-4], "questions": 4}, HERE, SETTINGS)
        assert folder.settings() == SETTINGS

    def test_damaged_or_missing_settings_are_named(self, folder):
        with pytest.raises(DataError, match="There is no evaluation in"):
            folder.settings()
        for damage in (b"title = ", b"\xff"):
            (folder.path / "experiment.toml").write_bytes(damage)
            with pytest.raises(DataError, match=r"experiment\.toml cannot be read"):
                folder.settings()


def test_only_one_process_works_in_a_folder(folder, monkeypatch):
    monkeypatch.setattr("mbc_engine.runs.event_log._PATIENCE", 0.01)
    with folder.lock(), pytest.raises(ConfigError, match="Another evaluation is running in"), folder.lock():
        pass
    with folder.lock():
        pass


ASKED = QAExample("7", "Ada moved to the old port of Bergen.", "Where?", ("the old port of Bergen", "Bergen"))


def predicted(reply, golds="shortest"):
    return predict(ASKED, reply, 12, start=10, golds=golds)


def test_prediction_fields():
    assert predicted(MethodAnswer("Bergen harbour")) == Prediction(
        "7", 12, "Where?", ASKED.answers, "Bergen harbour", False, pytest.approx(2 / 3), True, None
    )
    assert predicted(MethodAnswer("old port of Bergen")).f1 == pytest.approx(2 / 5)
    assert predicted(MethodAnswer("old port of Bergen"), "any").exact_match
    assert predicted(MethodAnswer("Berg\ud800en\0")).answer == "Berg\ufffden\ufffd"


def test_scores_are_means_in_percent():
    right = replace(predicted(MethodAnswer("Bergen", (2,))), document=0)
    half = replace(right, exact_match=False, f1=0.5, rank=3)
    wrong = replace(right, document=1, exact_match=False, f1=0.0, lenient_match=False, rank=None)
    scores = score([right, half, half, wrong], names_sources=True, seed=0)
    assert scores.questions == 4
    assert (scores.exact_match.value, scores.f1.value, scores.lenient_match) == (25, 50, 75)
    assert (scores.first_source, scores.in_five) == (25, 75)
    # With both documents, one of them twice, or the other twice: the mean of f1 is 1/2, 2/3, or 0.
    assert (scores.f1.low, scores.f1.high) == pytest.approx((0, 200 / 3))
    same = [replace(one, article="Bergen") for one in (right, half, half, wrong)]  # which is all that was drawn
    assert score(same, names_sources=True, seed=0).f1 == Interval(50, 50, 50)
