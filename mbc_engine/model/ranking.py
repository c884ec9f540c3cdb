"""The best documents of a bank that goes by, and their shares of all of it; memory does not grow with the bank."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

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
        self._top = top
        self._best = [_NOTHING] * questions
        self._chunks = 0

    def add(self, masses: NDArray[np.float32], lengths: NDArray[np.int64] | None = None) -> None:
        """Take the next chunks.

        Args:
            masses: logarithms of what each chunk weighs, on any one scale, [questions, chunks].
            lengths: chunks of each document, whole documents only; None if each has one.
        """
        further = [
            _best_of(own, lengths, self._top, least=best.last if len(best.masses) == self._top else -np.inf)
            for best, own in zip(self._best, masses, strict=True)
        ]
        self._append(further, masses.shape[1])

    def extend(self, other: "Ranking") -> None:
        """Take the chunks that come next from a ranking of them with the same `top`, made elsewhere: of another shard.

        What comes out is what adding these chunks here would have given, shares included.
        """
        self._append(other._best, other._chunks)  # noqa: SLF001 - one of its own kind

    def _append(self, further: Sequence["_Best"], chunks: int) -> None:
        """Take the best documents of so many chunks that come next."""
        self._best = [
            _joined(best, own, self._top, self._chunks) for best, own in zip(self._best, further, strict=True)
        ]
        self._chunks += chunks

    def result(self) -> list[list[Ranked]]:
        """The best documents of each question, best first."""
        return [best.ranked() for best in self._best]


@dataclass(frozen=True)
class _Best:
    """The best documents of some chunks for one question.

    Attributes:
        masses: logarithms of what they weigh, descending, [n].
        chunks: the index of the best chunk of each, [n].
        total: the logarithm of what all chunks weigh.
        left_out: how many documents are not among them that weigh as much as the last.
    """

    masses: NDArray[np.floating[Any]]
    chunks: NDArray[np.int64]
    total: float
    left_out: int = 0

    @property
    def last(self) -> float:
        """What the last one weighs; nothing if there is none."""
        return float(self.masses[-1]) if len(self.masses) else -np.inf

    def ranked(self) -> list[Ranked]:
        shares = np.exp(self.masses - self.total).clip(max=1.0)
        ties = (self.masses[:, None] == self.masses).sum(-1) - 1 + self.left_out * (self.masses == self.last)
        return list(map(Ranked, self.chunks.tolist(), shares.tolist(), ties.tolist()))


_NOTHING: Final = _Best(np.empty(0), np.empty(0, np.int64), -np.inf)


def _best_of(own: NDArray[np.float32], lengths: NDArray[np.int64] | None, top: int, *, least: float) -> _Best:
    """The best documents of a block of chunks, [chunks]; of no use are those that weigh less than `least`."""
    peak = float(own.max(initial=-np.inf))
    if peak == -np.inf:
        return _NOTHING
    total = float(peak + np.log(np.exp(own - peak).sum(dtype=np.float64)))
    masses, starts = own, np.arange(len(own))
    if lengths is not None and len(lengths) < len(own):
        starts = np.cumsum(lengths) - lengths
        masses = _log_sums(own, starts, lengths)
    better = np.flatnonzero((masses >= least) & (masses > -np.inf))
    if not better.size:  # as in most blocks of a long scan
        return _Best(_NOTHING.masses, _NOTHING.chunks, total)
    kept, left_out = _first(masses[better], top)
    rows = better[kept]
    ends = np.append(starts, len(own))[rows + 1]
    spans = zip(starts[rows].tolist(), ends.tolist(), strict=True)
    chunks = [start + int(own[start:end].argmax()) for start, end in spans]
    return _Best(masses[rows], np.array(chunks, np.int64), total, left_out)


def _joined(best: _Best, further: _Best, top: int, first: int) -> _Best:
    """The best documents of two stretches of chunks, the second from index `first` on."""
    total = float(np.logaddexp(best.total, further.total))
    if not len(further.masses):
        return _Best(best.masses, best.chunks, total, best.left_out)
    every = np.concatenate([best.masses, further.masses])
    kept, left_out = _first(every, top)
    # What either left out weighs as much as its own last, which may be the last of both.
    left_out += sum(part.left_out for part in (best, further) if part.last == every[kept[-1]])
    return _Best(every[kept], np.concatenate([best.chunks, first + further.chunks])[kept], total, left_out)


def _first(masses: NDArray[np.floating[Any]], top: int) -> tuple[NDArray[np.int64], int]:
    """Indices of the `top` greatest, descending, of equal ones the first; and how many more equal the last of them."""
    order = np.argsort(-masses, kind="stable")
    kept, left = order[:top], order[top:]
    return kept, int((masses[left] == masses[kept[-1:]]).sum())


def _log_sums(own: NDArray[np.float32], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """The logarithm of what the chunks of each document weigh together."""
    peaks = np.maximum.reduceat(own, starts)
    base = np.where(np.isfinite(peaks), peaks, 0)
    with np.errstate(divide="ignore"):  # the logarithm of nothing is what it should be
        return base + np.log(np.add.reduceat(np.exp(own - np.repeat(base, lengths)), starts))
