"""How often each code stands in a bank: all that the flat read of a question needs."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
