"""The best documents of a bank that goes by, and their shares of all of it; memory does not grow with the bank."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ranked:
    """A document among the best.

    Attributes:
        chunk: the index of its best chunk.
        share: the document's share of everything, in [0, 1].
        ties: how many other documents have the same share; in a hierarchical read, so many at least.
    """

    chunk: int
    share: float
    ties: int


class Ranking:
    """Takes the chunks of documents block by block and keeps the best few documents of each question.

    A document weighs as much as its chunks together; of equal ones, the first stays. What weighs nothing is not ranked.

    Args:
        questions: how many.
        top: how many documents are kept for each.
    """

    def __init__(self, questions: int, top: int) -> None:
        self._best = [_Best(top) for _ in range(questions)]
        self._chunks = 0

    def add(self, masses: NDArray[np.float32], lengths: NDArray[np.int64] | None = None) -> None:
        """Take the next chunks.

        Args:
            masses: logarithms of what each chunk weighs, on any one scale, [questions, chunks].
            lengths: chunks of each document, whole documents only; None if each has one.
        """
        for best, own in zip(self._best, masses, strict=True):
            if own.size:
                best.add(own, lengths, self._chunks)
        self._chunks += masses.shape[1]

    def extend(self, other: "Ranking") -> None:
        """Take the chunks that come next from a ranking of them with the same `top`, made elsewhere: of another shard.

        What comes out is what adding these chunks here would have given, shares included.
        """
        for own, further in zip(self._best, other._best, strict=True):
            own.extend(further, self._chunks)
        self._chunks += other._chunks

    def result(self) -> list[list[Ranked]]:
        """The best documents of each question, best first."""
        return [best.result() for best in self._best]


class _Best:
    """The best documents of one question."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._total = -np.inf
        self._masses = np.empty(0)
        self._chunks = np.empty(0, np.int64)
        self._dropped = 0  # documents that were not kept and weigh as much as the last that was

    def add(self, own: NDArray[np.float32], lengths: NDArray[np.int64] | None, first: int) -> None:
        peak = float(own.max())
        if peak == -np.inf:
            return
        self._total = np.logaddexp(self._total, peak + np.log(np.exp(own - peak).sum(dtype=np.float64)))
        masses, starts = own, np.arange(len(own))
        if lengths is not None and len(lengths) < len(own):
            starts = np.cumsum(lengths) - lengths
            masses = _log_sums(own, starts, lengths)
        is_full = len(self._masses) == self._top
        last = self._masses[-1] if is_full else -np.inf
        better = np.flatnonzero((masses >= last) & (masses > -np.inf))
        if not better.size:
            return
        every = np.concatenate([self._masses, masses[better]])
        order = np.argsort(-every, kind="stable")
        kept, left = order[: self._top], every[order[self._top :]]
        if left.size:
            new_last = every[kept[-1]]
            still = self._dropped if is_full and new_last == last else 0
            self._dropped = still + int((left == new_last).sum())
        numbers = np.where(kept < len(self._chunks), kept, 0)
        chunks = np.append(self._chunks, 0)[numbers]
        for place in np.flatnonzero(kept >= len(self._chunks)).tolist():
            row = better[kept[place] - len(self._chunks)]
            start = int(starts[row])
            end = int(starts[row + 1]) if row + 1 < len(starts) else len(own)
            chunks[place] = first + start + int(own[start:end].argmax())
        self._masses, self._chunks = every[kept], chunks

    def extend(self, other: "_Best", first: int) -> None:
        self._total = np.logaddexp(self._total, other._total)
        every = np.concatenate([self._masses, other._masses])
        order = np.argsort(-every, kind="stable")
        kept, left = order[: self._top], every[order[self._top :]]
        last = every[kept[-1:]]
        # What either left out weighs as much as its own last, which may be the last of both.
        dropped = sum(best._dropped for best in (self, other) if (best._masses[-1:] == last).any())
        self._dropped = dropped + int((left == last).sum())
        self._masses, self._chunks = every[kept], np.concatenate([self._chunks, first + other._chunks])[kept]

    def result(self) -> list[Ranked]:
        shares = np.exp(self._masses - self._total).clip(max=1.0)
        ties = (self._masses[:, None] == self._masses).sum(-1) - 1
        if len(self._masses) == self._top:
            ties += np.where(self._masses == self._masses[-1], self._dropped, 0)
        return list(map(Ranked, self._chunks.tolist(), shares.tolist(), ties.tolist()))


def _log_sums(own: NDArray[np.float32], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """The logarithm of what the chunks of each document weigh together."""
    peaks = np.maximum.reduceat(own, starts)
    base = np.where(np.isfinite(peaks), peaks, 0)
    with np.errstate(divide="ignore"):  # the logarithm of nothing is what it should be
        return base + np.log(np.add.reduceat(np.exp(own - np.repeat(base, lengths)), starts))
