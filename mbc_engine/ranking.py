"""The best documents of a bank that is scanned block by block, with their shares of the total, and chunk weights."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import ReadableBank, Selection

Lengths = NDArray[np.int64]
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Hit:
    """One of the best documents or chunks, by the index of its best chunk in stored order.

    `share` of the total is in [0, 1]; `ties` is how many others have the same share, in a hierarchical read at least.
    `document` is its index, None if the search does not give it.
    """

    chunk: int
    share: float
    ties: int = 0
    document: int | None = None


class Ranking:
    """Keeps a question's best `top` documents while a bank is scanned block by block.

    A document's weight is the sum of its chunks' weights; the first wins a tie. Weights of zero are not ranked.
    """

    def __init__(self, top: int) -> None:
        self._top, self.seen = top, 0
        self.totals: list[float] = []  # the logarithm of the total weight of the chunks of each call
        self.scores: NDArray[np.float64] = np.empty(0)  # descending
        self.chunks = np.empty(0, np.int64)  # of these scores
        self.left_out = 0  # documents left out that tie with the last one in `_scores`

    def add(self, log_scores: NDArray[np.float32], lengths: Lengths | None = None) -> None:
        """Add the log weights of the next chunks, [chunks]; `lengths` are the chunks of each document (None: one)."""
        first, self.seen = self.seen, self.seen + len(log_scores)
        peak = float(log_scores.max(initial=-np.inf))
        if peak == -np.inf:
            return
        self.totals.append(peak + float(np.log(np.exp(log_scores - peak).sum(dtype=np.float64))))
        scores, starts = log_scores, np.arange(len(log_scores))
        if lengths is not None and len(lengths) < len(log_scores):
            starts = np.cumsum(lengths) - lengths
            scores = _log_sums(log_scores, starts, lengths)
        lowest = self.scores[-1] if len(self.scores) == self._top else -np.inf
        better = np.flatnonzero((scores >= lowest) & (scores > -np.inf))
        if not better.size:  # as in most blocks of a long scan
            return
        best, left_out = _first(scores[better], self._top)
        rows = better[best]
        ends = np.append(starts, len(log_scores))[rows + 1]
        spans = zip(starts[rows].tolist(), ends.tolist(), strict=True)
        chunks = [first + start + int(log_scores[start:end].argmax()) for start, end in spans]
        self._take(scores[rows], np.array(chunks), left_out)

    def join(self, others: Sequence[Self]) -> Self:
        """Add what others have seen, in their order, as if it had been added here; the result is the same bit for bit."""
        for other in others:
            self.totals += other.totals
            if len(other.scores):
                self._take(other.scores, self.seen + other.chunks, other.left_out)
            self.seen += other.seen
        return self

    def _take(self, scores: NDArray[np.floating], chunks: NDArray[np.int64], left_out: int) -> None:
        before, merged = self.scores, np.concatenate([self.scores, scores])
        best, ties = _first(merged, self._top)
        last = merged[best[-1]]
        # Documents that either side left out tie with that side's last, which may also be the last of both.
        if len(before) and before[-1] == last:
            ties += self.left_out
        if scores[-1] == last:
            ties += left_out
        self.scores, self.chunks = merged[best], np.concatenate([self.chunks, chunks])[best]
        self.left_out = ties

    def result(self) -> list[Hit]:
        total = reduce(np.logaddexp, self.totals, -np.inf)
        shares = np.exp(self.scores - total).clip(max=1.0)
        ties = (self.scores[:, None] == self.scores).sum(-1) - 1
        ties += self.left_out * (self.scores == self.scores[-1:])
        return list(map(Hit, self.chunks.tolist(), shares.tolist(), ties.tolist()))


def _first(scores: NDArray[np.floating], top: int) -> tuple[NDArray[np.int64], int]:
    """Indices of the `top` greatest, descending, the first winning ties; and how many left out equal the last."""
    order = np.argsort(-scores, kind="stable")
    best, rest = order[:top], order[top:]
    return best, int((scores[rest] == scores[best[-1:]]).sum())


def _log_sums(log_scores: NDArray[np.float32], starts: NDArray[np.int64], lengths: Lengths) -> NDArray[np.float32]:
    peaks = np.maximum.reduceat(log_scores, starts)
    base = np.where(np.isfinite(peaks), peaks, 0)
    with np.errstate(divide="ignore"):  # -inf is right for a weight of 0
        return base + np.log(np.add.reduceat(np.exp(log_scores - np.repeat(base, lengths)), starts))


def log_of(weights: NDArray[np.floating[Any]] | NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """Logarithms, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights), np.float32)


def log_weights(bank: ReadableBank, selection: Selection) -> Weights:
    """The logarithm of each chunk's weight."""
    logs = array("f")
    for block in bank.log_weights(selection):
        logs.frombytes(block.astype(np.float32).tobytes())
    return np.frombuffer(logs, np.float32)


def chunk_weights(bank: ReadableBank, selection: Selection) -> Weights:
    """The weight of each chunk relative to the largest."""
    weights = log_weights(bank, selection)
    # Only ratios matter in a read, and the weights of a bank of very old documents would underflow.
    weights -= weights.max(initial=np.finfo(np.float32).min)
    return np.exp(weights, out=weights)
