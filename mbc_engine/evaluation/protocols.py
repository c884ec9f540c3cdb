"""The stream of documents that an evaluation lives through, and the questions about them.

A method at work on a stream of documents: fed and asked in batches, watched and timed.

Online adaptation (paper, section 4.2): a method takes in all documents, then answers the questions about them.

Retention (paper, section 4.4.3): how well the first documents are still known while others arrive.

Scaling: how quality, time and bytes change as the memory grows, on the same questions at every size.
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
from mbc_engine.evaluation.results import (
    Cost,
    Online,
    Prediction,
    Retention,
    RetentionStep,
    Scaling,
    ScalingStep,
    predict,
    score,
)
from mbc_engine.events import Event, Progressed
from mbc_engine.methods.method import Method, MethodReply
from mbc_engine.metrics import Golds


@dataclass(frozen=True)
class Stream:
    """Documents in the order in which they arrive, each once.

    Attributes:
        documents: their texts.
        examples: all questions about them, in the dataset's order.
        most_questions: most questions that a protocol asks; None for all.
    """

    documents: tuple[str, ...]
    examples: tuple[QAExample, ...]
    most_questions: int | None = None

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Each document's place."""
        return {text: place for place, text in enumerate(self.documents)}

    def about(self, start: int, end: int) -> list[QAExample]:
        """All questions about the documents of these places."""
        return [example for example in self.examples if start <= self.place_of[example.text] < end]

    def asked_about(self, end: int) -> list[QAExample]:
        """The questions to ask about the first `end` documents: all, or as many as are asked, evenly spaced."""
        return evenly_spaced(self.about(0, end), self.most_questions)


def stream(examples: Sequence[QAExample], documents: int | None = 1665, questions: int | None = None) -> Stream:
    """The first documents of a dataset and the questions about them.

    Args:
        examples: questions and their documents.
        documents: most documents, the paper's 1,665; None takes all.
        questions: most questions that a protocol asks, evenly spaced over those it could ask; None asks all. It is the
            questions that are fewer then, not the documents.

    Raises:
        DataError: there are no questions.
    """
    if not examples:
        raise DataError("There are no questions to ask.", hint="Give a dataset with questions to test with.")
    texts = tuple(dict.fromkeys(example.text for example in examples))[:documents]
    taken = set(texts)
    return Stream(texts, tuple(example for example in examples if example.text in taken), questions)


BATCH: Final = 32


@dataclass(frozen=True)
class Asked:
    """What became of questions.

    Attributes:
        predictions: in the order of the questions.
        names_sources: whether the method named sources of any answer.
        seconds: how long the method took for all of them.
    """

    predictions: list[Prediction]
    names_sources: bool
    seconds: float


@dataclass(frozen=True)
class Kept:
    """Bytes of a memory, as it is stored and as the paper counts it; None where it counts none."""

    on_disk: int
    paper_bytes: int | None


class Session:
    """Leads a method through a stream. What it has taken in are the documents from `start` to `end`.

    Args:
        method: what is evaluated; it is reset.
        stream: the documents and questions.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.
        documents, questions: how many there will be in all, for events.
    """

    def __init__(
        self, method: Method, stream: Stream, *, golds: Golds, batch_size: int, documents: int, questions: int
    ) -> None:
        self._method, self._stream, self._golds, self._batch_size = method, stream, golds, batch_size
        self._documents, self._questions = documents, questions
        self._adapted = self._answered = 0
        self.start = self.end = 0
        method.reset()

    def warm_up(self) -> None:
        """Go through one document and one question, so that what happens but once is over before anything is timed."""
        example = self._stream.examples[0]
        self._method.adapt([example.text])
        self._method.answer([example.question])
        self._method.reset()

    def begin_anew(self) -> None:
        """Forget the documents; the next ones are those after them."""
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

    def ask(self, examples: Sequence[QAExample]) -> Generator[Event, None, Asked]:
        """Ask questions about documents that were taken in, those of about one length together."""
        order = sorted(range(len(examples)), key=lambda number: len(examples[number].question))
        found: dict[int, Prediction] = {}
        names_sources, seconds = False, 0.0
        for first in range(0, len(order), self._batch_size):
            batch = order[first : first + self._batch_size]
            questions = [examples[number].question for number in batch]
            began = _now()
            replies = self._method.answer(questions)
            seconds += _now() - began
            for number, reply in zip(batch, replies, strict=True):
                found[number] = self._predict(examples[number], reply)
                names_sources |= reply.sources is not None
            self._answered += len(batch)
            yield Progressed("answer questions", self._answered, self._questions)
        return Asked([found[number] for number in range(len(examples))], names_sources, seconds)

    def kept(self) -> Kept:
        """What the method keeps of the documents; the paper counts a row for each question there is, asked or not."""
        footprint = self._method.footprint()
        row, rows = footprint.paper_row, len(self._stream.about(self.start, self.end))
        return Kept(footprint.on_disk, None if row is None else footprint.paper_fixed + row * rows)

    def _predict(self, example: QAExample, reply: MethodReply) -> Prediction:
        document = self._stream.place_of[example.text]
        return predict(example, reply, document=document, place=document - self.start, golds=self._golds)


