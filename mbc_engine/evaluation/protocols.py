"""The protocols: which documents of a stream a method memorises, and when it is asked which questions.

Online adaptation (paper, section 4.2): a method memorises all documents, then answers the questions about them.
Retention (paper, section 4.4.3): how well the first documents are remembered as others arrive.
Scaling: online adaptation with the stream split into memories of one size and another, on the same questions, except
that a smaller last memory is dropped.
"""

import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Final

from mbc_engine.datasets.layout import QAExample, evenly_spaced
from mbc_engine.errors import DataError
from mbc_engine.evaluation.methods import Method
from mbc_engine.evaluation.results import Cost, Measurement, Outcome, Prediction, QuestionScores, predict, score
from mbc_engine.evaluation.statistics import ratio
from mbc_engine.evaluation.suite import Retention
from mbc_engine.events import Event, Progressed
from mbc_engine.metrics import Golds


@dataclass(frozen=True)
class Stream:
    """Documents in order of arrival, all questions about them, and the most that are asked."""

    documents: tuple[str, ...]
    examples: tuple[QAExample, ...]
    most_questions: int | None = None

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {text: index for index, text in enumerate(self.documents)}

    def about(self, start: int, end: int) -> list[QAExample]:
        return [example for example in self.examples if start <= self.index_of[example.text] < end]

    def asked_about(self, end: int) -> list[QAExample]:
        return evenly_spaced(self.about(0, end), self.most_questions)


def stream(examples: Sequence[QAExample], documents: int | None = 1665, questions: int | None = None) -> Stream:
    """The first documents of a dataset and the questions about them; protocols ask at most `questions`, evenly spaced.

    Raises DataError if there are no questions.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give a dataset with questions to test with.")
    texts = tuple(dict.fromkeys(example.text for example in examples))[:documents]
    taken = set(texts)
    return Stream(texts, tuple(example for example in examples if example.text in taken), questions)


_BATCH: Final = 32


class _Session:
    """Runs a method on a stream in batches, and times it. It has memorised the documents from `start` to `end`.

    `documents` and `questions` are the totals for events. An untimed warm-up comes first.
    """

    def __init__(
        self, method: Method, stream: Stream, documents: int, questions: int, golds: Golds, batch_size: int, seed: int
    ) -> None:
        self._method, self._stream, self._golds, self._batch_size = method, stream, golds, batch_size
        self._seed, self._documents, self._questions = seed, documents, questions
        self._adapted = self._answered = 0
        self._names_sources = False
        self.start = self.end = 0
        method.reset()
        method.adapt([stream.examples[0].text])
        method.answer([stream.examples[0].question])
        method.reset()

    def begin_anew(self) -> None:
        self._method.reset()
        self.start = self.end

    def adapt(self, end: int) -> Generator[Event, None, float]:
        """Memorise the next documents of the stream, up to index `end`; returns the seconds the method took."""
        seconds = 0.0
        while self.end < end:
            batch = self._stream.documents[self.end : min(end, self.end + self._batch_size)]
            began = _now()
            self._method.adapt(batch)
            seconds += _now() - began
            self.end += len(batch)
            self._adapted += len(batch)
            yield Progressed("take in documents", self._adapted, self._documents)
        return seconds

    def ask(self, examples: Sequence[QAExample]) -> Generator[Event, None, tuple[list[Prediction], float]]:
        """Ask questions, batched by length; returns predictions in the order of `examples`, and the seconds taken."""
        order = sorted(range(len(examples)), key=lambda number: len(examples[number].question))
        predictions, seconds = dict[int, Prediction](), 0.0
        for first in range(0, len(order), self._batch_size):
            batch = order[first : first + self._batch_size]
            questions = [examples[number].question for number in batch]
            began = _now()
            answers = self._method.answer(questions)
            seconds += _now() - began
            for number, answer in zip(batch, answers, strict=True):
                document = self._stream.index_of[examples[number].text]
                predictions[number] = predict(
                    examples[number],
                    answer,
                    stream_index=document,
                    memory_index=document - self.start,
                    golds=self._golds,
                )
                self._names_sources |= answer.sources is not None
            self._answered += len(batch)
            yield Progressed("answer questions", self._answered, self._questions)
        return [predictions[number] for number in range(len(examples))], seconds

    def stored(self) -> tuple[int, int | None, int, int]:
        """Bytes on disk, as the paper counts them, of the codebook, and of the documents' text."""
        # The paper counts a row for every question, asked or not.
        footprint = self._method.footprint()
        row, rows = footprint.paper_row, len(self._stream.about(self.start, self.end))
        text = sum(len(one.encode(errors="surrogatepass")) for one in self._stream.documents[self.start : self.end])
        paper = None if row is None else footprint.paper_fixed + row * rows
        return footprint.on_disk, paper, footprint.paper_fixed, text

    def scores(self, predictions: Sequence[Prediction]) -> QuestionScores:
        return score(predictions, names_sources=self._names_sources, seed=self._seed)


