"""Tiny base LMs, a small suite of made-up people who moved, and results made up by hand."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from mbc_engine.config import RetrieverReaderSettings
from mbc_engine.evaluation.report import build_report, cell_report
from mbc_engine.evaluation.results import (
    CodeUsage,
    Cost,
    ExperimentFolder,
    Measurement,
    MethodResults,
    Prediction,
    QuestionScores,
)
from mbc_engine.evaluation.running import environment
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.suite import Base, Dataset, Suite
from mbc_engine.events import StageFinished, StageSkipped
from mbc_engine.lm.base import load_base
from mbc_engine.lm.bert import Bert
from mbc_engine.mini.model import build
from mbc_engine.mini.span_reader import SpanReader
from tests.conftest import write_log, write_questions
from tests.finder import random_head

BASE = Base(name="tiny", title="Tiny LM", model="tiny")
DATASET = Dataset(name="quiz", title="Quiz", test="quiz.jsonl")
ORIGIN = {"title": "t", "date": "", "command": "", "seed": 0, "environments": (), "settings": {}}


def predict(right, questions, *, names_sources=False):
    """Predictions for questions about as many documents: the first `right` are correct, the others unanswered."""
    return [
        Prediction(
            f"q{number}",
            number,
            f"What is number {number}?",
            (f"gold {number}", f"the gold {number}"),
            f"answer {number}",
            exact_match=number < right,
            f1=float(number < right),
            lenient_match=number < right,
            rank=number % 2 if names_sources else None,
        )
        for number in range(questions)
    ]


def results_of(predictions):
    """Figures with an interval of two points on either side."""
    share = 100 * sum(one.exact_match for one in predictions) / len(predictions)
    figure = Interval(share, max(0.0, share - 2), share + 2)
    is_ranked = any(one.rank is not None for one in predictions)
    scores = QuestionScores(
        len(predictions), figure, figure, share, 50.0 if is_ranked else None, 100.0 if is_ranked else None
    )
    cost = Cost(len(predictions), 0.25, 1.5, 12_345, 6_789)
    return MethodResults(online=Measurement(scores, cost, predictions=predictions))


def cell_of(methods):
    """The report of a cell whose methods are those with results."""
    return cell_report(BASE, DATASET, methods, [*methods])


def report_of(**methods):
    """The report of one cell: `report_of(mbc=..., mbc_shuffled_codes=...)`."""
    return build_report(ORIGIN, [cell_of({name.replace("_", "-"): results for name, results in methods.items()})])


@pytest.fixture
def published(monkeypatch):
    """Makes the paper report these figures of methods for the cell."""

    def publish(**scores):
        monkeypatch.setattr(
            "mbc_engine.evaluation.methods.published_scores", lambda _base, _dataset, method: scores.get(method)
        )

    return publish


def retention_of(first, kept):
    def step(documents, f1, retained):
        exact_match, found = Interval(10.0, 10.0, 10.0), Interval(f1, f1, f1)
        cost = Cost(documents, 0.1, 0.2, 20 * documents, 10 * documents)
        scores = QuestionScores(2, exact_match, found, 0.0, None, None)
        return Measurement(scores, cost, retained=retained, predictions=predict(0, 2))

    return step(first, 20.0, 100.0), step(2 * first, 0.2 * kept, kept)


@pytest.fixture
def experiment(tmp_path):
    """An experiment's folder: MBC and its controls, fine-tuning with a rate, one stage skipped and one done later."""
    folder = ExperimentFolder(tmp_path)
    settings = {
        "title": "A quiz",
        "seed": 3,
        "bases": [{"name": "tiny", "title": "Tiny LM"}],
        "datasets": [{"name": "quiz", "title": "Quiz", "test": "quiz.jsonl"}],
        "methods": ["mbc", "uniform", "closed-book", "mbc-shuffled-codes", "mbc-wrong"],
        "documents": 120,
    }
    asked = {
        "mbc": predict(60, 120, names_sources=True),
        "mbc-shuffled-codes": predict(2, 120),
        "uniform": predict(3, 120),
        "closed-book": predict(4, 120),
    }
    with folder.lock():
        folder.begin(settings, environment(3, command="mbc eval"), settings)
        cell = folder.cell("tiny-quiz")
        for method, predictions in asked.items():
            online = results_of(predictions).online
            cell.write_measured(method, "online", [online])
            if not method.startswith("mbc-"):
                for size in (16, 64):
                    scaled = replace(online, cost=Cost(size, 0.1, 0.2, 3 * size, None))
                    cell.write_measured(method, f"scaling-{size}", [scaled])
        cell.write_measured("mbc", "retention", retention_of(200, 90.0))
        cell.write("uniform", "rate", 2.5e-05)
        usage = CodeUsage(16, ((0, 4.0), (10, 9.0), (20, 12.0)), ((0, 4.0), (10, 3.0), (20, 2.0)))
        cell.write("", "code-usage", usage)
        write_log(
            folder.events,
            StageSkipped("tiny-quiz", "uniform online", "no room"),
            StageFinished("tiny-quiz", "uniform online", 3.0, was_kept=False),
            StageSkipped("tiny-quiz", "mbc-wrong online", "there are no other documents"),
        )
    return folder


