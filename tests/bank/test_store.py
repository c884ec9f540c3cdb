"""What changes to a bank do, its sizes and model, and the index of keys against a dict of sets."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, BankTotals, CodeShape, MemoryBank, ModelSignature
from mbc_engine.bank.block import KeyIndex
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.text import Chunk


def test_unreadably_large_block_is_not_written(made, bank, path, monkeypatch):
    monkeypatch.setattr("mbc_engine.bank.block._MOST_JSON", 500)
    with pytest.raises(BankError, match="too many sources"):
        bank.put([made.item(f"/{number}", 1) for number in range(100)])
    assert bank.totals() == BankTotals(0, 0, 0)
    bank.put([made.item("/a", 1)])
    assert made.damages(path) == []


def test_changes_are_atomic(made, bank, path):
    bank.put([made.item("/a", 1)])
    with MemoryBank.open(path) as other:
        with bank.changing():
            bank.put([made.item("/b", 2)])
            bank.remove([("/a", "")])
            assert bank.knows(made.record("/b", 2))
            assert other.totals() == BankTotals(1, 1, 2)
            assert other.knows(made.record("/a", 1))
        assert other.knows(made.record("/b", 2))
        assert np.array_equal(other.counts(), made.counts([2]))
    with pytest.raises(KeyError, match="stop"), bank.changing():
        bank.put([made.item("/c", 3)])
        bank.remove([("/b", "")])
        raise KeyError("stop")
    assert bank.knows(made.record("/b", 2))
    assert not bank.knows(made.record("/c", 3))
    assert np.array_equal(bank.counts(), made.counts([2]))


def test_every_chunk_needs_a_text(made, path):
    codes, chunks = made.codes(1), made.chunks(1)
    with made.bank(path, keeps_text=True) as bank:
        for texts in (None, chunks[:1], chunks * 2):
            with pytest.raises(ValueError, match="a text for each chunk"):
                bank.put([made.item("/a", 1, codes=codes, texts=texts)])
        with pytest.raises(ValueError, match="cannot start at -1"):
            bank.put([made.item("/a", 1, codes=codes, texts=[Chunk("a", -1)] * 2)])
        assert bank.totals() == BankTotals(0, 0, 0)
        bank.put([made.item("/a", 1)])
        assert bank.texts_at([1, 0]) == chunks[::-1]
    assert made.damages(path) == []


def test_compact_fills_blocks(made, bank, path, monkeypatch):
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 10))
    bank.put([made.item(f"/{number}", number) for number in range(300)])
    bank.remove([(f"/{number}", "") for number in range(300) if number % 10])
    bank.checkpoint()
    size, before = path.stat().st_size, made.lines(bank)
    assert len(bank._blocks.sizes()) > 6
    for _ in range(2):
        bank.compact()
        assert len(bank._blocks.sizes()) == 6
        assert made.lines(bank) == before
        assert path.stat().st_size <= size


ONES = np.ones((1, 3, 2), np.uint16)


@pytest.mark.parametrize(
    "changes",
    [
        *({"codes": codes} for codes in (9 * ONES, ONES[:0], ONES[0], ONES.astype(float))),
        *({name: "\ud800"} for name in ("source", "part", "date")),
    ],
)
def test_a_refused_batch_changes_nothing(made, bank, changes):
    bad = made.item(**{"source": "/b", "content": 2, "codes": ONES} | changes)
    with pytest.raises(ValueError, match=r"must be|at least one|surrogates|must match exactly|same number of dim"):
        bank.put([made.item("/a", 1), bad])
    assert bank.totals() == BankTotals(0, 0, 0)
    assert not bank.counts().any()
    assert not bank.knows(made.record("/a", 1))


def test_model_name_is_not_compared(made, bank, path):
    bank.require(ModelSignature("renamed", made.signature.amortizer, made.signature.codebook), made.shape)
    other = ModelSignature("mini", made.signature.amortizer, "cc" * 8)
    with pytest.raises(ModelMismatch, match=r"mini .aaaaaaaa-bbbbbbbb., not mini .aaaaaaaa-cccccccc.") as caught:
        bank.require(other, made.shape)
    assert caught.value.hint
    with pytest.raises(ModelMismatch):
        MemoryBank.open(path, create=BankHeader(other, made.shape, made.dim))
    with pytest.raises(BankError, match="is damaged"):
        bank.require(made.signature, CodeShape(3, 1, 5, per_position=True))


def test_replaced_file_is_noticed(made, bank, path):
    bank.put([made.item("/a", 1)])
    assert not bank.is_replaced()
    made.bank(path.with_name("new.mbc")).close()
    path.with_name("new.mbc").replace(path)
    assert bank.is_replaced()
    assert bank.totals().documents == 1  # the old one, until it is opened again
    path.unlink()
    assert bank.is_replaced()
    with made.bank() as volatile:
        assert not volatile.is_replaced()


KEYS = st.one_of(st.integers(0, 9), st.sampled_from([2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]))
BLOCKS = st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1]))
HOLDINGS = st.lists(st.tuples(BLOCKS, st.lists(KEYS, max_size=5)), max_size=8)


@given(at_first=HOLDINGS, later=st.lists(st.one_of(HOLDINGS, st.booleans()), max_size=5), wanted=st.lists(KEYS))
def test_index_matches_a_dict(at_first, later, wanted):
    index = KeyIndex([(block, np.array(keys, np.uint32)) for block, keys in at_first])
    reference: defaultdict[int, set[int]] = defaultdict(set)
    for step in (at_first, *later):
        if isinstance(step, bool):
            index.blocks_of(np.arange(200 if step else 2, dtype=np.uint32))
            continue
        for block, keys in step:
            if step is not at_first:
                index.add(block, np.array(keys, np.uint32))
            for key in keys:
                reference[key].add(block)
    expected = {key: reference[key] for key in set(wanted) if reference[key]}
    assert index.blocks_of(np.array(wanted, np.uint32)) == expected
