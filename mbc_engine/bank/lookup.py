"""Who uses a code: the documents it stands in most often, found in one look at all codes.

Documents found by what they are called, as they are typed: the first rows at once, the number of all in the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice

import numpy as np

from mbc_engine.bank.block import Listing
from mbc_engine.bank.records import StoredDocument, origin_name
from mbc_engine.bank.store import MemoryBank


@dataclass(frozen=True)
class CodeUse:
    """A document that uses a code.

    Attributes:
        document: which.
        times: how often the code stands in it.
        places: how many codes of the same book it has.
    """

    document: StoredDocument
    times: int
    places: int


def documents_with_code(bank: MemoryBank, level: int, position: int, code: int, top: int = 10) -> list[CodeUse]:
    """The documents a code stands in most often, most often first; of equal ones, the first stored.

    Args:
        bank: the bank; its codes are gone through block by block, whatever its size.
        level, position, code: which code, as `MemoryBank.counts` has them; the position of a shared book is 0.
        top: how many documents, at least 1.

    Raises:
        ValueError: the bank has no such code.
    """
    shape = bank.header.shape
    if not (0 <= level < shape.levels and 0 <= position < shape.positions and 0 <= code < shape.num_codes):
        raise ValueError(f"there is no code {code} at level {level}, position {position} among {shape}")
    worths = np.zeros((1, shape.tokens, shape.levels, shape.num_codes), np.float32)
    worths[0, position if shape.per_position else slice(None), level, code] = 1
    times, chunks, seen = np.empty(0, np.int64), np.empty(0, np.int64), 0
    with bank.snapshot():
        for sums, lengths in bank.sums(worths):
            starts = np.cumsum(lengths) - lengths
            own = np.add.reduceat(sums[0], starts).astype(np.int64)
            used = np.flatnonzero(own)
            times, chunks = np.append(times, own[used]), np.append(chunks, seen + starts[used])
            best = np.argsort(-times, kind="stable")[:top]
            times, chunks, seen = times[best], chunks[best], seen + sums.shape[1]
        documents = [chunk.document for chunk in bank.chunks_at(chunks)]
    each = 1 if shape.per_position else shape.tokens
    return [
        CodeUse(document, number, each * document.chunks)
        for document, number in zip(documents, times.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class FoundDocument:
    """A document at one of its origins; in a bank without origins, a document.

    Attributes:
        source, part, date: where it was read and when it was written; "", "" and None in a bank without origins.
        chunks: how many chunks it has.
        size: bytes it was read from; None in a bank without origins.
        digest: the content hash as the bank keeps it, hexadecimal.
    """

    source: str
    part: str
    date: str | None
    chunks: int
    size: int | None
    digest: str


@dataclass(frozen=True)
class Finding:
    """What a further block of the bank gave.

    Attributes:
        rows: those found there, as long as no more than asked for are found in all.
        matches: how many match so far, shown or not.
        documents: how many documents were looked at so far.
    """

    rows: tuple[FoundDocument, ...]
    matches: int
    documents: int


def find_documents(bank: MemoryBank, text: str = "", most: int = 1000) -> Iterator[Finding]:
    """Find documents in stored order, some thousand at a time; stop by taking no more. The bank may change meanwhile.

    Args:
        bank: where to look.
        text: what stands in `path` or `path#part`, upper case or lower, or begins a date; in a bank without origins,
            what begins a digest. "" finds all.
        most: so many rows in all; beyond that, matches are only counted.
    """
    sought = text.casefold()
    matches = documents = shown = 0
    for listing in bank.listings():
        found = _matching(listing, sought)
        rows = tuple(islice(_rows(listing, found), most - shown))
        shown, matches, documents = shown + len(rows), matches + sum(found), documents + len(listing)
        yield Finding(rows, matches, documents)


def _matching(listing: Listing, sought: str) -> list[bool]:
    """Which of the origins match; without origins, which of the documents."""
    origins = listing.origins
    if not origins.sources:
        return [digest.hex().startswith(sought) for digest in listing.digests]
    if not sought:
        return [True] * len(origins.sources)
    return [
        sought in origin_name(source, part).casefold() or (date is not None and date.startswith(sought))
        for source, part, date in zip(origins.sources, origins.parts, origins.dates, strict=True)
    ]


def _rows(listing: Listing, found: list[bool]) -> Iterator[FoundDocument]:
    origins, digests, lengths, sizes = listing.origins, listing.digests, listing.lengths, listing.sizes
    if not origins.sources:
        for row in compress(range(len(listing)), found):
            yield FoundDocument("", "", None, lengths[row], sizes[row], digests[row].hex())
        return
    for source, part, date, row in compress(
        zip(origins.sources, origins.parts, origins.dates, origins.rows(), strict=True), found
    ):
        yield FoundDocument(source, part, date, lengths[row], sizes[row], digests[row].hex())
