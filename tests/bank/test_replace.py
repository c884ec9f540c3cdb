"""Replacing a bank's content: all or nothing, alongside readers and writers."""

import numpy as np
import pytest

from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, database
from mbc_engine.bank.exchange import replace_content
from mbc_engine.errors import BankError

OTHER = ModelSignature("other", "cc" * 8, "dd" * 8)


@pytest.fixture
def path(made, tmp_path):
    path = tmp_path / "bank #1?.mbc"
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
    return path


@pytest.fixture
def new(tmp_path):
    """A bank of another model and shape, with one document."""
    path = tmp_path / "100% new.mbc"
    with MemoryBank.create(path, OTHER, CodeShape(2, 1, 9, False), 2, keeps_origins=False) as bank:
        bank.put([StoredDocument("ab" * 32, 1, None, (), np.full((1, 2, 1), 8))])
    return path


def test_all_content_is_replaced(made, path, new, monkeypatch):
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.0)

    def write():
        with MemoryBank.open(path) as other, pytest.raises(BankError, match="written by another process"):
            other.put([made.item("/c", 3)])

    with MemoryBank.open(path, read_only=True) as reader:
        with reader.snapshot():
            before = made.lines(reader)
            replace_content(path, new, check=write)
            assert made.lines(reader) == before
        with pytest.raises(BankError, match="was replaced by another bank"), reader.snapshot():
            reader.counts()
        with pytest.raises(BankError, match="was replaced by another bank"):
            list(reader.documents())
    assert made.damages(path) == []
    with MemoryBank.open(path) as bank, MemoryBank.open(new) as source:
        assert bank.header.signature == OTHER
        assert made.lines(bank) == made.lines(source)
        bank.put([])


def test_refused_replacement_changes_nothing(path, new, tmp_path):
    before = path.read_bytes()
    (tmp_path / "text").write_text("not a bank")
    for other, words in ((tmp_path / "none", "No bank"), (tmp_path / "text", "is not a bank"), (tmp_path, "folder")):
        with pytest.raises(BankError, match=words):
            replace_content(path, other)

    def refuse():
        raise BankError("was given documents meanwhile")

    with pytest.raises(BankError, match="meanwhile"):
        replace_content(path, new, check=refuse)
    assert path.read_bytes() == before