def assert_resumes(training, folder, stops_after, weights):
    """A training that is begun again has the losses and the weights of one that was not interrupted."""

    def losses_of(events):
        return {event.step: event.loss for event in events}

    whole, interrupted = losses_of(training(folder / "whole")), training(folder / "parts")
    before = losses_of(next(interrupted) for _ in range(stops_after))
    interrupted.close()  # like a kill: only what is on the disk is left
    rest = losses_of(training(folder / "parts"))
    assert min(rest) == stops_after  # whose snapshot was not written yet
    assert before | rest == whole
    expected, found = (load_file(folder / run / weights) for run in ("whole", "parts"))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.fixture(params=["llama"])
def base(request, tiny):
    return load_base(str(tiny.bases[request.param]))


@pytest.fixture
def settings(tiny, tmp_path, examples):
    """Settings of a tiny experiment, with changes: `settings(methods=["mbc"])`."""
    preset = tmp_path / "tiny.toml"
    preset.write_text(tiny.config("gpt2", "bert", "model.routing=true", "training.epochs=1").to_toml())
    people = examples(40)
    dataset = {
        "name": "people",
        "title": "People",
        "train": [str(write_questions(tmp_path / "train.jsonl", people[:20]))],
        "validation": str(write_questions(tmp_path / "validation.jsonl", people[20:26])),
        "test": str(write_questions(tmp_path / "test.jsonl", people[26:])),
    }
    given = {
        "title": "Tiny",
        "bases": [{"name": "tiny", "title": "Tiny GPT-2", "preset": str(preset)}],
        "datasets": [dataset],
        "methods": ["mbc", "mbc-empty"],
        "documents": 8,
        "rates": [1e-3, 1e-4],
        "document_window": 16,
        "retention": {"first": 2, "step": 3, "further": 6},
        "scaling": [2, 8],
        "question_training": {"epochs": 1, "batch_size": 8},
        "reading_training": {"epochs": 1, "batch_size": 8},
        "camels": {"steps": 1, "inner_documents": 2, "inner_batches": 1},
    }

    def make(**changes):
        return Suite.model_validate({**given, **changes})

    return make


@pytest.fixture
def reader(tiny):
    """A retriever-reader whose encoder and reader are tiny and not trained."""
    name = str(tiny.encoders["bert"])
    settings = RetrieverReaderSettings.model_validate(
        {
            "encoder": name,
            "window": 32,
            "address": {"tokens": 4, "codes": 16, "dim": 2},
            "readers": [{"name": "own", "encoder": name, "confidence": {"weights": {}}}],
        }
    )
    return build(settings, settings.readers[0], lambda: SpanReader(Bert.open(name), random_head(24, 3), window=32))
