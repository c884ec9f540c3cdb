"""The codebook in a bank: exact in half precision or kept whole, and a fingerprint of its values."""

import hashlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import CodeShape, fingerprint
from mbc_engine.bank.codebook import StoredCodebook

SHAPE = CodeShape(tokens=3, levels=1, num_codes=2, per_position=False)


def books_of(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ((0.5, -2.0, 65_504.0, 0.0), 2),
        ((0.5, -2.0, 65_505.0, 0.0), 4),
        ((0.1, 0.0, 0.0, 0.0), 4),
        ((1e6, 0.0, 0.0, 0.0), 4),
    ],
)
def test_numbers_take_two_bytes_where_these_hold_them(values: tuple[float, ...], width: int) -> None:
    books = books_of(*values)
    stored = StoredCodebook.of(books)
    assert stored.width == width
    assert stored.data == b"".join(struct.pack("<e" if width == 2 else "<f", float(v)) for v in books.ravel())
    assert np.array_equal(stored.books(SHAPE, 2), books)


def test_half_rounds_when_asked_to() -> None:
    stored = StoredCodebook.of(books_of(0.1, 1, 2, 3), half=True)
    assert stored.width == 2
    assert stored.books(SHAPE, 2)[0, 0, 0, 0] == np.float32(np.float16(0.1))


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=4, max_size=4))
def test_books_survive_being_stored(values: list[float]) -> None:
    books = books_of(*values)
    read = StoredCodebook.of(books).books(SHAPE, 2)
    assert read.dtype == np.float32
    assert read.tobytes() == books.tobytes()


@pytest.mark.parametrize(("length", "width", "dim"), [(7, 2, 2), (8, 2, 3), (8, 3, 2), (8, 4, 2), (0, 2, 2)])
def test_bytes_of_another_shape_are_refused(length: int, width: int, dim: int) -> None:
    with pytest.raises(ValueError, match=r"takes 2 or 4|reshape|multiple"):
        StoredCodebook(bytes(length), width).books(SHAPE, dim)


def test_fingerprint_is_of_the_values() -> None:
    books = books_of(1, 2, 3, 4)
    assert fingerprint(books) == hashlib.sha256(b"books" + struct.pack("<4f", 1, 2, 3, 4)).hexdigest()[:16]
    assert fingerprint(books.astype(np.float64)) == fingerprint(books) != fingerprint(books_of(1, 2, 3, 5))
