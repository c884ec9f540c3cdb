"""Experiments made up by hand."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.evaluation.folder import ExperimentFolder, environment
from mbc_engine.evaluation.protocols import Outcome
from mbc_engine.evaluation.report.building import CellResults, MethodResults
from mbc_engine.evaluation.report.report import Known, KnownMethod
from mbc_engine.evaluation.results import (
    CodeUsage,
    Cost,
    Curve,
    Figure,
    Online,
    Prediction,
    QuestionScores,
    RateSweep,
    Retention,
    RetentionStep,
    Scaling,
    ScalingStep,
)
from mbc_engine.events import StageFinished, StageSkipped
from mbc_engine.runs.event_log import EventLog

TITLES = {
    "mbc": "MBC",
    "uniform": "Uniform",
    "closed-book": "Closed book",
    "oracle": "Oracle document",
    "mbc-empty": "MBC, empty bank",
    "mbc-wrong": "MBC, wrong bank",
}
SPOILT = {"mbc-empty": "an empty bank", "mbc-wrong": "a bank of other documents"}
CONTROLS = {"mbc": ("mbc-empty", "mbc-wrong"), "uniform": ("closed-book",)}

Predict = Callable[..., list[Prediction]]
ResultsOf = Callable[[Sequence[Prediction]], MethodResults]


@pytest.fixture
def titles() -> dict[str, str]:
    return dict(TITLES)


@pytest.fixture
def controls() -> dict[str, tuple[str, ...]]:
    return dict(CONTROLS)


def _know(controls: Mapping[str, Sequence[str]] | None = None, **published: Any) -> Known:
    own = CONTROLS if controls is None else controls
    return Known(
        {
            name: KnownMethod(title, tuple(own.get(name, ())), SPOILT.get(name, ""), is_told=name == "oracle")
            for name, title in TITLES.items()
        },
        **published,
    )


@pytest.fixture
def know() -> Callable[..., Known]:
    """What is known of the methods, with whatever controls."""
    return _know


@pytest.fixture
def known() -> Known:
    return _know()


def _predict(right: int, questions: int, *, text: str = "answer", names_sources: bool = False) -> list[Prediction]:
    """Questions about as many documents, of which the first `right` are answered rightly, the others not at all."""
    return [
        Prediction(
            f"q{number}",
            number,
            f"What is number {number}?",
            (f"gold {number}", f"the gold {number}"),
            f"{text} {number}",
            exact_match=number < right,
            f1=float(number < right),
            lenient_match=number < right,
            rank=number % 2 if names_sources else None,
        )
        for number in range(questions)
    ]


def _results(predictions: Sequence[Prediction]) -> MethodResults:
    """Figures with an interval of two points on either side."""
    share = 100 * sum(one.exact_match for one in predictions) / len(predictions)
    figure = Figure(share, max(0.0, share - 2), share + 2)
    is_ranked = any(one.rank is not None for one in predictions)
    scores = QuestionScores(
        len(predictions), figure, figure, share, 50.0 if is_ranked else None, 100.0 if is_ranked else None
    )
    return MethodResults(Online(1, scores, Cost(len(predictions), 0.25, 1.5, 12_345, 6_789)), predictions)


@pytest.fixture
def predict() -> Predict:
    return _predict


@pytest.fixture
def results_of() -> ResultsOf:
    return _results


@pytest.fixture
def cell_of() -> Callable[..., CellResults]:
    def cell(methods: dict[str, MethodResults], code_usage: CodeUsage | None = None) -> CellResults:
        return CellResults("tiny-quiz", "tiny", "quiz", "Tiny LM", "Quiz", methods, code_usage)

    return cell


def retention_of(kept: float) -> Retention:
    return Retention(
        2,
        (
            RetentionStep(200, 10.0, 20.0, 100.0, 4_000, 2_000),
            RetentionStep(400, 10.0, 0.2 * kept, kept, 8_000, 4_000),
        ),
    )


@pytest.fixture
def make_experiment(tmp_path: Path) -> Callable[..., ExperimentFolder]:
    """An experiment's folder: MBC and its controls, fine-tuning with a rate, one stage skipped and one made up for."""

    def make(name: str = "run", *, right: int = 60, questions: int = 120, title: str = "A quiz") -> ExperimentFolder:
        folder = ExperimentFolder(tmp_path / name)
        settings = {
            "title": title,
            "seed": 3,
            "bases": [{"name": "tiny", "title": "Tiny LM"}],
            "datasets": [{"name": "quiz", "title": "Quiz", "test": "quiz.jsonl"}],
            "documents": questions,
        }
        asked = {
            "mbc": _predict(right, questions, text="remembered", names_sources=True),
            "mbc-empty": _predict(2, questions, text="guessed"),
            "uniform": _predict(3, questions, text="tuned"),
            "closed-book": _predict(4, questions, text="closed"),
        }
        with folder.at_work():
            folder.begin(settings, environment(3), f"mbc eval --run {name}")
            cell = folder.cell("tiny-quiz")
            for method, predictions in asked.items():
                online = _results(predictions).online
                assert online is not None
                cell.method(method).keep_online(Outcome(online, predictions))
                if not method.startswith("mbc-"):
                    scaling = tuple(
                        ScalingStep(online.scores, Cost(16 * 4**n, 0.1, 0.2, 50 * 4**n, None)) for n in (0, 1)
                    )
                    cell.method(method).scaling.write(Scaling(scaling))
            cell.method("mbc").retention.write(retention_of(90.0))
            cell.method("uniform").rate.write(RateSweep(2.5e-05, ()))
            cell.code_usage.write(
                CodeUsage(16, Curve((0, 10, 20), (4.0, 9.0, 12.0)), Curve((0, 10, 20), (4.0, 3.0, 2.0)))
            )
            log = EventLog(folder.events)
            log.append(StageSkipped("tiny-quiz", "uniform online", "no room"))
            log.append(StageFinished("tiny-quiz", "uniform online", 3.0, was_kept=False))
            log.append(StageSkipped("tiny-quiz", "mbc-wrong online", "there are no other documents"))
            log.close()
        return folder

    return make
