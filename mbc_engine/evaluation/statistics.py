"""Uncertainty of means over questions: bootstrap intervals, paired permutation tests, and many tests at once.

Questions about one article are not independent, so clusters of questions are resampled, or flipped, as a whole (cluster
bootstrap and cluster sign-flip test).
"""

from collections.abc import Iterable, Iterator, Sequence
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
    """A mean, a difference or a ratio, and its 95% bootstrap interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The means of two methods on the same questions, and first minus second; `p` is the two-sided p-value of a
    sign-flip test over clusters, `adjusted` the same for the number of tests that it is one of."""

    first: float
    second: float
    difference: Interval
    p: float
    adjusted: float

    @property
    def is_gain(self) -> bool:
        return self.adjusted < SIGNIFICANT and self.difference.low > 0

    @property
    def is_loss(self) -> bool:
        return self.adjusted < SIGNIFICANT and self.difference.high < 0


def interval(values: ArrayLike, clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The mean over questions, with a percentile bootstrap interval over clusters.

    `values` and `clusters`, the cluster of each question, are [Q]. With a single cluster the interval has no width.
    """
    sums, counts = _by_cluster([values], clusters)
    return _intervals(sums, counts[:, None], resamples, seed)[0]


def ratio(
    values: ArrayLike, references: ArrayLike, clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The mean of values in percent of that of references on the same questions, [Q]; None if the latter is 0."""
    sums, _ = _by_cluster([values, references], clusters)
    if not sums[:, 1].sum():
        return None
    return _intervals(100 * sums[:, :1], sums[:, 1:], resamples, seed)[0]


def compare_pairs(
    pairs: Sequence[tuple[ArrayLike, ArrayLike]], clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0
) -> list[Difference]:
    """Compare two methods on the same questions, for several pairs that share the random draws, which take most time.

    Values and `clusters` are [Q]. The test is exact where there are at most `resamples` sign flips.
    """
    if not pairs:
        return []
    arrays = [(np.asarray(first, np.float64), np.asarray(second, np.float64)) for first, second in pairs]
    sums, counts = _by_cluster([first - second for first, second in arrays], clusters)
    intervals, p_values = _intervals(sums, counts[:, None], resamples, seed), _sign_flip_p_values(sums, resamples, seed)
    return [
        Difference(float(first.mean()), float(second.mean()), difference, p, p)
        for (first, second), difference, p in zip(arrays, intervals, p_values, strict=True)
    ]


def adjusted(p_values: Iterable[float]) -> list[float]:
    """P-values adjusted for their number (Benjamini and Hochberg 1995): below 5%, at most 5% of such are by chance."""
    values = np.array([*p_values], np.float64)
    order = np.argsort(values)[::-1]
    scaled = values[order] * len(values) / np.arange(len(values), 0, -1)
    values[order] = np.minimum.accumulate(scaled)
    return [float(value) for value in values]


def _intervals(sums: Floats, references: Floats, resamples: int, seed: int) -> list[Interval]:
    """An interval for each column of the clusters' sums, [clusters, N], over references, [clusters, N or 1]."""
    rng, clusters = np.random.default_rng(seed), len(sums)
    means = []
    for rows in _parts(resamples, clusters):
        drawn = rng.integers(clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        means.append((times @ sums) / np.maximum(times @ references, np.finfo(np.float64).tiny))
    lows, highs = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0)
    return [
        Interval(float(mean), float(low), float(high))
        for mean, low, high in zip(sums.sum(0) / references.sum(0), lows, highs, strict=True)
    ]


def _sign_flip_p_values(sums: Floats, resamples: int, seed: int) -> list[float]:
    """A p-value per column of the clusters' summed differences, [clusters, N]; never 0 (Phipson and Smyth 2010)."""
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


def _by_cluster(values: Sequence[ArrayLike], clusters: Sequence[Any]) -> tuple[Floats, Floats]:
    """Each cluster's sum of each of N kinds of values, [clusters, N], and its number of questions, [clusters]."""
    _, owner = np.unique(np.asarray(clusters), return_inverse=True)
    arrays = [np.asarray(one, np.float64) for one in values]
    for array in arrays:
        if len(array) != len(owner) or not len(owner):
            raise ValueError(f"{len(array)} values of {len(owner)} questions")
    sums = np.stack([np.bincount(owner, array) for array in arrays], axis=1)
    return sums.astype(np.float64), np.bincount(owner).astype(np.float64)


def _parts(resamples: int, clusters: int) -> Iterator[int]:
    rows = max(1, _DRAWN // max(1, clusters))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)
