"""Questions answered one after the other in a thread, by a model that is loaded when it is needed first."""

import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from mbc_cli.asking import Asker, opened
from mbc_cli.render.terminal import notes
from mbc_cli.tui.state import Places
from mbc_engine.errors import MBCError
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    from mbc_engine.question import Answer


@dataclass(frozen=True)
class Asked:
    """A question, with a number that tells it from others, and how it is to be answered."""

    number: int
    question: str
    options: AskOptions


@dataclass
class ModelLoading(Message):
    """The model is being loaded."""


@dataclass
class ModelReady(Message):
    """The model is there, and the bank is its own.

    Attributes:
        has_reads: whether it can read its bank in several ways.
    """

    has_reads: bool


@dataclass
class ModelMissing(Message):
    """There is no model, no bank, or it is another model's."""

    trouble: MBCError


@dataclass
class Said(Message):
    """A further piece of an answer."""

    number: int
    piece: str


@dataclass
class Answered(Message):
    """A question is answered."""

    number: int
    reply: "Answer"


@dataclass
class Unanswered(Message):
    """A question has no answer: something was wrong, or, where nothing was, nobody wanted it any more."""

    number: int
    trouble: MBCError | None


class _NotWantedError(Exception):
    """Nobody wants the answer any more."""


class Answering:
    """Answers questions in their order.

    Args:
        places: the bank, the model, and where it runs.
        post: takes messages; it is called in the thread that answers.
    """

    def __init__(self, places: Places, post: Callable[[Message], object]) -> None:
        self._places, self._post = places, post
        self._questions: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._unwanted: set[int] = set()
        self._is_over = False
        self._is_told = False
        self._asker: Asker | None = None

    def load(self) -> None:
        """Load the model now, that the first question waits less."""
        self._questions.put(None)

    def ask(self, asked: Asked) -> None:
        """Answer a question when it is its turn."""
        self._questions.put(asked)

    def drop(self, number: int) -> None:
        """Leave a question: an answer under way ends with its next word, or is not told if that was the last one."""
        self._unwanted.add(number)

    def stop(self) -> None:
        """Come to an end with the next word."""
        self._is_over = True
        self._questions.put(None)

    def run(self) -> None:
        """Answer until stopped."""
        with ExitStack() as stack:
            while True:
                asked = self._questions.get()
                if self._is_over:
                    return
                try:
                    asker = self._ready(stack)
                except MBCError as error:
                    self._post(ModelMissing(error) if asked is None else Unanswered(asked.number, error))
                    continue
                if asked is not None:
                    self._post(self._answered(asker, asked))

    def _ready(self, stack: ExitStack) -> Asker:
        """The model, loaded if it is not yet, with a bank that is its own."""
        if self._asker is None:
            self._post(ModelLoading())
            bank, model, device = self._places.bank, self._places.model, self._places.device
            with _silence():
                self._asker = stack.enter_context(opened([bank], model, AskOptions(), device))
        if not self._is_told:
            self._asker.recall()
            self._is_told = True
            self._post(ModelReady(_has_reads(self._asker)))
        return self._asker

    def _answered(self, asker: Asker, asked: Asked) -> Message:
        def on_token(piece: str) -> None:
            self._require_wanted(asked)
            self._post(Said(asked.number, piece))

        asker.options = asked.options
        try:
            self._require_wanted(asked)
            (reply,) = asker.ask([asked.question], on_token, with_codes=True)
            self._require_wanted(asked)
        except MBCError as error:
            return Unanswered(asked.number, error)
        except _NotWantedError:
            return Unanswered(asked.number, None)
        return Answered(asked.number, reply)

    def _require_wanted(self, asked: Asked) -> None:
        if self._is_over or asked.number in self._unwanted:
            raise _NotWantedError


def _has_reads(asker: Asker) -> bool:
    """Whether the model is of the paper's method, which can read a bank in several ways."""
    from mbc_engine.paper.mbc import MBC

    return isinstance(asker.model, MBC)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep what tells on a terminal how the loading goes from doing so: the dashboard has the terminal."""
    was_quiet, notes.quiet = notes.quiet, True
    try:
        yield
    finally:
        notes.quiet = was_quiet
