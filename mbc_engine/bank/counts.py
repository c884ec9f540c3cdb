"""How often each code stands in a bank: all that the flat read of a question needs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import deflate, inflate
from mbc_engine.bank.format import CodeShape

Counts = NDArray[np.int64]


def count(codes: NDArray[np.integer[Any]], shape: CodeShape) -> Counts:
    """Count the codes of each book.

    Args:
        codes: [chunks, tokens, levels], in [0, num_codes).
        shape: their shape.

    Returns:
        [levels, positions, num_codes], where positions is `tokens` with a book per position and 1 with a shared one.
    """
    books = np.arange(shape.levels)[None, :] * shape.positions
    if shape.per_position:
        books = books + np.arange(shape.tokens)[:, None]
    flat = (books * shape.num_codes + codes).ravel()
    size = (shape.levels, shape.positions, shape.num_codes)
    return np.bincount(flat, minlength=int(np.prod(size))).reshape(size).astype(np.int64)


def perplexity(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Effective number of codes in use in each book, exp of the entropy of its usage (paper, section 4.4.4).

    Args:
        counts: how often each code is used, [..., num_codes], non-negative.

    Returns:
        [...], values in [1, num_codes]; 1 where nothing has been used.
    """
    used = counts.astype(np.float64)
    share = used / np.maximum(used.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    entropy: NDArray[np.float64] = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
    return np.exp(entropy)


def unused(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """How many codes of each book do not occur: [..., num_codes] -> [...]."""
    each: NDArray[np.int64] = (counts == 0).sum(-1)
    return each


def write_counts(counts: Counts) -> bytes:
    """Counts as a bank keeps them: little-endian int64, deflated, as most codes of a small bank never occur."""
    return deflate(counts.astype("<i8").tobytes())


def read_counts(data: bytes, shape: CodeShape) -> Counts:
    """The inverse of `write_counts`.

    Raises:
        ValueError: the bytes are not such counts.
    """
    size = shape.levels * shape.positions * shape.num_codes
    counts = np.frombuffer(inflate(data, 8 * size), "<i8").astype(np.int64)
    return counts.reshape(shape.levels, shape.positions, shape.num_codes)
