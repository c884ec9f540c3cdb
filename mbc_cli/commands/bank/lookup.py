"""What a person means by a path, `path#part` or content hash, found in a bank."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mbc_engine.bank import Codes, MemoryBank, StoredDocument
from mbc_engine.errors import BankError

_DIGEST: Final = re.compile("[0-9a-fA-F]{6,64}")


@dataclass(frozen=True)
class Meant:
    """Origins, as source and part, and documents by their whole digests."""

    names: frozenset[tuple[str, str]]
    digests: frozenset[str]


def find(bank: MemoryBank, typed: Sequence[str]) -> Meant:
    """Everything that is meant: a path stands for all parts of its source, a digest for one document.

    Raises:
        BankError: something is not in the bank, or a digest fits several documents.
    """
    names: set[tuple[str, str]] = set()
    digests: list[str] = []
    for text in typed:
        if found := _names(bank, text):
            names.update(found)
        elif _DIGEST.fullmatch(text):
            digests.append(text)
        else:
            raise _unknown(bank, text)
    return Meant(frozenset(names), frozenset(_whole(bank, digests)))


def holds(bank: MemoryBank, typed: str) -> bool:
    """Whether a path, or `path#part`, names something in the bank."""
    return bool(_names(bank, typed))


def files_of(bank: MemoryBank, meant: Meant) -> dict[Path, bool]:
    """The files, still there, of what is meant: the next ingest of their folders would read them again.

    Returns:
        Each with whether all that the bank has of it is meant.
    """
    parts: dict[str, set[str]] = {}
    found = (origin for document, _ in bank.lookup((), meant.digests) for origin in document.origins)
    for source, part in (*meant.names, *((origin.source, origin.part) for origin in found)):
        parts.setdefault(source, set()).add(part)
    there = (path for path in map(Path, sorted(parts)) if path.is_absolute() and path.is_file())
    return {path: parts[str(path)] >= bank.parts_of(str(path)) for path in there}


def documents(bank: MemoryBank, typed: str) -> Iterator[tuple[StoredDocument, Codes]]:
    """The documents that are meant, with their codes. A digest may stand for several.

    Raises:
        BankError: there is none.
    """
    if names := _names(bank, typed):
        # By length first: that puts numbers in order.
        for source, part in sorted(names, key=lambda name: (len(name[1]), name)):
            if found := bank.document(source, part):
                yield found
        return
    like = bank.documents_like(typed.lower()) if _DIGEST.fullmatch(typed) else []
    if not like:
        raise _unknown(bank, typed)
    yield from like


def _names(bank: MemoryBank, typed: str) -> list[tuple[str, str]]:
    """The origins of what was typed, if it names a source or a part of one."""
    text = os.fsencode(typed).decode("utf-8", "backslashreplace")
    for source in _sources(text):
        if parts := bank.parts_of(source):
            return [(source, part) for part in parts]
    # Paths and parts may both hold the sign that stands between them.
    for sign in re.finditer("#", text):
        part = text[sign.end() :]
        for source in _sources(text[: sign.start()]):
            if bank.document(source, part):
                return [(source, part)]
    return []


def _sources(typed: str) -> tuple[str, str]:
    """A bank knows real paths. One that was typed relative, or through a link, means the same file."""
    return typed, os.path.realpath(typed)


def _whole(bank: MemoryBank, typed: Sequence[str]) -> Iterator[str]:
    """The whole digests of those typed, all found in one pass through the bank."""
    if not typed:
        return
    width = 2 * bank.header.digest_bytes
    starts = [text.lower()[:width] for text in typed]
    found: dict[str, list[str]] = {start: [] for start in starts}
    lengths = set(map(len, found))
    for document in bank.documents():
        for length in lengths:
            if document.digest[:length] in found:
                found[document.digest[:length]].append(document.digest)
    for text, start in zip(typed, starts, strict=True):
        if not found[start]:
            raise _unknown(bank, text)
        if len(found[start]) > 1:
            raise BankError(
                f"The digests of {len(found[start]):,} documents of {bank.name} begin with {text}.",
                hint="Give more of it; `mbc bank list --json` shows digests whole.",
            )
        yield found[start][0]


def _unknown(bank: MemoryBank, typed: str) -> BankError:
    if bank.header.keeps_origins:
        hint = "`mbc bank list` shows what it holds."
    else:
        hint = "It keeps no sources: name documents by their digests, which `mbc bank list` shows."
    return BankError(f"{bank.name} does not hold {typed}.", hint=hint)
