"""Fuzz targets for benchmarks/fuzz.py, with the outcomes they allow: document formats, banks and their exports."""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
from fuzz_samples import COMPRESSIONS, NUMBERS, SAMPLES, SUFFIXES, TOKENS, hostile, members_of, zipped

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, Origin, StoredDocument
from mbc_engine.bank.exchange import export, import_lines
from mbc_engine.bank.verification import verify
from mbc_engine.errors import MBCError
from mbc_engine.text import Document, Skipped, read_file

CANARY: Final = "what no document may show"
READ: Final = "read"
REFUSED: Final = "refused"
_MAX_BYTES: Final = 2 << 20
_LENGTHS: Final = (1, 4, 30, 500)
# Cut or replaced ends (4 and 5) are rarer, since they leave little else to go wrong.
_MUTATIONS: Final = (*(0, 1, 2, 3, 6, 7, 8) * 4, 4, 5)
_SPECIAL_BYTES: Final = tuple(bytes((byte,)) for byte in b"\0\xff\x1b<>/()[]{}\"'\\\n")
_NUMBER: Final = re.compile(rb"-?\d+")
# One file in this many is hostile; those are slow to read.
_ONE_HOSTILE_IN: Final = 400
# Bytes of a file that are damaged in place.
_DAMAGED: Final = 64
_MAIN_MEMBERS: Final = {
    "docx": "word/document.xml",
    "pptx": "ppt/s.xml",
    "odt": "content.xml",
    "epub": "a.html",
    "xlsx": "xl/s.xml",
    "ods": "content.xml",
}


class Finding(Exception):
    """An outcome that is not allowed."""


@dataclass(frozen=True)
class Target:
    """Something to fuzz.

    Attributes:
        name: the suffix of its files.
        make: generates a file from a random source.
        read: processes a file; returns READ or REFUSED. Any exception it raises is a finding, not only `Finding`.
    """

    name: str
    make: Callable[[Random], bytes]
    read: Callable[[Path], str]


def mutate(data: bytes, rng: Random, tokens: tuple[bytes, ...], other: Callable[[], bytes]) -> bytes:
    """Mutate data in one or more places: bits, bytes, tokens, numbers, ranges deleted or repeated, the end cut off
    or replaced.

    Args:
        data: what to mutate.
        rng: decides what changes and where.
        tokens: byte strings that are meaningful in such data.
        other: generates data of the same kind, whose end may replace the end of this.
    """
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(data) + 1)
        before, after = data[:place], data[place:]
        match rng.choice(_MUTATIONS):
            case 0:
                data = before + bytes(byte ^ 1 << rng.randrange(8) for byte in after[:1]) + after[1:]
            case 1:
                data = before + rng.choice((*_SPECIAL_BYTES, bytes((rng.randrange(256),)))) + after[1:]
            case 2:
                data = before + after[rng.choice(_LENGTHS) :]
            case 3:
                data = before + after[: rng.choice(_LENGTHS)] * rng.choice((1, 2, 1000)) + after
            case 4:
                data = before
            case 5:
                rest = other()
                data = before + rest[rng.randrange(len(rest) + 1) :]
            case 6 | 7:
                data = before + rng.choice(tokens) + after[rng.choice((0, 0, 3)) :]
            case 8:
                data = before + _NUMBER.sub(lambda _: rng.choice(NUMBERS), after, count=1)
        data = data[:_MAX_BYTES]
    return data


