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


def interval(values: ArrayLike, clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """The mean over questions, with a percentile bootstrap interval over clusters.

    `values` and `clusters`, the cluster of each question, are [Q]. With a single cluster the interval has no width.
    """
    sums, counts = _by_cluster([values], clusters)
    return _intervals(sums, counts, resamples, seed)[0]


def ratio(
    values: ArrayLike, references: ArrayLike, clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The mean of values in percent of that of references on the same questions, [Q]; None if the latter is 0."""
    sums, _ = _by_cluster([values, references], clusters)
    return _intervals(100 * sums[:, :1], sums[:, 1:], resamples, seed)[0] if sums[:, 1].any() else None


def compare_pairs(
    pairs: Sequence[Sequence[ArrayLike]], clusters: Sequence[Any], *, resamples: int = 10_000, seed: int = 0
) -> list[Difference]:
    """Compare two methods on the same questions, for several pairs that share the random draws, which take most time.

    Values and `clusters` are [Q]. The test is exact where there are at most `resamples` sign flips.
    """
    if not pairs:
        return []
    arrays = np.asarray(pairs, np.float64)  # [pairs, 2, Q]
    sums, counts = _by_cluster(arrays[:, 0] - arrays[:, 1], clusters)
    p_values = _sign_flip_p_values(sums, resamples, seed)
    found = zip(arrays.mean(-1).tolist(), _intervals(sums, counts, resamples, seed), p_values, strict=True)
    return [Difference(first, second, difference, p, p) for (first, second), difference, p in found]


def adjusted(p_values: Iterable[float]) -> list[float]:
    """P-values adjusted for their number (Benjamini and Hochberg 1995): below 5%, at most 5% of such are by chance."""
    values = np.array([*p_values], np.float64)
    order = np.argsort(values)[::-1]
    scaled = values[order] * len(values) / np.arange(len(values), 0, -1)
    values[order] = np.minimum.accumulate(scaled)
    return values.tolist()  # type: ignore[no-any-return]


def _intervals(sums: Floats, references: Floats, resamples: int, seed: int) -> list[Interval]:
    """An interval for each column of the clusters' sums, [clusters, N], over references, [clusters, 1]."""
    rng, clusters = np.random.default_rng(seed), len(sums)
    means = []
    for rows in _parts(resamples, clusters):
        drawn = rng.integers(clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape).astype(np.float64)
        means.append((times @ sums) / np.maximum(times @ references, np.finfo(np.float64).tiny))
    lows, highs = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0).tolist()
    return list(map(Interval, (sums.sum(0) / references.sum(0)).tolist(), lows, highs))


def _sign_flip_p_values(sums: Floats, resamples: int, seed: int) -> list[float]:
    """A p-value per column of the clusters' summed differences, [clusters, N]; never 0 (Phipson and Smyth 2010)."""
    totals = np.abs(sums.sum(0))
    thresholds = totals - 1e-9 * np.abs(sums).sum(0)  # totals that differ only by rounding count as equal
    counts, rng = np.zeros(len(totals)), np.random.default_rng(seed)
    for rows in _parts(resamples, len(sums)):
        signs = 1.0 - 2 * rng.integers(2, size=(rows, len(sums)), dtype=np.int8)
        counts += (np.abs(signs @ sums) >= thresholds).sum(0)
    p_values = (1 + counts) / (1 + resamples)
    for column in np.flatnonzero((sums != 0).sum(0) <= np.log2(resamples)):
        nonzero = sums[sums[:, column] != 0, column]
        every = 1.0 - 2 * (np.arange(2 ** len(nonzero))[:, None] >> np.arange(len(nonzero)) & 1)
        p_values[column] = (np.abs(every @ nonzero) >= thresholds[column]).mean()
    return p_values.tolist()  # type: ignore[no-any-return]


def _by_cluster(values: Sequence[ArrayLike] | Floats, clusters: Sequence[Any]) -> tuple[Floats, Floats]:
    """Each cluster's sum of each of N kinds of values, [clusters, N], and its number of questions, [clusters, 1]."""
    _, owner, counts = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    return np.stack([np.bincount(owner, one) for one in values], axis=1), counts[:, None].astype(np.float64)


def _parts(resamples: int, clusters: int) -> Iterator[int]:
    rows = max(1, _DRAWN // max(1, clusters))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)
