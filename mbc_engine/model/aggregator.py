"""The aggregation network h_psi (paper, section 3.1): a question attends over the bank, four blocks deep.

The bank has no positions, so the result does not depend on its order. A row may carry a weight: a row of weight n
counts like n equal rows, exactly, since attention is a sum over rows (softmax weights ∝ n · exp(q·k/√d)).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Aggregated:
    """A question's modulation [B, T, D], and each bank row's mean attention over blocks, heads and queries [B, N]."""

    modulation: Tensor
    attention: Tensor


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

    def forward(self, queries: Tensor, bank: Tensor, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries [B, T, D] read bank [B or 1, N, D]; log_weights [B or 1, N]. Returns [B, T, D] and [B, N]."""
        normed = self.bank_norm(bank)
        query = self.query(self.norm(queries)).unflatten(-1, (self.heads, self.head_dim))
        key = self.key(normed).unflatten(-1, (self.heads, self.head_dim))
        value = self.value(normed).unflatten(-1, (self.heads, self.head_dim))
        if len(bank) == 1:
            scores = torch.einsum("bthd,nhd->bhtn", query, key[0])
        else:
            scores = torch.einsum("bthd,bnhd->bhtn", query, key)
        scores = scores * self.head_dim**-0.5
        if log_weights is not None:
            scores = scores + log_weights[:, None, None, :]
        weights = scores.softmax(-1)
        if len(bank) == 1:
            read = torch.einsum("bhtn,nhd->bthd", weights, value[0])
        else:
            read = torch.einsum("bhtn,bnhd->bthd", weights, value)
        return queries + self.output(read.flatten(-2)), weights.detach().mean((1, 2))


class Block(nn.Module):
    """Cross-attention over the bank, then a feed-forward, each with its residual."""

    def __init__(self, dim: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.attention = CrossAttention(dim, heads, head_dim)
        self.feed_forward = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, queries: Tensor, bank: Tensor, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
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
        queries, attention = question, []
        for block in self.blocks:
            queries, weights = block(queries, bank, log_weights)
            attention.append(weights)
        return Aggregated(queries, torch.stack(attention).mean(0))