def document(name: str, compression: str, hostile_files: list[Callable[[], bytes]]) -> Callable[[Random], bytes]:
    """A generator of files of one format."""
    sample, pack = SAMPLES[name], COMPRESSIONS.get(compression, bytes)

    def inner(rng: Random) -> bytes:
        if rng.randrange(_ONE_HOSTILE_IN) == 0:
            return rng.choice(hostile_files)()
        valid = sample(rng)
        if rng.random() < 0.05:
            return valid
        if name in _MAIN_MEMBERS and rng.random() < 0.7:
            members = members_of(valid)
            member = rng.choice([*members, *[_MAIN_MEMBERS[name]] * len(members)])
            members[member] = mutate(members[member], rng, TOKENS[name], lambda: rng.choice([*members.values()]))
            return zipped(members)
        if name == "msg" and rng.random() < 0.7:  # its parts stand at fixed places
            start = rng.randrange(len(valid) - _DAMAGED)
            part = mutate(valid[start : start + _DAMAGED], rng, TOKENS[name], lambda: valid)
            return valid[:start] + part[:_DAMAGED].ljust(_DAMAGED, b"\0") + valid[start + _DAMAGED :]
        return mutate(valid, rng, TOKENS[name], lambda: sample(rng))

    def make(rng: Random) -> bytes:
        if not compression:
            return inner(rng)
        if rng.random() < 0.5:
            return pack(inner(rng))
        return mutate(pack(sample(rng)), rng, TOKENS[name], lambda: pack(sample(rng)))

    return make


@lru_cache(maxsize=1)
def _valid_bank() -> tuple[bytes, bytes]:
    """A valid bank's file and its export."""
    generator = np.random.default_rng(0)
    shape = CodeShape(3, 2, 5, per_position=True)
    items = [
        StoredDocument(
            f"{number:064x}",
            1 + number % 3,
            number,
            (Origin(f"/{number}", "", "2024-05-01"),),
            generator.integers(0, 5, (1 + number % 3, 3, 2)).astype(np.uint16),
        )
        for number in range(40)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sound.mbc")
        with MemoryBank.create(path, ModelSignature("mini", "aa" * 8, "bb" * 8), shape, 4) as bank:
            bank.put(items)
            lines = b"".join(export(bank))
        return path.read_bytes(), lines


def _bank_file(rng: Random) -> bytes:
    data, _ = _valid_bank()
    return mutate(data, rng, (b"\0" * 100, b"\xff" * 8, b"SQLite format 3\0"), lambda: data)


def _bank_export(rng: Random) -> bytes:
    _, lines = _valid_bank()
    return mutate(lines, rng, (b"null", b"[", b"{}", b'"', b"\n", b"-1", b'"codes":', b"\\ud800"), lambda: lines)


def read_documents(path: Path) -> str:
    """Read all documents of a file; raises Finding if one is invalid."""
    documents = 0
    for item in read_file(path):
        match item:
            case Document(text=text, part=part):
                documents += 1
                if not text.strip() or "\0" in text + part:
                    raise Finding("a blank text or one with NUL bytes")
                if CANARY in text:
                    raise Finding("the content of another file")
                (text + part).encode()
            case Skipped(reason=reason):
                if not reason.isprintable():
                    raise Finding("a reason that cannot be printed")
                if "MemoryError" in reason:
                    raise Finding("out of memory")
    return READ if documents else REFUSED


def read_bank(path: Path) -> str:
    """Verify a bank and export it."""
    for file in path.parent.glob(f"{path.name}-*"):
        file.unlink()
    try:
        list(verify(path))
        with MemoryBank.open(path, read_only=True) as bank:
            list(export(bank))
            bank.counts()
    except MBCError:
        return REFUSED
    return READ


def read_export(path: Path) -> str:
    """Import a bank from its export."""
    target = path.with_suffix(".mbc")
    for file in path.parent.glob(f"{target.name}*"):
        file.unlink()
    try:
        with path.open("rb") as lines:
            list(import_lines(lines, target))
    except MBCError:
        return REFUSED
    return READ


def targets(canary: Path) -> list[Target]:
    hostile_files = hostile(canary)
    plain = [(name, "") for name in SAMPLES]
    packed = [("text", ".gz"), ("html", ".gz"), ("jsonl", ".xz"), ("csv", ".xz"), ("markdown", ".gz")]
    return [
        *(
            Target(
                f"{SUFFIXES[name]}{compression}".strip("."),
                document(name, compression, hostile_files[name]),
                read_documents,
            )
            for name, compression in plain + packed
        ),
        Target("mbc", _bank_file, read_bank),
        Target("export", _bank_export, read_export),
    ]
