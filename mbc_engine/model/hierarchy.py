"""The paper's divide and conquer (section 3.1): groups are aggregated one by one, their results likewise, to the last.

Results are combined as soon as a group of them is full, so that no more than a group of each level exists at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mbc_engine.model.aggregator import Aggregated


@dataclass(frozen=True)
class Share:
    """A document's share of a result; `chunk` is the index of its best chunk."""

    chunk: int
    share: float


Shares = dict[int, Share]  # by the number of the document


@dataclass(frozen=True)
class Result:
    """What a group became: a modulation [B, T, D], and for each question the documents with the largest shares."""

    modulation: Tensor
    shares: Sequence[Shares]


class Hierarchy:
    """Results of equal groups on their way up.

    Args:
        aggregate: reads rows of each question's own, [B, R, D].
        size: results to a group, at least 2.
        top: how many documents a result remembers for each question.
    """

    def __init__(self, aggregate: Callable[[Tensor], Aggregated], size: int, top: int) -> None:
        self._aggregate, self._size, self._top = aggregate, size, top
        self._pending: list[list[Result]] = []
        self._seen: list[int] = []

    def add(self, result: Result, level: int = 0) -> None:
        """Take the next result of a level."""
        if level == len(self._pending):
            self._pending.append([])
            self._seen.append(0)
        self._pending[level].append(result)
        self._seen[level] += 1
        if len(self._pending[level]) == self._size:
            self._combine(level)

    def last(self) -> Result:
        """What all results, at least one, become in the end."""
        level = 0
        while self._seen[level] > 1:
            if self._pending[level]:
                self._combine(level)
            level += 1
        return self._pending[level][0]

    def _combine(self, level: int) -> None:
        """A group becomes one result of the next level."""
        group = self._pending[level]
        self._pending[level] = []
        read = self._aggregate(torch.cat([result.modulation for result in group], dim=1))
        parts = read.attention.unflatten(1, (len(group), -1)).sum(-1).tolist()
        shares = [self._best([result.shares[question] for result in group], own) for question, own in enumerate(parts)]
        self.add(Result(read.modulation, shares), level + 1)

    def _best(self, groups: Sequence[Shares], parts: Sequence[float]) -> Shares:
        """The largest shares of the whole, when each group has its part of it; a document may lie in several groups."""
        total: Shares = {}
        for shares, part in zip(groups, parts, strict=True):
            for number, own in shares.items():
                before = total.get(number, Share(own.chunk, 0.0))
                share = own.share * part
                chunk = own.chunk if share > before.share else before.chunk
                total[number] = Share(chunk, before.share + share)
        return dict(sorted(total.items(), key=lambda item: -item[1].share)[: self._top])
