"""Sums over packed codes, against unpacking them and looking every code up."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, CodeShape, pack, unpack
from mbc_engine.bank.records import columns, table_sums

SHAPES = st.builds(
    CodeShape,
    st.integers(1, 13),
    st.integers(1, 3),
    st.one_of(st.integers(2, 40), st.sampled_from([256, 257, 512, 4096, 65_535, 65_536])),
    st.booleans(),
)


def slow_sums(codes: np.ndarray, tables: np.ndarray) -> np.ndarray:
    sums = np.zeros((len(tables), len(codes)))
    for chunk, token, level in np.ndindex(*codes.shape):
        sums[:, chunk] += tables[:, token, level, codes[chunk, token, level]]
    return sums


@given(shape=SHAPES, chunks=st.integers(0, 20), questions=st.integers(1, 3), seed=st.integers(0, 100))
@settings(max_examples=100)
def test_table_sums_match_slow_sums(shape: CodeShape, chunks: int, questions: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(0, shape.num_codes, (chunks, shape.tokens, shape.levels)).astype(np.uint16)
    tables = random.normal(size=(questions, shape.tokens, shape.levels, shape.num_codes)).astype(np.float32)
    packed = pack(codes, shape)
    sums = table_sums(shape, tables)(packed, chunks)
    assert (sums.dtype, sums.shape) == (np.float32, (questions, chunks))
    np.testing.assert_allclose(sums, slow_sums(codes, tables), rtol=1e-4, atol=1e-4)
    assert np.array_equal(unpack(packed, shape, chunks), codes)


def test_a_sum_by_hand() -> None:
    shape = CodeShape(2, 1, 3, per_position=True)  # two bits a code, four a chunk
    tables = np.array([[[[1, 2, 4]], [[10, 20, 40]]]], np.float32)
    assert table_sums(shape, tables)(bytes([0b00_01_10_10, 0b01_00_0000]), 3).tolist() == [[21, 44, 12]]


def test_zero_columns_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def spied(*arguments: Any) -> Any:
        for rows, place, values in columns(*arguments):
            looked.append(place)
            yield rows, place, values

    monkeypatch.setattr("mbc_engine.bank.records.columns", spied)
    tables = np.zeros((2, 4, 1, 8), np.float32)
    tables[1, 2, 0, 5] = -1
    shape = CodeShape(4, 1, 8, per_position=True)
    packed = pack(np.full((2, 4, 1), 5), shape)
    assert table_sums(shape, tables)(packed, 2).tolist() == [[0, 0], [-1, -1]]
    assert set(looked) == {2}


@pytest.mark.parametrize(
    ("data", "chunks"),
    [
        (bytes([0b00_01_10_11, 0b01_00_0000]), 3),  # 3 is no code
        (bytes([0b11_01_10_10, 0b01_00_0000]), 3),
        (bytes([0b00_01_10_10]), 3),
        (bytes([0b00_01_10_10, 0, 0]), 3),
        (b"", 1),
        (b"\0", 0),
    ],
)
def test_invalid_bits_are_refused(data: bytes, chunks: int) -> None:
    shape = CodeShape(2, 1, 3, per_position=False)
    with pytest.raises(ValueError, match=r"not a valid code|do not hold"):
        table_sums(shape, np.ones((1, 2, 1, 3), np.float32))(data, chunks)
    with pytest.raises(ValueError, match=r"must be in|do not hold"):
        unpack(data, shape, chunks)


def test_scan_order_is_block_order(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 7))
    tables = np.random.default_rng(1).normal(size=(2, 3, 2, 5)).astype(np.float32)
    with made.bank() as bank:
        assert list(bank.scan(tables)) == []
        bank.put([made.item(f"/{number}", number) for number in range(20)])
        bank.remove([(f"/{number}", "") for number in (0, 7, 8, 19)])
        documents = list(bank.documents(whole=True))
        sums, lengths = zip(*bank.scan(tables), strict=True)
        assert len(sums) > 3
        codes = np.concatenate([document.codes for document in documents])
        np.testing.assert_allclose(np.concatenate(sums, axis=1), slow_sums(codes, tables), rtol=1e-5, atol=1e-6)
        assert np.concatenate(lengths).tolist() == [document.chunks for document in documents]
        blocks, lengths_again = zip(*bank.blocks(), strict=True)
        assert np.array_equal(np.concatenate(blocks), codes)
        assert [own.tolist() for own in lengths] == [own.tolist() for own in lengths_again]
