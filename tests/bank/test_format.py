"""Packed codes: exact bits, exact lengths, an exact inverse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import Codes, CodeShape, pack, unpack


@st.composite
def shaped_codes(draw: st.DrawFn) -> tuple[CodeShape, Codes]:
    shape = CodeShape(
        tokens=draw(st.integers(1, 5)),
        levels=draw(st.integers(1, 3)),
        num_codes=draw(st.integers(2, 65_536)),
        per_position=draw(st.booleans()),
    )
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    chunks = draw(st.integers(0, 40))
    return shape, random.integers(0, shape.num_codes, (chunks, shape.tokens, shape.levels)).astype(np.uint16)


def test_bits_by_hand() -> None:
    shape = CodeShape(tokens=2, levels=2, num_codes=8, per_position=False)
    codes = np.array([[[1, 2], [3, 4]]], dtype=np.uint16)
    assert pack(codes, shape) == bytes([0b001_010_01, 0b1_100_0000])


@pytest.mark.parametrize("numbers", [(0, 1, 2), (1, 0, 2), (1, 1, 1), (1, 1, 65_537)])
def test_impossible_shape_is_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="num_codes from 2"):
        CodeShape(*numbers, per_position=False)


@given(shaped_codes())
def test_pack_concatenates_binary_codes(case: tuple[CodeShape, Codes]) -> None:
    shape, codes = case
    bits = "".join(format(code, f"0{shape.bits_per_code}b") for code in codes.ravel().tolist())
    bits += "0" * (-len(bits) % 8)
    assert pack(codes, shape) == bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))


def test_codes_that_do_not_fit_are_refused() -> None:
    shape = CodeShape(2, 1, 5, False)
    for codes, words in [
        (np.zeros((1, 2), np.uint16), "must be .chunks, 2, 1."),
        (np.zeros((1, 1, 2), np.uint16), "must be .chunks, 2, 1."),
        (np.full((1, 2, 1), 5), "must be in .0, 5."),
        (np.full((1, 2, 1), -1), "must be in .0, 5."),
        (np.zeros((1, 2, 1)), "must be integers"),
    ]:
        with pytest.raises(ValueError, match=words):
            pack(codes, shape)


@pytest.mark.parametrize(
    ("data", "chunks"),
    [(b"", 1), (b"\0\0", 1), (b"\0", 2), (b"\0", -1), (b"\1", 1), (b"\xff", 1), (b"", 2**62), (b"", 10**30)],
)
def test_unpack_refuses_other_bytes(data: bytes, chunks: int) -> None:
    with pytest.raises(ValueError, match=r"do not hold|not zero|must be in"):
        unpack(data, CodeShape(2, 1, 5, False), chunks)
