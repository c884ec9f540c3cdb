"""The aggregation network h_psi (paper, section 3.1): a question attends over the bank, four blocks deep.

The bank has no positions, so the result does not depend on its order. A row may carry a weight: a row of weight n
counts like n equal rows, exactly, since attention is a sum over rows (softmax weights ∝ n · exp(q·k/√d)).

The paper's divide and conquer (section 3.1): groups are aggregated one by one, their results likewise, to the last.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mbc_engine.paper.memories import log_of


@dataclass(frozen=True)
class KeyValue:
    """What one block attends to: keys and values of N rows, each [B or 1, N, heads, head_dim]."""

    key: Tensor
    value: Tensor


@dataclass(frozen=True)
class Aggregated:
    """What a question took from a bank.

    Attributes:
        modulation: [B, T, D].
        attention: each row's mean attention over blocks, heads and queries, without gradient, [B, N].
        pointed: the last block's attention of each query, the mean over heads, with gradient, [B, T, N].
    """

    modulation: Tensor
    attention: Tensor
    pointed: Tensor


class CrossAttention(nn.Module):
    """Pre-norm multi-head cross-attention over a weighted bank, with its residual."""

    def __init__(self, dim: int, heads: int, head_dim: int) -> None:
        super().__init__()
        inner = heads * head_dim
        self.heads, self.head_dim = heads, head_dim
        self.norm, self.bank_norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.query = nn.Linear(dim, inner, bias=False)
        self.key = nn.Linear(dim, inner, bias=False)
        self.value = nn.Linear(dim, inner, bias=False)
        self.output = nn.Linear(inner, dim)

    def project(self, bank: Tensor) -> KeyValue:
        """Keys and values of bank rows [B or 1, N, D]."""
        normed, heads = self.bank_norm(bank), (self.heads, self.head_dim)
        return KeyValue(self.key(normed).unflatten(-1, heads), self.value(normed).unflatten(-1, heads))

    def forward(self, queries: Tensor, bank: KeyValue, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries [B, T, D] read N rows; log_weights [B or 1, N]. Returns [B, T, D] and the attention [B, T, N]."""
        query = self.query(self.norm(queries)).unflatten(-1, (self.heads, self.head_dim))
        is_shared = len(bank.key) == 1
        if is_shared:
            scores = torch.einsum("bthd,nhd->bhtn", query, bank.key[0])
        else:
            scores = torch.einsum("bthd,bnhd->bhtn", query, bank.key)
        scores = scores * self.head_dim**-0.5
        if log_weights is not None:
            scores = scores + log_weights[:, None, None, :]
        weights = scores.softmax(-1)
        if is_shared:
            read = torch.einsum("bhtn,nhd->bthd", weights, bank.value[0])
        else:
            read = torch.einsum("bhtn,bnhd->bthd", weights, bank.value)
        return queries + self.output(read.flatten(-2)), weights.mean(1)


class Block(nn.Module):
    """Cross-attention over the bank, then a feed-forward, each with its residual."""

    def __init__(self, dim: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.attention = CrossAttention(dim, heads, head_dim)
        self.feed_forward = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, queries: Tensor, bank: KeyValue, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        queries, weights = self.attention(queries, bank, log_weights)
        return queries + self.feed_forward(queries), weights


class Aggregator(nn.Module):
    """h_psi: the question's T vectors are the first queries, every block reads the same bank.

    Args:
        dim: D.
        blocks: cross-attention blocks, the paper's 4.
        heads: attention heads.
        head_dim: width of a head.
        hidden: width of the feed-forward.
    """

    def __init__(self, dim: int, *, blocks: int = 4, heads: int = 8, head_dim: int = 96, hidden: int = 768) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, heads, head_dim, hidden) for _ in range(blocks))

    def forward(self, question: Tensor, bank: Tensor, log_weights: Tensor | None = None) -> Aggregated:
        """Read a bank.

        Args:
            question: g_input's vectors, [B, T, D].
            bank: rows to read, [B, N, D], or [1, N, D] when all questions read the same.
            log_weights: log of each row's multiplicity, [B or 1, N]; None means one each.
        """
        return self.read(question, self._projections(bank), log_weights)  # one block's at a time

    def project(self, bank: Tensor) -> list[KeyValue]:
        """Each block's keys and values of rows [B, N, D] or [1, N, D]: all of a bank that a read depends on."""
        return list(self._projections(bank))

    def read(self, question: Tensor, bank: Iterable[KeyValue], log_weights: Tensor | None = None) -> Aggregated:
        """Read a bank that is projected already; otherwise as `forward`."""
        queries, attention = question, []
        for block, rows in zip(self.blocks, bank, strict=True):
            queries, weights = block(queries, rows, log_weights)
            attention.append(weights.detach().mean(1))
        return Aggregated(queries, torch.stack(attention).mean(0), weights)

    def _projections(self, bank: Tensor) -> Iterator[KeyValue]:
        return (block.attention.project(bank) for block in self.blocks)  # type: ignore[operator, union-attr]


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
