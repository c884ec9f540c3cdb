"""What becomes of a file on its way into a bank: chunks ready to be encoded, or why there are none."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import DocumentRecord, Record
from mbc_engine.documents import Chunk, Document, Skipped, read_file, shown
from mbc_engine.model.chunker import Chunker


class Known(Protocol):
    """What is memorised already: a bank, or what was looked up in it beforehand."""

    def knows(self, document: DocumentRecord) -> bool:
        """See `MemoryBank.knows`."""

    def parts_of(self, source: str) -> set[str]:
        """See `MemoryBank.parts_of`."""


@dataclass(frozen=True)
class Chunked:
    """A document the bank does not have, or not so; `size` bytes of its file on the disk were read for it."""

    record: Record
    chunks: list[Chunk]
    size: int


@dataclass(frozen=True)
class Encoded:
    """What was `Chunked` and has its codes, [chunks, tokens, levels]."""

    record: Record
    chunks: list[Chunk]
    codes: NDArray[np.integer[Any]]
    size: int


@dataclass(frozen=True)
class Unchanged:
    """A document the bank has just so; `size` bytes of its file were read for it."""

    source: str
    size: int


@dataclass(frozen=True)
class FileRead:
    """A file has come to its end.

    Attributes:
        size: bytes of it that were not counted for its documents.
        lost: parts of it, with their source, that the bank has and the file has no more.
    """

    size: int
    lost: frozenset[tuple[str, str]]


Item = Chunked | Unchanged | Skipped | FileRead


def chunked(document: Document, known: Known, chunker: Chunker, size: int = 0) -> Chunked | Unchanged | Skipped:
    """What a document, for which `size` bytes were read, is to what is known."""
    record = Record(document.source, document.part, document.digest, document.size, document.date)
    if known.knows(record):
        return Unchanged(document.source, size)
    chunks = chunker.chunks(document.text)
    return Chunked(record, chunks, size) if chunks else Skipped(document.source, "is empty")


def read_chunks(path: Path, known: Known, chunker: Chunker, text_column: str | None = None) -> Iterator[Item]:
    """What becomes of one file, read as by `read_file`; `FileRead` comes last."""
    source, parts, is_whole, position = shown(os.path.realpath(path)), set[str](), True, 0
    for document in read_file(path, text_column):
        if isinstance(document, Skipped):
            is_whole = is_whole and (document.is_whole or document.source != source)
            yield document
        else:
            parts.add(document.part)
            yield chunked(document, known, chunker, document.position - position)
            position = document.position
    lost = known.parts_of(source) - parts if is_whole else set()
    yield FileRead(max(0, bytes_at(path) - position), frozenset((source, part) for part in lost))


def bytes_at(path: Path) -> int:
    """The size of a file on the disk; 0 where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
