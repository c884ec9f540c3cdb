"""The protocols: what a method takes in of a stream of documents, and when it is asked what.

Online adaptation (paper, section 4.2): a method takes in all documents, then answers the questions about them.
Retention (paper, section 4.4.3): how well the first documents are still known while others arrive.
Scaling: how quality, time and bytes depend on how many documents share a memory, on the same questions at every size.
"""

import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Final

from mbc_engine.datasets.layout import QAExample, evenly_spaced
from mbc_engine.errors import DataError
from mbc_engine.evaluation.results import Cost, Measurement, Outcome, Prediction, QuestionScores, predict, score
from mbc_engine.events import Event, Progressed
from mbc_engine.methods.method import Method
from mbc_engine.metrics import Golds


@dataclass(frozen=True)
class Stream:
    """Documents in the order in which they arrive, all questions about them, and how many are asked at most."""

    documents: tuple[str, ...]
    examples: tuple[QAExample, ...]
    most_questions: int | None = None

    @cached_property
    def place_of(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.documents)}

    def about(self, start: int, end: int) -> list[QAExample]:
        return [example for example in self.examples if start <= self.place_of[example.text] < end]

    def asked_about(self, end: int) -> list[QAExample]:
        return evenly_spaced(self.about(0, end), self.most_questions)


def stream(examples: Sequence[QAExample], documents: int | None = 1665, questions: int | None = None) -> Stream:
    """The first documents of a dataset, and the questions about them; a protocol asks at most `questions`, evenly spaced.

    Raises DataError if there are no questions.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give a dataset with questions to test with.")
    texts = tuple(dict.fromkeys(example.text for example in examples))[:documents]
    taken = set(texts)
    return Stream(texts, tuple(example for example in examples if example.text in taken), questions)


_BATCH: Final = 32


class _Session:
    """Leads a method through a stream in batches, and times it. It has taken in the documents from `start` to `end`.

    `documents` and `questions` are how many there will be in all, for events. The first batches of all are not timed.
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
        """Take in the next documents of the stream, up to place `end`; returns the seconds that the method took."""
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
        """Ask questions, those of about one length together; returns predictions in their order, and the seconds."""
        order = sorted(range(len(examples)), key=lambda number: len(examples[number].question))
        found, seconds = dict[int, Prediction](), 0.0
        for first in range(0, len(order), self._batch_size):
            batch = order[first : first + self._batch_size]
            questions = [examples[number].question for number in batch]
            began = _now()
            answers = self._method.answer(questions)
            seconds += _now() - began
            for number, answer in zip(batch, answers, strict=True):
                example, document = examples[number], self._stream.place_of[examples[number].text]
                place = document - self.start
                found[number] = predict(example, answer, document=document, place=place, golds=self._golds)
                self._names_sources |= answer.sources is not None
            self._answered += len(batch)
            yield Progressed("answer questions", self._answered, self._questions)
        return [found[number] for number in range(len(examples))], seconds

    def kept(self) -> tuple[int, int | None]:
        # The paper counts a row for each question there is, asked or not.
        footprint = self._method.footprint()
        row, rows = footprint.paper_row, len(self._stream.about(self.start, self.end))
        return footprint.on_disk, None if row is None else footprint.paper_fixed + row * rows

    def scores(self, predictions: Sequence[Prediction]) -> QuestionScores:
        return score(predictions, names_sources=self._names_sources, seed=self._seed)


