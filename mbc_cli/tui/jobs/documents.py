"""A bank's documents: found as somebody types, and looked at. Both run in threads.

Documents taken out of a bank and put back, in threads: another process that writes to it may have to be waited for.

Which documents use a code, looked up in the bank in a thread of its own, one code at a time.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from textual.message import Message

from mbc_cli.tui.jobs.processes import start_thread
from mbc_engine.bank import (
    Codes,
    CodeShape,
    CodeUse,
    FoundDocument,
    MemoryBank,
    StoredDocument,
    Taken,
    documents_with_code,
    restore,
    take,
)
from mbc_engine.bank.lookup import find_documents
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from threading import Thread


_TELL_EVERY: Final = 0.1

Post = Callable[[Message], object]


@dataclass
class Found(Message):
    """What was found so far.

    Attributes:
        text: what was sought.
        rows: as many as were wanted.
        matches: how many match so far, shown or not.
        keeps_origins: whether the bank knows where its documents were read.
        is_done: whether all of the bank was looked at.
        seconds: how long it has taken.
    """

    text: str
    rows: tuple[FoundDocument, ...]
    matches: int
    keeps_origins: bool
    is_done: bool
    seconds: float


@dataclass
class Looked(Message):
    """What was `found`, looked at: the document, its codes and their shape; None if the bank no longer has it."""

    found: FoundDocument
    document: StoredDocument | None
    codes: Codes | None
    shape: CodeShape


@dataclass
class NotFound(Message):
    """The bank cannot be searched or looked into."""

    error: MBCError


def search(bank: Path, text: str, most: int, post: Post, is_over: Callable[[], bool]) -> None:
    """Find documents: what `find_documents` finds, told ten times a second at most."""
    began = told = time.monotonic()
    rows: list[FoundDocument] = []
    matches = 0
    try:
        with MemoryBank.open(bank, read_only=True) as memory:
            keeps_origins, totals = memory.header.keeps_origins, memory.totals()
            for finding in find_documents(memory, text, most):
                rows += finding.rows
                matches = finding.matches
                if not text and len(rows) == most:
                    matches = totals.origins if keeps_origins else totals.documents
                    break
                if is_over():
                    return
                if (now := time.monotonic()) - told >= _TELL_EVERY:
                    told = now
                    post(Found(text, tuple(rows), matches, keeps_origins, False, now - began))
    except MBCError as error:
        post(NotFound(error))
        return
    post(Found(text, tuple(rows), matches, keeps_origins, True, time.monotonic() - began))


def look(bank: Path, found: FoundDocument, post: Post) -> None:
    """Get all that the bank has of a document."""
    try:
        with MemoryBank.open(bank, read_only=True) as memory:
            if memory.header.keeps_origins:
                item = memory.document(found.source, found.part)
            else:
                item = next(iter(memory.lookup((), [found.digest])), None)
            document, codes = item or (None, None)
            post(Looked(found, document, codes, memory.header.shape))
    except MBCError as error:
        post(NotFound(error))


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


# More than fit on a large screen.
_MOST: Final = 100


class Code(NamedTuple):
    """A code, by its book and its number there."""

    level: int
    position: int
    number: int


@dataclass
class CodeUsersFound(Message):
    """These documents use the code most, most often first."""

    code: Code
    uses: list[CodeUse]


@dataclass
class CodeUsersMissing(Message):
    """It could not be found out."""

    code: Code
    trouble: MBCError


class CodeUsers:
    """Looks codes up. Whoever asks for another code no longer wants to know of the one before.

    Args:
        bank: the bank's file, opened for each look: it may be another one by then.
        post: takes messages; it is called in a thread of its own.
    """

    def __init__(self, bank: Path, post: Callable[[Message], object]) -> None:
        self._bank, self._post = bank, post
        self._wanted: Code | None = None
        self._is_over = False
        self._changed = threading.Condition()

    def find(self, code: Code) -> None:
        """Look a code up next, in place of one that waits."""
        with self._changed:
            self._wanted = code
            self._changed.notify()

    def stop(self) -> None:
        """Come to an end soon."""
        with self._changed:
            self._is_over = True
            self._changed.notify()

    def run(self) -> None:
        """Look up what is wanted until stopped."""
        while (code := self._next()) is not None:
            message = self._found(code)
            if self._wanted is None and not self._is_over:
                self._post(message)

    def _next(self) -> Code | None:
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is not None or self._is_over)
            code, self._wanted = self._wanted, None
            return None if self._is_over else code

    def _found(self, code: Code) -> Message:
        try:
            with MemoryBank.open(self._bank, read_only=True) as bank:
                shape = bank.header.shape
                if code.level >= shape.levels or code.position >= shape.positions or code.number >= shape.num_codes:
                    return CodeUsersFound(code, [])
                return CodeUsersFound(code, documents_with_code(bank, *code, top=_MOST))
        except MBCError as error:
            return CodeUsersMissing(code, error)
