"""Reading documents, chunks and sizes from a bank, each from one state of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import BankHeader, BankTotals, MemoryBank, ModelSignature, StoredChunk
from mbc_engine.errors import ModelMismatch


def test_chunks_know_their_document(made: Any, bank: MemoryBank) -> None:
    bank.put([made.item("/a", 1, codes=made.uniform(0, 1)), made.item("/b", 2, codes=made.uniform(2))])
    first, second = bank.documents()
    assert bank.chunks_at([2, 0, 1, 2]) == [
        StoredChunk(second, 0, bank.name),
        StoredChunk(first, 0, bank.name),
        StoredChunk(first, 1, bank.name),
        StoredChunk(second, 0, bank.name),
    ]
    assert np.array_equal(bank.codes_at([2, 0]), made.uniform(2, 0))
    bank.remove([("/a", "")])
    assert bank.chunks_at(np.array([0])) == [StoredChunk(second, 0, bank.name)]
    with pytest.raises(IndexError, match=r"in \[0, 1\), not in \[0, 1\]"):
        bank.chunks_at([0, 1])


def test_sizes_are_exact(made: Any, bank: MemoryBank, path: Path) -> None:
    bank.put([made.item("/a", 1, codes=made.uniform(0, 1)), made.item("/b", 2, codes=made.uniform(2))])
    sizes = bank.sizes()
    assert sizes.codes == 7  # 3 chunks of 18 bits
    assert sizes.codebook == 2 * 3 * 5 * 4 * 4
    bank.checkpoint()
    assert sizes.file == path.stat().st_size
    with made.bank() as volatile:
        assert volatile.sizes().file > 0


def test_removal_while_listing(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 100))
    with made.bank() as bank:
        bank.put([made.item(f"/{number}", number) for number in range(500)])
        assert sum(bank.remove([origin[:2]]) for document in bank.documents() for origin in document.origins) == 500
        assert bank.totals() == BankTotals(0, 0, 0)
        assert not bank.counts().any()


def test_model_name_is_not_compared(made: Any, bank: MemoryBank, path: Path) -> None:
    bank.require(ModelSignature("renamed", made.signature.amortizer, made.signature.codebook))
    other = ModelSignature("mini", made.signature.amortizer, "cc" * 8)
    with pytest.raises(ModelMismatch, match=r"mini .aaaaaaaa-bbbbbbbb., not mini .aaaaaaaa-cccccccc.") as caught:
        bank.require(other)
    assert caught.value.hint
    with pytest.raises(ModelMismatch):
        MemoryBank.open(path, create=BankHeader(other, made.shape, made.dim))


def test_every_write_changes_the_version(made: Any, bank: MemoryBank, path: Path) -> None:
    versions = [bank.version()]
    with MemoryBank.open(path) as other:
        for writer, content in ((bank, 1), (other, 2), (other, 3), (bank, 4)):
            writer.put([made.item("/a", content)])
            versions.append(bank.version())
            assert bank.version() == versions[-1]
        list(other.documents())
        bank.checkpoint()
    assert len(set(versions)) == 5
    assert bank.version() == versions[-1]


def test_replaced_file_is_noticed(made: Any, bank: MemoryBank, path: Path, bare: Any) -> None:
    bank.put([made.item("/a", 1)])
    assert not bank.is_replaced()
    made.bank(path.with_name("new.mbc")).close()
    path.with_name("new.mbc").replace(path)
    assert bank.is_replaced()
    assert bank.totals().documents == 1  # the old one, until it is opened again
    path.unlink()
    assert bank.is_replaced()
    assert not bare.is_replaced()