def _now() -> float:
    """Seconds on a clock, once a GPU has finished what it was given."""
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
    """Let a method take in the stream, and ask it the questions; it is reset before, not after.

    Times are of whole batches, shared out among their documents and questions; what a method puts off until it is
    asked counts as time to answer. With `bank_documents` the stream is cut into memories of as many documents, each
    begun anew and asked about its own; a last, smaller one is left out unless it is the only one. Costs are then means
    over the memories, and predictions are in their order. `seed` is of the intervals' draws.
    """
    size = min(bank_documents or len(stream.documents), len(stream.documents))
    banks = len(stream.documents) // size
    asked = stream.asked_about(banks * size)
    session = _Session(method, stream, banks * size, len(asked), golds, batch_size, seed)
    members: list[list[QAExample]] = [[] for _ in range(banks)]
    for example in asked:
        members[stream.place_of[example.text] // size].append(example)
    asking = adapting = 0.0
    predictions: list[Prediction] = []
    on_disk, papers = list[int](), list[int]()
    for own in members:
        session.begin_anew()
        adapting += yield from session.adapt(session.start + size)
        answers, seconds = yield from session.ask(own)
        asking += seconds
        predictions += answers
        stored, counted = session.kept()
        on_disk.append(stored)
        papers += [] if counted is None else [counted]
    cost = Cost(
        documents=size,
        seconds_per_document=adapting / (banks * size),
        seconds_per_answer=asking / len(predictions),
        on_disk=round(fmean(on_disk)),
        paper_bytes=round(fmean(papers)) if papers else None,
    )
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
    """How well a method answers questions about documents that it takes in first; see `online`.

        outcome = result_of(evaluate(RetrieveAndRead(load_model("mini")), load_examples("questions.jsonl")))

    Methods are such as `RetrieveAndRead(model)`, or `MemoryMethod(model)` for a model of the paper's method. `documents`,
    those of a memory (`bank_documents`) and `questions`, spread evenly, are the most; None takes all. The outcome has
    scores in percent, seconds, bytes, and every answer. Raises DataError if there are no questions.
    """
    taken = stream(examples, documents, questions)
    return online(method, taken, bank_documents=bank_documents, golds=golds, seed=seed)


def retention(
    method: Method,
    stream: Stream,
    *,
    first: int = 200,
    step: int = 200,
    further: int = 1400,
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, tuple[Measurement, ...]]:
    """Ask the questions about the `first` documents after these, and again after each `step` of up to `further` others.

    A shorter stream gives fewer steps; DataError if it ends before the first.
    """
    sizes = range(first, min(first + further, len(stream.documents)) + 1, step)
    if len(sizes) < 2:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for retention, which needs {first:,} to ask about and at "
            f"least {step:,} more.",
            hint="Use more documents, or lower `first` and `step` of [retention].",
        )
    asked = stream.asked_about(first)
    session = _Session(method, stream, sizes[-1], len(sizes) * len(asked), golds, _BATCH, seed)
    steps: list[Measurement] = []
    for size in sizes:
        added = size - session.end
        adapting = yield from session.adapt(size)
        predictions, asking = yield from session.ask(asked)
        cost = Cost(size, adapting / added, asking / len(asked), *session.kept())
        steps.append(Measurement(session.scores(predictions), cost))
    at_first = steps[0].scores.f1.value
    return tuple(
        replace(found, retained=100 * (found.scores.f1.value / at_first) if at_first else None) for found in steps
    )


def scaling(
    method: Method,
    stream: Stream,
    sizes: Sequence[int],
    *,
    known: Sequence[Measurement] = (),
    golds: Golds = "shortest",
    seed: int = 0,
) -> Generator[Event, None, tuple[Measurement, ...]]:
    """Cut the stream into memories of a size, each asked about its own documents (see `online`), size by size.

    So only the number of other documents changes from size to size, but for those of a last, smaller memory, which is
    left out. Sizes beyond the stream are left out; DataError if all are. Of a size in `known`, measured before by
    `online`, nothing is asked again.
    """
    measured = {one.cost.documents: one for one in known}
    filled = sorted({size for size in sizes if size <= len(stream.documents)})
    if not filled:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for scaling, which starts at {min(sizes):,}.",
            hint="Use more documents, or give `scaling` smaller sizes.",
        )
    for size in filled:
        if size not in measured:
            outcome = yield from online(method, stream, bank_documents=size, golds=golds, seed=seed)
            measured[size] = outcome.online
    return tuple(measured[size] for size in filled)
