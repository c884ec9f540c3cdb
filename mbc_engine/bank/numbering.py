"""Chunks numbered through several blocks, or several banks, as if they were one."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def located(chunks: Sequence[int] | NDArray[np.integer[Any]], sizes: Indices) -> Iterator[tuple[int, Indices, Indices]]:
    """Find the holders of some chunks.

    Args:
        chunks: their indices through all holders.
        sizes: how many chunks each holder has, in order.

    Yields:
        each holder that has some of them, the places of these in `chunks`, and their indices in the holder.

    Raises:
        IndexError: there is no such chunk.
    """
    wanted = np.asarray(chunks, np.int64)
    ends = np.cumsum(sizes)
    total = int(sizes.sum())
    if wanted.size and (wanted.min() < 0 or wanted.max() >= total):
        raise IndexError(f"chunk indices must be in [0, {total}), not in [{wanted.min()}, {wanted.max()}]")
    holders = np.searchsorted(ends, wanted, side="right")
    for holder in np.unique(holders).tolist():
        places = np.flatnonzero(holders == holder)
        yield holder, places, wanted[places] - (ends[holder] - sizes[holder])
