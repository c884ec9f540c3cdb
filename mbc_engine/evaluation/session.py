"""A method at work on a stream of documents: fed and asked in batches, watched and timed."""

import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

from mbc_engine.datasets.example import QAExample
from mbc_engine.evaluation.predictions import predict
from mbc_engine.evaluation.results import Prediction
from mbc_engine.evaluation.stream import Stream
from mbc_engine.events import DocumentsAdapted, Event, QuestionsAnswered
from mbc_engine.methods.method import Method, Reply
from mbc_engine.metrics import Golds

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
            yield DocumentsAdapted(self._adapted, self._documents)
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
            yield QuestionsAnswered(self._answered, self._questions)
        return Asked([found[number] for number in range(len(examples))], names_sources, seconds)

    def kept(self) -> Kept:
        """What the method keeps of the documents; the paper counts a row for each question there is, asked or not."""
        footprint = self._method.footprint()
        count, rows = footprint.paper, len(self._stream.about(self.start, self.end))
        return Kept(footprint.on_disk, None if count is None else count.fixed + count.row * rows)

    def _predict(self, example: QAExample, reply: Reply) -> Prediction:
        document = self._stream.place_of[example.text]
        return predict(example, reply, document=document, place=document - self.start, golds=self._golds)


def _now() -> float:
    """Seconds on a clock, read when a GPU has done what it was given: else it would be timed with what comes next."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter()
