"""What a report says of the methods and of the plan."""

import pytest

from mbc_engine.evaluation.results import Cost, ExperimentFolder, Measurement, Outcome, Prediction, QuestionScores
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.events import Validated
from mbc_engine.experiments.page import _figures
from mbc_engine.experiments.report import read_report
from mbc_engine.experiments.running import environment
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, ExperimentSettings
from mbc_engine.runs.event_log import EventLog

ALL = Interval(100.0, 100.0, 100.0)
OUTCOME = Outcome(
    Measurement(QuestionScores(1, ALL, ALL, 100.0, None, None), Cost(1, 0.1, 0.1, 10, None)),
    [Prediction("1", 0, "Who?", ("Ada",), "Ada", True, 1.0, True, None)],
)


@pytest.fixture
def evaluate(tmp_path):
    """The report of an experiment in which only some of the methods have answered."""

    def of(asked, *answered):
        settings = ExperimentSettings(
            title="T",
            bases=[BaseSettings(name="b", title="B", model="m")],
            datasets=[DatasetSettings(name="d", title="D", test="d.jsonl")],
            methods=asked,
        )
        folder = ExperimentFolder(tmp_path / "experiment")
        with folder.lock():
            folder.begin(settings.model_dump(exclude_none=True), environment(0))
            for method in answered:
                folder.cell("b-d").keep_online(method, OUTCOME)
        return read_report(folder)[0]

    return of


def test_a_method_without_any_of_its_controls_is_said_to_be_unchecked(evaluate):
    (verdict,) = evaluate(["mbc"], "mbc").verdicts
    assert (verdict.outcome, len(verdict.controls)) == ("unchecked", 4)
    assert verdict.claim.startswith("MBC's bank was not checked against an empty bank, ")


def test_a_method_has_to_beat_the_controls_that_were_asked(evaluate):
    (verdict,) = evaluate(["mbc", "mbc-empty"], "mbc", "mbc-empty").verdicts
    assert (verdict.outcome, verdict.controls) == ("no", ("mbc-empty",))


def test_the_oracle_leads_nothing(evaluate):
    report = evaluate(["bm25", "oracle"], "bm25", "oracle")
    assert report.cells[0].leader == "bm25"


def test_validations_of_trainings_are_drawn_from_their_logs(evaluate, tmp_path):
    log = EventLog(tmp_path / "log")
    for number, f1 in enumerate((3.0, 5.0)):
        log.append(Validated(10 * number, number, 4, 2, 1.0, f1, None, True, 2.0 - number, 2.5))
    log.close()
    training = tmp_path / "experiment" / "b-d" / "prepared" / "mac"
    training.mkdir(parents=True)
    (tmp_path / "log").rename(training / "events.jsonl")
    (cell,) = evaluate(["mbc"], "mbc").cells
    assert cell.validations == {"mac": ((0, 3.0, 2.0, 2.5), (10, 5.0, 1.0, 2.5))}
    assert {title for title, _ in _figures(cell)} >= {
        "Validation during training: F1, %",
        "Validation during training: loss, nats",
    }


def test_what_is_still_to_be_done_is_listed(evaluate):
    missing = evaluate(["mbc", "mbc-empty", "mbc-wrong"], "mbc").missing
    assert list(missing) == [{"cell": "b-d", "stage": "mbc-empty online, mbc-wrong online", "reason": "not done yet"}]