def _now() -> float:
    """The time in seconds, after pending GPU work has finished."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


def online(
    method: Method,
    stream: Stream,
    *,
    bank_documents: int | None = None,
    golds: Golds = "shortest",
    batch_size: int = _BATCH,
    seed: int = 0,
) -> Generator[Event, None, Outcome]:
    """Have a method memorise the stream, then ask it the questions; it is reset before, not after.

    Times are those of whole batches, averaged per document and question; work that a method defers until it is asked
    counts as answering time. `bank_documents` splits the stream into memories of that many documents, each started
    empty and asked about its own; a smaller last one is dropped unless it is the only one. Costs are then means over
    the memories, and predictions are in their order. `seed` is for the bootstrap intervals.
    """
    size = min(bank_documents or len(stream.documents), len(stream.documents))
    banks = len(stream.documents) // size
    asked = stream.asked_about(banks * size)
    session = _Session(method, stream, banks * size, len(asked), golds, batch_size, seed)
    members: list[list[QAExample]] = [[] for _ in range(banks)]
    for example in asked:
        members[stream.index_of[example.text] // size].append(example)
    asking = adapting = 0.0
    predictions: list[Prediction] = []
    sizes = list[tuple[int, int | None, int, int]]()
    for examples in members:
        session.begin_anew()
        adapting += yield from session.adapt(session.start + size)
        answers, seconds = yield from session.ask(examples)
        asking += seconds
        predictions += answers
        sizes.append(session.stored())
    means = [None if None in each else round(fmean(each)) for each in zip(*sizes, strict=True)]
    cost = Cost(size, adapting / (banks * size), asking / len(predictions), *means)  # type: ignore[arg-type]
    return Outcome(Measurement(session.scores(predictions), cost, banks), predictions)


def evaluate(
    method: Method,
    examples: Sequence[QAExample],
    *,
    documents: int | None = None,
    bank_documents: int | None = None,
    questions: int | None = None,
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, Outcome]:
    """Measure how well a method answers questions about documents it has memorised; see `online`.

        outcome = run_to_completion(evaluate(RetrieveAndRead(load_model("mini")), load_examples("questions.jsonl")))

    For a model of the paper's method, use `MemoryMethod(model)`. `documents`, `bank_documents` (per memory) and
    `questions` (evenly spaced) are upper limits; None takes all. The outcome has scores in percent, seconds, bytes, and
    every answer. Raises DataError if there are no questions.
    """
    taken = stream(examples, documents, questions)
    return online(method, taken, bank_documents=bank_documents, golds=golds, seed=seed)


def retention(
    method: Method,
    stream: Stream,
    settings: Retention,
    *,
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, tuple[Outcome, ...]]:
    """Ask about the `first` documents once they are memorised, and again after every `step` of up to `further` others.

    A shorter stream gives fewer steps; raises DataError if it ends before the first.
    """
    step, further = settings.step, settings.further
    sizes = range(settings.first, min(settings.first + further, len(stream.documents)) + 1, step)
    if len(sizes) < 2:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for retention, which needs {settings.first:,} to ask about "
            f"and at least {step:,} more.",
            hint="Use more documents, or lower `first` and `step` of [retention].",
        )
    asked = stream.asked_about(settings.first)
    session = _Session(method, stream, sizes[-1], len(sizes) * len(asked), golds, _BATCH, seed)
    steps: list[Outcome] = []
    for size in sizes:
        added = size - session.end
        adapting = yield from session.adapt(size)
        predictions, asking = yield from session.ask(asked)
        cost = Cost(size, adapting / added, asking / len(asked), *session.stored())
        clusters = [one.cluster for one in predictions]
        first = steps[0].predictions if steps else predictions
        now, before = [one.f1 for one in predictions], [one.f1 for one in first]
        measured = Measurement(session.scores(predictions), cost, retained=ratio(now, before, clusters, seed=seed))
        steps.append(Outcome(measured, predictions))
    return tuple(steps)