def _now() -> float:
    """Seconds on a clock, read when a GPU has done what it was given: else it would be timed with what comes next."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()


@dataclass(frozen=True)
class Outcome:
    """What online adaptation came to, and every answer of it."""

    online: Online
    predictions: list[Prediction]


def online(
    method: Method,
    stream: Stream,
    *,
    bank_documents: int | None = None,
    golds: Golds = "shortest",
    batch_size: int = BATCH,
    seed: int = 0,
) -> Generator[Event, None, Outcome]:
    """Let a method take in the stream, and ask it the questions.

    Times are of whole batches, shared out among their documents and questions; what a method puts off until it is
    asked counts as time to answer. One document and one question come before, untimed, and are forgotten again.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions.
        bank_documents: how many documents a memory holds. The stream is then cut into as many as it fills, a method
            begins each anew and is asked about its documents alone; a last, smaller one is left out unless it is the
            only one. None puts all documents in one memory.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.
        seed: of the intervals' draws.

    Returns:
        The figures, and the predictions in the order of the memories. Costs are means over the memories.
    """
    size = min(bank_documents or len(stream.documents), len(stream.documents))
    banks = len(stream.documents) // size
    asked = stream.asked_about(banks * size)
    session = Session(method, stream, golds=golds, batch_size=batch_size, documents=banks * size, questions=len(asked))
    session.warm_up()
    members: list[list[QAExample]] = [[] for _ in range(banks)]
    for example in asked:
        members[stream.place_of[example.text] // size].append(example)
    asked_seconds, adapted_seconds, names_sources = 0.0, 0.0, False
    predictions: list[Prediction] = []
    kept: list[Kept] = []
    for own in members:
        session.begin_anew()
        adapted_seconds += yield from session.adapt(session.start + size)
        answers = yield from session.ask(own)
        asked_seconds += answers.seconds
        names_sources |= answers.names_sources
        predictions += answers.predictions
        kept.append(session.kept())
    papers = [own.paper_bytes for own in kept if own.paper_bytes is not None]
    cost = Cost(
        documents=size,
        seconds_per_document=adapted_seconds / (banks * size),
        seconds_per_answer=asked_seconds / len(predictions),
        on_disk=round(fmean(own.on_disk for own in kept)),
        paper_bytes=round(fmean(papers)) if papers else None,
    )
    scores = score(predictions, names_sources=names_sources, seed=seed)
    return Outcome(Online(banks, scores, cost), predictions)


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

    Args:
        method: what is evaluated, such as `RetrieveAndRead(model)`, or `MemoryMethod(model)` for a model of the paper's method.
        examples: questions and their documents.
        documents: most documents; None takes all.
        bank_documents: how many documents a memory holds; None puts all in one.
        questions: most questions, spread evenly; None asks all.
        golds: which gold answers count.
        seed: of the intervals' draws.

    Returns:
        An `Outcome`. `online.scores` has exact match, F1 and how often the right document came first, in percent;
        `online.cost` seconds and bytes; `predictions` every answer.

    Raises:
        DataError: there are no questions.
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
    batch_size: int = BATCH,
) -> Generator[Event, None, Retention]:
    """Ask the questions about the first documents after these, and again each time that so many more were taken in.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions; a shorter one gives fewer steps.
        first: how many documents are asked about.
        step: documents from one time to the next.
        further: documents beyond the first, at most.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.

    Raises:
        DataError: the stream ends before the first step.
    """
    sizes = range(first, min(first + further, len(stream.documents)) + 1, step)
    if len(sizes) < 2:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for retention: {first:,} are asked about, and at least "
            f"{step:,} have to follow.",
            hint="Take more documents, or set `first` and `step` of [retention] to less.",
        )
    asked = stream.asked_about(first)
    session = Session(
        method, stream, golds=golds, batch_size=batch_size, documents=sizes[-1], questions=len(sizes) * len(asked)
    )
    steps: list[RetentionStep] = []
    for size in sizes:
        yield from session.adapt(size)
        answers = yield from session.ask(asked)
        exact_match = 100 * fmean(prediction.exact_match for prediction in answers.predictions)
        f1 = 100 * fmean(prediction.f1 for prediction in answers.predictions)
        at_first = steps[0].f1 if steps else f1
        retained = 100 * (f1 / at_first) if at_first else None
        kept = session.kept()
        steps.append(RetentionStep(size, exact_match, f1, retained, kept.on_disk, kept.paper_bytes))
    return Retention(len(asked), tuple(steps))


def scaling(
    method: Method,
    stream: Stream,
    sizes: Sequence[int],
    *,
    golds: Golds = "shortest",
    batch_size: int = BATCH,
    seed: int = 0,
) -> Generator[Event, None, Scaling]:
    """Ask the questions about the first documents, as many as the smallest size, of memories of every size.

    Other documents only come in between: what changes from size to size is how many a method has to tell apart, or has
    learnt since, and nothing else. Times to take a document in are of those that were added for a size; see `online`.

    Args:
        method: what is evaluated; it is reset before, not after.
        stream: the documents and the questions.
        sizes: documents of the memories, in any order; those of more than the stream has are left out.
        golds: which gold answers count.
        batch_size: documents, and questions, at a time.
        seed: of the intervals' draws.

    Raises:
        DataError: the stream fills no memory.
    """
    filled = sorted({size for size in sizes if size <= len(stream.documents)})
    if not filled:
        raise DataError(
            f"{len(stream.documents):,} documents are too few for scaling, which begins with {min(sizes):,}.",
            hint="Take more documents, or give `scaling` smaller sizes.",
        )
    asked = stream.asked_about(filled[0])
    session = Session(
        method, stream, golds=golds, batch_size=batch_size, documents=filled[-1], questions=len(filled) * len(asked)
    )
    session.warm_up()
    steps: list[ScalingStep] = []
    for size in filled:
        added = size - session.end
        adapting = yield from session.adapt(size)
        answers = yield from session.ask(asked)
        kept = session.kept()
        cost = Cost(size, adapting / added, answers.seconds / len(asked), kept.on_disk, kept.paper_bytes)
        steps.append(ScalingStep(score(answers.predictions, names_sources=answers.names_sources, seed=seed), cost))
    return Scaling(tuple(steps))
