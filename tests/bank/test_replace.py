"""Replacing a bank's content: all or nothing, alongside readers and writers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, database, replace_content
from mbc_engine.errors import BankError

OTHER = ModelSignature("other", "cc" * 8, "dd" * 8)


@pytest.fixture
def path(made: Any, tmp_path: Path) -> Path:
    path = tmp_path / "bank #1?.mbc"
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
    return path


@pytest.fixture
def new(tmp_path: Path) -> Iterator[Path]:
    """A bank of another model and shape, with one document."""
    path = tmp_path / "100% new.mbc"
    with MemoryBank.create(path, OTHER, CodeShape(2, 1, 9, False), 2, keeps_origins=False) as bank:
        bank.put([stored()])
    return path


def stored() -> StoredDocument:
    return StoredDocument("ab" * 32, 1, None, (), np.full((1, 2, 1), 8))


def test_all_content_is_replaced(made: Any, path: Path, new: Path) -> None:
    with MemoryBank.open(new) as bank:
        lines = made.lines(bank)
    replace_content(path, new)
    assert made.damages(path) == []
    with MemoryBank.open(path) as bank:
        assert bank.header.signature == OTHER
        assert made.lines(bank) == lines
        bank.put([])
    with MemoryBank.open(new) as bank:
        assert made.lines(bank) == lines


def test_failed_check_changes_nothing(made: Any, path: Path, new: Path) -> None:
    before = path.read_bytes()

    def refuse() -> None:
        raise BankError("was given documents meanwhile")

    with pytest.raises(BankError, match="meanwhile"):
        replace_content(path, new, check=refuse)
    assert path.read_bytes() == before


def test_check_holds_the_write_lock(made: Any, path: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.0)

    def write() -> None:
        with MemoryBank.open(path) as other, pytest.raises(BankError, match="written by another process"):
            other.put([made.item("/c", 3)])

    replace_content(path, new, check=write)
    with MemoryBank.open(path) as bank:
        assert bank.header.signature == OTHER


def test_replacement_must_be_a_bank(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    (tmp_path / "text").write_text("not a bank")
    for other, words in ((tmp_path / "none", "No bank"), (tmp_path / "text", "is not a bank"), (tmp_path, "folder")):
        with pytest.raises(BankError, match=words):
            replace_content(path, other)
    assert path.read_bytes() == before


def test_reader_notices_replacement_after_its_snapshot(
    made: Any, path: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemoryBank.open(path, read_only=True) as reader:
        with reader.snapshot():
            before = made.lines(reader)
            replace_content(path, new)
            assert made.lines(reader) == before
        with pytest.raises(BankError, match="was replaced by another bank"), reader.snapshot():
            reader.counts()
        with pytest.raises(BankError, match="was replaced by another bank"):
            list(reader.documents())
    with MemoryBank.open(path, read_only=True) as reader:
        assert reader.header.signature == OTHER
