"""Chunks in stored order cut into parts of one size, whatever blocks they come in: groups of a hierarchical read."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mbc_engine.model.memory import Lengths, Weights


@dataclass(frozen=True)
class Part:
    """What is to become a group: items, their weights, indices and document numbers, and runs of the same document."""

    items: NDArray[Any]
    weights: Weights | None
    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def lengths(self) -> Lengths:
        """How many chunks of each document are in the part."""
        return np.unique(self.documents, return_counts=True)[1]

    @property
    def weight(self) -> float:
        """How much its chunks count together."""
        return float(len(self.chunks) if self.weights is None else self.weights.sum(dtype=np.float64))

    def joined(self, other: "Part") -> "Part":
        weights = None if self.weights is None or other.weights is None else np.append(self.weights, other.weights)
        return Part(
            np.concatenate([self.items, other.items]),
            weights,
            np.append(self.chunks, other.chunks),
            np.append(self.documents, other.documents),
        )

    def between(self, start: int, end: int | None) -> "Part":
        weights = None if self.weights is None else self.weights[start:end]
        return Part(self.items[start:end], weights, self.chunks[start:end], self.documents[start:end])


def parts_of(blocks: Iterator[tuple[NDArray[Any], Lengths]], weights: Weights | None, size: int) -> Iterator[Part]:
    """Cut blocks of items into parts of `size`, the last may be smaller; items without weight are left out."""
    pending: Part | None = None
    chunk = document = 0
    for items, lengths in blocks:
        chunks = np.arange(chunk, chunk + len(items))
        documents = np.repeat(np.arange(document, document + len(lengths)), lengths)
        chunk, document = chunk + len(items), document + len(lengths)
        own = None if weights is None else weights[chunks]
        kept = slice(None) if own is None else np.flatnonzero(own > 0)
        part = Part(items[kept], None if own is None else own[kept], chunks[kept], documents[kept])
        pending = part if pending is None else pending.joined(part)
        whole = len(pending.chunks) // size * size
        for start in range(0, whole, size):
            yield pending.between(start, start + size)
        pending = pending.between(whole, None)
    if pending is not None and len(pending.chunks):
        yield pending
