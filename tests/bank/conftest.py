"""Small banks whose every code is known: a document is a number, from which its digest, size and codes follow."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mbc_engine.bank import (
    Codes,
    CodeShape,
    MemoryBank,
    ModelSignature,
    Record,
    count,
    export,
    verify,
)
from mbc_engine.events import BankVerified, DamageFound


@dataclass(frozen=True)
class Made:
    """What small banks are made of."""

    signature: ModelSignature
    shape: CodeShape
    books: NDArray[np.float32]

    def codes(self, content: int) -> Codes:
        """One to three chunks."""
        random = np.random.default_rng(content)
        return random.integers(0, 5, (1 + content % 3, 3, 2)).astype(np.uint16)

    def uniform(self, *codes: int) -> Codes:
        """Chunks that hold one code each, everywhere."""
        return np.stack([np.full((3, 2), code, np.uint16) for code in codes])

    def digest(self, content: int) -> str:
        return hashlib.sha256(b"%d" % content).hexdigest()

    def record(self, source: str, content: int, part: str = "", date: str | None = None) -> Record:
        return Record(source, part, self.digest(content), 100 + content, date)

    def item(self, source: str, content: int, part: str = "", date: str | None = None) -> tuple[Record, Codes]:
        return self.record(source, content, part, date), self.codes(content)

    def bank(self, path: Path | None = None, *, keeps_origins: bool = True) -> MemoryBank:
        """An empty bank, in memory if no path is given."""
        if path is None:
            return MemoryBank.in_memory(self.signature, self.shape, self.books, keeps_origins=keeps_origins)
        return MemoryBank.create(path, self.signature, self.shape, self.books, keeps_origins=keeps_origins)

    def counts(self, contents: Iterable[int]) -> NDArray[np.int64]:
        """The counts of a bank of these."""
        return sum((count(self.codes(content), self.shape) for content in contents), np.zeros((2, 3, 5), np.int64))

    def all_codes(self, bank: MemoryBank) -> Codes:
        return np.concatenate([np.zeros((0, 3, 2), np.uint16), *bank.codes()])

    def lines(self, bank: MemoryBank) -> bytes:
        return b"".join(export(bank))

    def damages(self, path: Path) -> list[DamageFound]:
        """All that `verify` finds, having checked what it says last."""
        *events, last = verify(path)
        found = [event for event in events if isinstance(event, DamageFound)]
        assert isinstance(last, BankVerified)
        assert last.damages == len(found)
        return found


@pytest.fixture(scope="session")
def made() -> Made:
    books = np.arange(2 * 3 * 5 * 4, dtype=np.float32).reshape(2, 3, 5, 4)
    return Made(ModelSignature("mini", "aa" * 8, "bb" * 8), CodeShape(3, 2, 5, per_position=True), books)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place that asks for a folder and for quoting."""
    return tmp_path / "new folder" / "100% mine?#.mbc"


@pytest.fixture
def bank(made: Made, path: Path) -> Iterator[MemoryBank]:
    with made.bank(path) as bank:
        yield bank


@pytest.fixture
def bare(made: Made) -> Iterator[MemoryBank]:
    """A bank without origins."""
    with made.bank(keeps_origins=False) as bank:
        yield bank
