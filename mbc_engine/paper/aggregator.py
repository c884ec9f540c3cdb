"""The aggregation network h_psi (paper, section 3.1): a question attends over the bank in four blocks.

The bank has no positions, so the result does not depend on its order. Rows may have weights: a row of weight n
counts exactly like n equal rows, since attention is a sum over rows (softmax weights ∝ n · exp(q·k/√d)).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

# The keys and values of the N rows that a block attends to, each [B or 1, N, heads, head_dim].
KeyValue = tuple[Tensor, Tensor]
# Factor on the usual initial weights of queries and keys, so that a pass-through attends to few rows from the start.
_SHARPNESS: Final = 2.0


@dataclass(frozen=True)
class Aggregated:
    """What a question read from a bank: its modulation [B, T, D], and each row's mean attention, [B, N]."""

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

    @torch.no_grad()
    def start_from_similarity(self) -> None:
        """Initialise to read the rows most similar to a query, unchanged."""
        self.key.weight.copy_(self.query.weight.mul_(_SHARPNESS))
        nn.init.eye_(self.value.weight)

    def project(self, bank: Tensor) -> KeyValue:
        normed, heads = self.bank_norm(bank), (self.heads, self.head_dim)
        return self.key(normed).unflatten(-1, heads), self.value(normed).unflatten(-1, heads)

    def forward(self, queries: Tensor, bank: KeyValue, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Queries [B, T, D] read N rows; log_weights [B or 1, N]. Returns [B, T, D] and the attention [B, T, N]."""
        query = self.query(self.norm(queries)).unflatten(-1, (self.heads, self.head_dim))
        key, value = bank
        rows = "nhd" if len(key) == 1 else "bnhd"
        if len(key) == 1:
            key, value = key[0], value[0]
        scores = torch.einsum(f"bthd,{rows}->bhtn", query, key) * self.head_dim**-0.5
        if log_weights is not None:
            scores = scores + log_weights[:, None, None, :]
        weights = scores.softmax(-1)
        read = torch.einsum(f"bhtn,{rows}->bthd", weights, value)
        return queries + self.output(read.flatten(-2)), weights.mean(1)


class AttentionBlock(nn.Module):
    """Cross-attention over the bank, then a feed-forward, each with its residual."""

    def __init__(self, dim: int, heads: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.attention = CrossAttention(dim, heads, head_dim)
        self.feed_forward = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def zero_init(self) -> None:
        """Initialise to add nothing."""
        for output in (self.attention.output, self.feed_forward[-1]):
            for parameter in output.parameters():
                nn.init.zeros_(parameter)

    def forward(self, queries: Tensor, bank: KeyValue, log_weights: Tensor | None) -> tuple[Tensor, Tensor]:
        queries, weights = self.attention(queries, bank, log_weights)
        return queries + self.feed_forward(queries), weights


class Aggregator(nn.Module):
    """h_psi: the question's T vectors are the first queries; each of the 4 blocks reads the same bank.

    With `pass_through`, which the paper lacks, the modulation is only what the blocks add to the question's vectors,
    and the first block starts out passing on the rows most similar to the question.
    """

    def __init__(
        self,
        dim: int,
        *,
        blocks: int = 4,
        heads: int = 8,
        head_dim: int = 96,
        hidden: int = 768,
        pass_through: bool = False,
    ) -> None:
        super().__init__()
        each = [AttentionBlock(dim, heads, head_dim, hidden) for _ in range(blocks)]
        self.blocks, self.pass_through = nn.ModuleList(each), pass_through
        if pass_through:
            for block in each:
                block.attention.start_from_similarity()
                block.zero_init()
            nn.init.eye_(each[0].attention.output.weight)

    def empty_modulation(self, question: Tensor) -> Tensor:
        """The modulation that an empty memory gives questions [B, T, D]."""
        return torch.zeros_like(question) if self.pass_through else question

    def forward(self, question: Tensor, bank: Tensor, log_weights: Tensor | None = None) -> Aggregated:
        """Read rows [B or 1, N, D] for questions [B, T, D]; `log_weights` [B or 1, N] are log multiplicities."""
        return self.read(question, self.project(bank), log_weights)

    def project(self, bank: Tensor) -> Iterator[KeyValue]:
        """Each block's keys and values of rows [B or 1, N, D], one block's at a time: all that a read depends on."""
        return (block.attention.project(bank) for block in self.blocks)  # type: ignore[operator, union-attr]

    def read(self, question: Tensor, bank: Iterable[KeyValue], log_weights: Tensor | None = None) -> Aggregated:
        """As `forward`, for a bank that is already projected."""
        queries, attention = question, []
        for block, rows in zip(self.blocks, bank, strict=True):
            queries, weights = block(queries, rows, log_weights)
            attention.append(weights.detach().mean(1))
        return Aggregated(queries - question if self.pass_through else queries, torch.stack(attention).mean(0))
