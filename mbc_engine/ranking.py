"""The best documents of a bank that is scanned block by block, with their shares of the total, and chunk weights."""

from array import array
from dataclasses import dataclass
from typing import Any

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
        self._top, self._seen = top, 0
        self._total = -np.inf  # the logarithm of the chunks' total weight
        self._scores: NDArray[np.float64] = np.empty(0)  # descending
        self._chunks = np.empty(0, np.int64)
        self._left_out = 0  # documents left out that tie with the last one in `_scores`

    def add(self, log_scores: NDArray[np.float32], lengths: Lengths | None = None) -> None:
        """Add the log weights of the next chunks, [chunks]; `lengths` are the chunks of each document (None: one)."""
        first, self._seen = self._seen, self._seen + len(log_scores)
        peak = float(log_scores.max(initial=-np.inf))
        if peak == -np.inf:
            return
        total = peak + np.log(np.exp(log_scores - peak).sum(dtype=np.float64))
        self._total = float(np.logaddexp(self._total, total))
        scores, starts = log_scores, np.arange(len(log_scores))
        if lengths is not None and len(lengths) < len(log_scores):
            starts = np.cumsum(lengths) - lengths
            scores = _log_sums(log_scores, starts, lengths)
        lowest = self._scores[-1] if len(self._scores) == self._top else -np.inf
        better = np.flatnonzero((scores >= lowest) & (scores > -np.inf))
        if not better.size:  # as in most blocks of a long scan
            return
        best, left_out = _first(scores[better], self._top)
        rows = better[best]
        ends = np.append(starts, len(log_scores))[rows + 1]
        spans = zip(starts[rows].tolist(), ends.tolist(), strict=True)
        chunks = [first + start + int(log_scores[start:end].argmax()) for start, end in spans]
        before, merged = self._scores, np.concatenate([self._scores, scores[rows]])
        best, ties = _first(merged, self._top)
        last = merged[best[-1]]
        # Documents that either side left out tie with that side's last, which may also be the last of both.
        if len(before) and before[-1] == last:
            ties += self._left_out
        if scores[rows[-1]] == last:
            ties += left_out
        self._scores, self._chunks = merged[best], np.concatenate([self._chunks, np.array(chunks)])[best]
        self._left_out = ties

    def result(self) -> list[Hit]:
        shares = np.exp(self._scores - self._total).clip(max=1.0)
        ties = (self._scores[:, None] == self._scores).sum(-1) - 1
        ties += self._left_out * (self._scores == self._scores[-1:])
        return list(map(Hit, self._chunks.tolist(), shares.tolist(), ties.tolist()))


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


def chunk_weights(bank: ReadableBank, selection: Selection) -> Weights:
    """The weight of each chunk relative to the largest."""
    logs = array("f")
    for block in bank.log_weights(selection):
        logs.frombytes(block.astype(np.float32).tobytes())
    weights = np.frombuffer(logs, np.float32)
    # Only ratios matter in a read, and the weights of a bank of very old documents would underflow.
    weights -= weights.max(initial=np.finfo(np.float32).min)
    return np.exp(weights, out=weights)
