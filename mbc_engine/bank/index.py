"""Which blocks may hold a key: 32-bit numbers looked up by the ten thousand among millions."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# For so few keys, every block is searched by itself: sorting all blocks into one would take longer.
_FEW: Final = 64
# So many pairs are kept apart before they are sorted in with all others.
_RECENT: Final = 1 << 17
_BLOCK_BITS: Final = np.uint64(32)
_BLOCK: Final = np.uint64(0xFFFFFFFF)

Pairs = NDArray[np.uint64]


class KeyIndex:
    """Pairs of a key and a block. A pair stays when the key leaves the block: what is found is a place to look.

    Args:
        blocks: numbers of blocks below 2**32, with the keys of each.
    """

    def __init__(self, blocks: Iterable[tuple[int, NDArray[np.integer[Any]]]]) -> None:
        self._added = [_pairs(block, keys) for block, keys in blocks]
        self._recent = self._settled = np.empty(0, np.uint64)

    def add(self, block: int, keys: NDArray[np.integer[Any]]) -> None:
        """Say that a block now holds further keys."""
        pairs = _pairs(block, keys)
        while self._added and len(self._added[-1]) <= len(pairs):  # else, each of a million additions would be searched
            pairs = np.sort(np.concatenate([self._added.pop(), pairs]))
        self._added.append(pairs)

    def blocks_of(self, keys: NDArray[np.integer[Any]]) -> dict[int, set[int]]:
        """The blocks to look in, for each key that may be in any."""
        wanted = np.sort(keys).astype(np.uint64)
        if len(wanted) > _FEW:
            self._settle()
        found: defaultdict[int, set[int]] = defaultdict(set)
        for pairs in (self._settled, self._recent, *self._added):
            starts = np.searchsorted(pairs, wanted << _BLOCK_BITS)
            ends = np.searchsorted(pairs, wanted << _BLOCK_BITS | _BLOCK, side="right")
            for place in np.flatnonzero(starts < ends).tolist():
                found[int(wanted[place])].update((pairs[starts[place] : ends[place]] & _BLOCK).tolist())
        return found

    def _settle(self) -> None:
        if self._added:
            self._recent = np.sort(np.concatenate([self._recent, *self._added]))
            self._added = []
        if len(self._recent) > _RECENT:
            self._settled = np.sort(np.concatenate([self._settled, self._recent]))
            self._recent = self._recent[:0]


def _pairs(block: int, keys: NDArray[np.integer[Any]]) -> Pairs:
    if not 0 <= block <= _BLOCK:
        raise OverflowError(f"{block} is no number of a block")
    if (keys[1:] < keys[:-1]).any():
        keys = np.sort(keys)
    return keys.astype(np.uint64) << _BLOCK_BITS | np.uint64(block)
