"""The paper's divide and conquer (section 3.1): groups are aggregated one by one, their results likewise, to the last.

Results are combined as soon as a group of them is full, so that no more than a group of each level exists at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mbc_engine.model.aggregator import Aggregated
from mbc_engine.model.memory import log_of


@dataclass(frozen=True)
class Share:
    """A document's share of a result.

    Attributes:
        chunk: the index of its best chunk in the group that has most of it.
        share: of the result, in [0, 1].
        most: what that group has of it.
    """

    chunk: int
    share: float
    most: float


Shares = dict[int, Share]  # by the number of the document


@dataclass(frozen=True)
class Result:
    """What a group became.

    Attributes:
        modulation: [B, T, D].
        shares: for each question the documents with the largest shares.
        weight: how much the chunks that became it count together.
    """

    modulation: Tensor
    shares: Sequence[Shares]
    weight: float


class Hierarchy:
    """Results of groups on their way up.

    Each counts as its chunks do together, as a last group may be smaller; equal ones are read as in the paper.

    Args:
        aggregate: reads rows of each question's own, [B, R, D], with log weights [1, R] or None.
        size: results to a group, at least 2.
        top: how many documents a result remembers for each question.
    """

    def __init__(self, aggregate: Callable[[Tensor, Tensor | None], Aggregated], size: int, top: int) -> None:
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
        rows, weights = torch.cat([result.modulation for result in group], dim=1), [result.weight for result in group]
        logs = None
        if len(set(weights)) > 1:
            logs = torch.from_numpy(log_of(np.array(weights))).to(rows.device)
            logs = logs.repeat_interleave(rows.shape[1] // len(group)).unsqueeze(0)
        read = self._aggregate(rows, logs)
        parts = read.attention.unflatten(1, (len(group), -1)).sum(-1).tolist()
        shares = [self._best([result.shares[question] for result in group], own) for question, own in enumerate(parts)]
        self.add(Result(read.modulation, shares, sum(weights)), level + 1)

    def _best(self, groups: Sequence[Shares], parts: Sequence[float]) -> Shares:
        """The largest shares of the whole, when each group has its part of it; a document may lie in several groups."""
        total: Shares = {}
        for shares, part in zip(groups, parts, strict=True):
            for number, own in shares.items():
                before = total.get(number, Share(own.chunk, 0.0, 0.0))
                most, chunk = max((before.most, before.chunk), (own.most * part, own.chunk), key=lambda pair: pair[0])
                total[number] = Share(chunk, before.share + own.share * part, most)
        return dict(sorted(total.items(), key=lambda item: -item[1].share)[: self._top])
