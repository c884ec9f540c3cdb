"""Uncertainty of means over questions: bootstrap intervals and paired permutation tests.

Questions about one document are not independent, so documents are resampled, or flipped, with all their questions
(cluster bootstrap and cluster sign-flip test).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# Random numbers drawn at a time; more would take more memory and save no time.
_DRAWN: Final = 1 << 20
SIGNIFICANT: Final = 0.05


@dataclass(frozen=True)
class Interval:
    """A mean and its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The means of two methods on the same questions, and first minus second; `p` is the two-sided p-value of a
    sign-flip test over documents."""

    first: float
    second: float
    difference: Interval
    p: float

    @property
    def is_gain(self) -> bool:
        return self.p < SIGNIFICANT and self.difference.low > 0

    @property
    def is_loss(self) -> bool:
        return self.p < SIGNIFICANT and self.difference.high < 0


def interval(values: ArrayLike, documents: Sequence[Any], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The mean over questions, with a percentile bootstrap interval over documents.

    `values` and `documents`, the document of each question, are [Q]. With a single document the interval has no width.
    """
    sums, counts = _by_document([values], documents)
    return _intervals(sums, counts, resamples, seed)[0]


def compare_pairs(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]], documents: Sequence[Any], *, resamples: int = 10_000, seed: int = 0
) -> list[Difference]:
    """Compare two methods on the same questions, for several pairs that share the random draws, which take most time.

    Values and `documents` are [Q]. The test is exact where there are at most `resamples` sign flips.
    """
    if not pairs:
        return []
    arrays = [(np.asarray(first, np.float64), np.asarray(second, np.float64)) for first, second in pairs]
    sums, counts = _by_document([first - second for first, second in arrays], documents)
    intervals, p_values = _intervals(sums, counts, resamples, seed), _sign_flip_p_values(sums, resamples, seed)
    return [
        Difference(float(first.mean()), float(second.mean()), difference, p)
        for (first, second), difference, p in zip(arrays, intervals, p_values, strict=True)
    ]


def _intervals(sums: Floats, counts: Floats, resamples: int, seed: int) -> list[Interval]:
    """An interval for each column of the documents' sums, [documents, N]."""
    rng, documents = np.random.default_rng(seed), len(sums)
    means = []
    for rows in _parts(resamples, documents):
        drawn = rng.integers(documents, size=(rows, documents)) + documents * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        means.append(times @ sums / (times @ counts)[:, None])
    lows, highs = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0)
    return [
        Interval(float(mean), float(low), float(high))
        for mean, low, high in zip(sums.sum(0) / counts.sum(), lows, highs, strict=True)
    ]


def _sign_flip_p_values(sums: Floats, resamples: int, seed: int) -> list[float]:
    """A p-value per column of the documents' summed differences, [documents, N]; never 0 (Phipson and Smyth 2010)."""
    totals = sums.sum(0)
    # Totals that differ only by rounding count as equal.
    thresholds = np.abs(totals) - 1e-9 * np.abs(sums).sum(0)
    counts = np.zeros(len(totals))
    rng = np.random.default_rng(seed)
    for rows in _parts(resamples, len(sums)):
        flips = rng.integers(2, size=(rows, len(sums)), dtype=np.int8).astype(np.float64)
        counts += (np.abs(totals - 2 * (flips @ sums)) >= thresholds).sum(0)
    p_values = (1 + counts) / (1 + resamples)
    for column in np.flatnonzero((sums != 0).sum(0) <= np.log2(resamples)):
        nonzero = sums[sums[:, column] != 0, column]
        flips = (np.arange(2 ** len(nonzero))[:, None] >> np.arange(len(nonzero)) & 1).astype(np.float64)
        p_values[column] = (np.abs(nonzero.sum() - 2 * (flips @ nonzero)) >= thresholds[column]).mean()
    return [float(p_value) for p_value in p_values]


def _by_document(values: Sequence[ArrayLike], documents: Sequence[Any]) -> tuple[Floats, Floats]:
    """Each document's sum of each of N kinds of values, [documents, N], and its number of questions, [documents]."""
    _, owner = np.unique(np.asarray(documents), return_inverse=True)
    arrays = [np.asarray(one, np.float64) for one in values]
    for array in arrays:
        if len(array) != len(owner) or not len(owner):
            raise ValueError(f"{len(array)} values of {len(owner)} questions")
    sums = np.stack([np.bincount(owner, array) for array in arrays], axis=1)
    return sums.astype(np.float64), np.bincount(owner).astype(np.float64)


def _parts(resamples: int, documents: int) -> Iterator[int]:
    rows = max(1, _DRAWN // max(1, documents))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)
