"""A bank's documents: found as somebody types, and looked at. Both run in threads."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_engine.bank import Codes, CodeShape, FoundDocument, MemoryBank, StoredDocument
from mbc_engine.bank.finding import find_documents
from mbc_engine.errors import MBCError

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
