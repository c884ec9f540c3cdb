"""Documents found by what they are called, as they are typed: the first rows at once, the number of all in the end."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice

from mbc_engine.bank.block import Listing
from mbc_engine.bank.records import origin_name
from mbc_engine.bank.store import MemoryBank


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
