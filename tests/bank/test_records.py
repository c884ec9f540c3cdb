"""Codes as packed bits, their counts and sums, against obvious loops; and what identifies a codebook."""

import hashlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, Codes, CodeShape, block_table, count, fingerprint, pack, perplexity
from mbc_engine.bank.records import table_sums, unpack


@st.composite
def shaped_codes(draw: st.DrawFn) -> tuple[CodeShape, Codes, int]:
    num_codes = st.one_of(st.integers(2, 40), st.sampled_from([256, 257, 512, 4096, 65_535, 65_536]))
    shape = CodeShape(draw(st.integers(1, 13)), draw(st.integers(1, 3)), draw(num_codes), draw(st.booleans()))
    seed = draw(st.integers(0, 1000))
    chunks = (draw(st.integers(0, 20)), shape.tokens, shape.levels)
    return shape, np.random.default_rng(seed).integers(0, shape.num_codes, chunks).astype(np.uint16), seed


def slow_sums(codes, tables):
    sums = np.zeros((len(tables), len(codes)))
    for chunk, token, level in np.ndindex(*codes.shape):
        sums[:, chunk] += tables[:, token, level, codes[chunk, token, level]]
    return sums


@given(case=shaped_codes(), questions=st.integers(1, 3))
def test_packed_codes_match_slow_loops(case, questions):
    shape, codes, seed = case
    bits = "".join(format(code, f"0{shape.bits_per_code}b") for code in codes.ravel().tolist())
    bits += "0" * (-len(bits) % 8)
    packed = pack(codes, shape)
    assert packed == bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))
    assert np.array_equal(unpack(packed, shape, len(codes)), codes)

    counts = np.zeros((shape.levels, shape.positions, shape.num_codes), np.int64)
    for chunk, token, level in np.ndindex(*codes.shape):
        counts[level, token if shape.per_position else 0, codes[chunk, token, level]] += 1
    assert np.array_equal(count(codes, shape), counts)

    tables = np.random.default_rng(seed).normal(size=(questions, shape.tokens, shape.levels, shape.num_codes))
    tables[:, seed % 3 :: 2] = 0  # columns of zeros are skipped
    sums = table_sums(shape, tables.astype(np.float32))(packed, len(codes))
    assert (sums.dtype, sums.shape) == (np.float32, (questions, len(codes)))
    np.testing.assert_allclose(sums, slow_sums(codes, tables), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (1, 0, 2), (1, 1, 1), (1, 1, 65_537)])
def test_impossible_shape_is_refused(numbers):
    with pytest.raises(ValueError, match="num_codes from 2"):
        CodeShape(*numbers, per_position=False)


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (np.zeros((1, 2), np.uint16), "must be .chunks, 2, 1."),
        (np.zeros((1, 1, 2), np.uint16), "must be .chunks, 2, 1."),
        (np.full((1, 2, 1), 5), "must be in .0, 5."),
        (np.full((1, 2, 1), -1), "must be in .0, 5."),
        (np.zeros((1, 2, 1)), "must be integers"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes, words):
    with pytest.raises(ValueError, match=words):
        pack(codes, CodeShape(2, 1, 5, per_position=False))


@pytest.mark.parametrize(
    ("data", "chunks"),
    [
        (bytes([0b00_01_10_11, 0b01_00_0000]), 3),  # 3 is no code
        (bytes([0b11_01_10_10, 0b01_00_0000]), 3),
        (bytes([0b00_01_10_10]), 3),
        (bytes([0b00_01_10_10, 0, 0]), 3),
        (b"", 1),
        (b"\0", 0),
        (b"\0", -1),
        (b"\1", 1),
        (b"", 10**30),
    ],
)
def test_invalid_bits_are_refused(data, chunks):
    shape = CodeShape(2, 1, 3, per_position=False)
    with pytest.raises(ValueError, match=r"do not hold|not zero|must be in"):
        unpack(data, shape, chunks)
    if data != b"\1" and chunks >= 0:
        with pytest.raises(ValueError, match=r"not a valid code|do not hold"):
            table_sums(shape, np.ones((1, 2, 1, 3), np.float32))(data, chunks)


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize("together", [15, 1000])
def test_scan_order_is_block_order(made, together, size, monkeypatch):
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: size))
    chance = np.random.default_rng(1)
    tables = chance.normal(size=(2, 3, 2, 5)).astype(np.float32)
    fours = [None if size == 7 else chance.integers(0, 5, (4, 3, 2)) for _ in range(20)]
    with made.bank() as bank:
        assert list(bank.scan(tables)) == []
        bank.put([made.item(f"/{number}", number, codes=codes) for number, codes in enumerate(fours)])
        bank.remove([(f"/{number}", "") for number in (0, 7, 8, 19)])
        documents = list(bank.documents(whole=True))
        monkeypatch.setattr(block_table, "_SCANNED_CHUNKS", 1)
        one_by_one = len(list(bank.scan(tables)))
        monkeypatch.setattr(block_table, "_SCANNED_CHUNKS", together)
        sums, lengths = zip(*bank.scan(tables), strict=True)
        blocks, lengths_again = zip(*bank.blocks(), strict=True)
    codes = np.concatenate([document.codes for document in documents])
    assert (len(sums) < one_by_one) == (size == 8)  # only four chunks of 18 bits end on a whole byte
    np.testing.assert_allclose(np.concatenate(sums, axis=1), slow_sums(codes, tables), rtol=1e-5, atol=1e-6)
    assert np.array_equal(np.concatenate(blocks), codes)
    assert np.concatenate(lengths).tolist() == [document.chunks for document in documents]
    assert list(map(list, lengths)) == list(map(list, lengths_again))


def test_perplexity_is_exp_entropy():
    counts = np.array([[0, 0], [5, 0], [7, 7], [10**15 * 3, 10**15]])
    unequal = math.exp(-0.75 * math.log(0.75) + 0.25 * math.log(4))
    assert perplexity(counts).tolist() == pytest.approx([1, 1, 2, unequal])


def test_fingerprint_is_of_the_values():
    books = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2)
    assert fingerprint(books) == hashlib.sha256(b"books" + struct.pack("<4f", 1, 2, 3, 4)).hexdigest()[:16]
    assert fingerprint(books.astype(np.float64)) == fingerprint(books) != fingerprint(books + 1)
