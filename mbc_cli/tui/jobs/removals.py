"""Documents taken out of a bank and put back, in threads: another process that writes to it may have to be waited for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.message import Message

from mbc_cli.tui.jobs.thread import start_thread
from mbc_engine.bank import FoundDocument, MemoryBank, Taken, restore, take
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from threading import Thread

# Seconds that the end of the dashboard waits for each change.
_PATIENCE: Final = 0.5


@dataclass
class Removed(Message):
    """Documents are out of the bank; `names` are theirs."""

    taken: Taken
    names: tuple[str, ...]


@dataclass
class Restored(Message):
    """Of what was taken, so many origins or documents are in the bank again."""

    taken: Taken
    count: int


@dataclass
class NotChanged(Message):
    """The bank cannot be changed; `taken` is what was to be put back."""

    error: MBCError
    taken: Taken | None = None


class Removals:
    """Changes a bank. Whoever takes its messages tells it of each, and so decides what can be undone.

    Attributes:
        pending: how many changes have not ended yet.

    Args:
        bank: the bank's file.
        post: takes messages; it is called in threads.
    """

    def __init__(self, bank: Path, post: Callable[[Message], object]) -> None:
        self._bank, self._post = bank, post
        self._taken: list[Taken] = []
        self._threads: list[Thread] = []
        self.pending = 0

    @property
    def can_undo(self) -> bool:
        """Whether there is something to put back."""
        return bool(self._taken)

    def remove(self, documents: tuple[FoundDocument, ...], names: tuple[str, ...]) -> None:
        """Take documents out; `names` are theirs."""
        self._begin(partial(_remove, self._bank, documents, names))

    def undo(self) -> None:
        """Put back what was removed last."""
        self._begin(partial(_put_back, self._bank, self._taken.pop()))

    def end(self, taken: Taken | None) -> None:
        """A change has ended; `taken` can be put back next."""
        self.pending -= 1
        if taken is not None:
            self._taken.append(taken)

    def close(self) -> None:
        """Wait a moment for what is under way; the bank stays as it is where that does not do."""
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _begin(self, change: Callable[[], Message]) -> None:
        self.pending += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(start_thread("change", lambda: self._post(change()), self._post))


def _remove(bank: Path, documents: tuple[FoundDocument, ...], names: tuple[str, ...]) -> Message:
    """Take documents out: where they were read, or as such in a bank that does not know."""
    try:
        with MemoryBank.open(bank) as memory:
            if memory.header.keeps_origins:
                taken = take(memory, {(own.source, own.part) for own in documents})
            else:
                taken = take(memory, (), {own.digest for own in documents})
            memory.settle()
    except MBCError as error:
        return NotChanged(error)
    return Removed(taken, names)


def _put_back(bank: Path, taken: Taken) -> Message:
    try:
        with MemoryBank.open(bank) as memory:
            count = restore(memory, taken)
            memory.settle()
    except MBCError as error:
        return NotChanged(error, taken)
    return Restored(taken, count)
