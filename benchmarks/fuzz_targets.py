"""What benchmarks/fuzz.py makes files for, and what may come of them: formats of documents, banks and their exports."""

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

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, Origin, StoredDocument, export, import_lines, verify
from mbc_engine.errors import MBCError
from mbc_engine.text import Document, Skipped, read_file

CANARY: Final = "what no document may show"
READ: Final = "read"
REFUSED: Final = "refused"
_LONGEST: Final = 2 << 20
_STRETCHES: Final = (1, 4, 30, 500)
# What is lost at an end leaves little else to go wrong.
_CHANGES: Final = (*(0, 1, 2, 3, 6, 7, 8) * 4, 4, 5)
_SIGNS: Final = tuple(bytes((byte,)) for byte in b"\0\xff\x1b<>/()[]{}\"'\\\n")
_NUMBER: Final = re.compile(rb"-?\d+")
# How seldom a file is one of those made to do harm, which take long.
_ONE_IN: Final = 400


class Finding(Exception):
    """What must not come of a file."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed.

    Attributes:
        name: as the suffix of a file has it.
        make: a file from chance alone.
        read: what is to be done with it; READ or REFUSED. Anything but a `Finding` that it raises is one too.
    """

    name: str
    make: Callable[[Random], bytes]
    read: Callable[[Path], str]


def mutated(data: bytes, chance: Random, tokens: tuple[bytes, ...], other: Callable[[], bytes]) -> bytes:
    """Changed at one place to many: bits, bytes, words, numbers, stretches lost or repeated, ends cut off or exchanged.

    Args:
        data: what is changed.
        chance: decides what and where.
        tokens: words that mean something in such data.
        other: makes data of the same kind, the end of which may follow the beginning of this.
    """
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        place = chance.randrange(len(data) + 1)
        before, after = data[:place], data[place:]
        match chance.choice(_CHANGES):
            case 0:
                data = before + bytes(byte ^ 1 << chance.randrange(8) for byte in after[:1]) + after[1:]
            case 1:
                data = before + chance.choice((*_SIGNS, bytes((chance.randrange(256),)))) + after[1:]
            case 2:
                data = before + after[chance.choice(_STRETCHES) :]
            case 3:
                data = before + after[: chance.choice(_STRETCHES)] * chance.choice((1, 2, 1000)) + after
            case 4:
                data = before
            case 5:
                rest = other()
                data = before + rest[chance.randrange(len(rest) + 1) :]
            case 6 | 7:
                data = before + chance.choice(tokens) + after[chance.choice((0, 0, 3)) :]
            case 8:
                data = before + _NUMBER.sub(lambda _: chance.choice(NUMBERS), after, count=1)
        data = data[:_LONGEST]
    return data


def document(name: str, compression: str, harm: list[Callable[[], bytes]]) -> Callable[[Random], bytes]:
    """What makes files of a format."""
    sample, pack = SAMPLES[name], COMPRESSIONS.get(compression, bytes)

    def inner(chance: Random) -> bytes:
        if chance.randrange(_ONE_IN) == 0:
            return chance.choice(harm)()
        sound = sample(chance)
        if chance.random() < 0.05:
            return sound
        if name == "docx" and chance.random() < 0.7:
            members = members_of(sound)
            member = chance.choice([*members, *["word/document.xml"] * len(members)])
            members[member] = mutated(members[member], chance, TOKENS[name], lambda: members["docProps/core.xml"])
            return zipped(members)
        return mutated(sound, chance, TOKENS[name], lambda: sample(chance))

    def make(chance: Random) -> bytes:
        if not compression:
            return inner(chance)
        if chance.random() < 0.5:
            return pack(inner(chance))
        return mutated(pack(sample(chance)), chance, TOKENS[name], lambda: pack(sample(chance)))

    return make


@lru_cache(maxsize=1)
def _sound_bank() -> tuple[bytes, bytes]:
    """A bank's file and its export."""
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


def _bank_file(chance: Random) -> bytes:
    data, _ = _sound_bank()
    return mutated(data, chance, (b"\0" * 100, b"\xff" * 8, b"SQLite format 3\0"), lambda: data)


def _bank_export(chance: Random) -> bytes:
    _, lines = _sound_bank()
    return mutated(lines, chance, (b"null", b"[", b"{}", b'"', b"\n", b"-1", b'"codes":', b"\\ud800"), lambda: lines)


def read_documents(path: Path) -> str:
    """Read all documents of a file; raises Finding where one is not what a document is."""
    documents = 0
    for item in read_file(path):
        match item:
            case Document(text=text, part=part):
                documents += 1
                if not text.strip() or "\0" in text + part:
                    raise Finding("a text that is blank or has zeros")
                if CANARY in text:
                    raise Finding("the content of another file")
                (text + part).encode()
            case Skipped(reason=reason):
                if not reason.isprintable():
                    raise Finding("a reason that cannot be printed")
                if "MemoryError" in reason:
                    raise Finding("the memory's end")
    return READ if documents else REFUSED


def read_bank(path: Path) -> str:
    """Open a bank, check it, export it."""
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
    """Import a bank's lines."""
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
    """All of them."""
    harm = hostile(canary)
    plain = [(name, "") for name in SAMPLES]
    packed = [("text", ".gz"), ("html", ".gz"), ("jsonl", ".xz"), ("csv", ".xz"), ("markdown", ".gz")]
    return [
        *(
            Target(f"{SUFFIXES[name]}{compression}".strip("."), document(name, compression, harm[name]), read_documents)
            for name, compression in plain + packed
        ),
        Target("mbc", _bank_file, read_bank),
        Target("export", _bank_export, read_export),
    ]
