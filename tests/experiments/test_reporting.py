"""What a report is told of the methods and of the plan."""

import pytest

from mbc_engine.evaluation.folder import ExperimentFolder, environment
from mbc_engine.evaluation.protocols import Outcome
from mbc_engine.evaluation.results import Cost, Figure, Online, Prediction, QuestionScores
from mbc_engine.experiments.cells import BaseSettings, DatasetSettings, ExperimentSettings
from mbc_engine.experiments.reporting import report_of

FIGURE = Figure(100.0, 100.0, 100.0)
OUTCOME = Outcome(
    Online(1, QuestionScores(1, FIGURE, FIGURE, 100.0, None, None), Cost(1, 0.1, 0.1, 10, None)),
    [Prediction("1", 0, "Who?", ("Ada",), "Ada", True, 1.0, True, None)],
)


@pytest.fixture
def evaluate(tmp_path):
    """An experiment that asked for methods, of which some came to answer; gives its report."""

    def of(asked, *answered):
        settings = ExperimentSettings(
            title="T",
            bases=[BaseSettings(name="b", title="B", model="m")],
            datasets=[DatasetSettings(name="d", title="D", test="d.jsonl")],
            methods=asked,
        )
        folder = ExperimentFolder(tmp_path / "experiment")
        with folder.at_work():
            folder.begin(settings.model_dump(exclude_none=True), environment(0))
            for method in answered:
                folder.cell("b-d").method(method).keep_online(OUTCOME)
        return report_of(folder)

    return of


def test_a_method_without_any_of_its_controls_is_said_to_be_unchecked(evaluate):
    (verdict,) = evaluate(["mbc"], "mbc").verdicts
    assert (verdict.outcome, len(verdict.controls)) == ("unchecked", 4)
    assert verdict.claim.startswith("MBC's bank was not checked on D (B) against an empty bank, ")


def test_a_method_has_to_beat_the_controls_that_were_asked(evaluate):
    (verdict,) = evaluate(["mbc", "mbc-empty"], "mbc", "mbc-empty").verdicts
    assert (verdict.outcome, verdict.controls) == ("no", ("mbc-empty",))


def test_what_is_still_to_be_done_is_told(evaluate):
    missing = evaluate(["mbc", "mbc-empty", "mbc-wrong"], "mbc").missing
    assert [(one.cell, one.stage, one.reason) for one in missing] == [
        ("b-d", "mbc-empty online, mbc-wrong online", "not done yet")
    ]


def test_every_control_says_what_it_spoils():
    from mbc_engine.experiments.registry import METHODS

    assert all(bool(kind.spoilt_bank) == (kind.control_of is not None) for kind in METHODS.values())
