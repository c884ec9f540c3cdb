"""Merged banks. That the order of shards does not matter is tested in test_histories."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import BankTotals, MemoryBank, Origin, decode_chunk, merge
from mbc_engine.bank import exchange as merging
from mbc_engine.errors import BankError
from mbc_engine.events import Progressed


def test_duplicates_are_stored_once(made: Any) -> None:
    with made.bank() as bank, made.bank() as other:
        bank.put([made.item("/a", 1), made.item("/b", 2), made.item("/same", 3)])
        other.put([made.item("/c", 1, date="2024"), made.item("/same", 4)])
        assert list(merge(bank, other)) == [Progressed("copy documents", 2, 2)]
        assert {document.digest: document.origins for document in bank.documents()} == {
            made.digest(1)[:32]: (Origin("/a", "", None), Origin("/c", "", "2024")),
            made.digest(2)[:32]: (Origin("/b", "", None),),
            made.digest(4)[:32]: (Origin("/same", "", None),),
        }
        assert np.array_equal(bank.counts(), made.counts([1, 2, 4]))
        assert other.totals() == BankTotals(2, 2, 4)


def test_merge_requires_origins_if_kept(made: Any) -> None:
    with made.bank() as full, made.bank(keeps_origins=False) as bare, made.bank(keeps_origins=False) as expected:
        full.put([made.item("/a", 1), made.item("/b", 1), made.item("/c", 2)])
        expected.put([made.item("", 1), made.item("", 2)])
        list(merge(bare, full))
        assert made.lines(bare) == made.lines(expected)
        before = made.lines(full)
        with pytest.raises(BankError, match="does not record where its documents came from") as caught:
            list(merge(full, bare))
        assert "--no-sources" in str(caught.value.hint)
        assert made.lines(full) == before


def test_merge_requires_texts_if_kept(made: Any) -> None:
    with made.bank(keeps_text=True) as full, made.bank(keeps_text=True) as other, made.bank() as bare:
        full.put([made.item("/a", 1)])
        other.put([made.item("/b", 2)])
        list(merge(full, other))
        (document,) = full.lookup((), [made.digest(2)], with_texts=True)
        assert list(map(decode_chunk, document.texts or [])) == made.chunks(2)
        list(merge(bare, full))
        assert not bare.header.keeps_text
        assert (bare.totals().documents, bare.sizes().texts) == (2, 0)
        before = made.lines(full)
        with pytest.raises(BankError, match="does not keep the text of its documents") as caught:
            list(merge(full, bare))
        assert caught.value.hint
        assert made.lines(full) == before


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_abandoned_merge_changes_nothing(made: Any, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(merging, "_BATCH", batch)
    with made.bank() as bank, made.bank() as other:
        bank.put([made.item("/a", 1)])
        other.put([made.item(f"/{number}", number) for number in range(2, 8)])
        before = made.lines(bank)
        events = merge(bank, other)
        assert next(events) == Progressed("copy documents", batch, 6)
        events.close()
        assert made.lines(bank) == before
        assert list(merge(bank, other))[-1] == Progressed("copy documents", 6, 6)
        assert np.array_equal(bank.counts(), made.counts(range(1, 8)))


def test_merge_with_itself_changes_nothing(made: Any, path: Path) -> None:
    with made.bank(path) as bank, MemoryBank.open(path, read_only=True) as again:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
        before = made.lines(bank)
        list(merge(bank, again))
        assert made.lines(bank) == before
