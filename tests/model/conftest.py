"""Small parts for reads: codebooks of five codes, documents of random ones, and what they mean written out."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from mbc_engine.bank import Codes, MemoryBank, ModelSignature, Record
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.code_memory import shape_of
from mbc_engine.model.codebook import Codebook
from mbc_engine.model.memory import Lengths
from mbc_engine.model.reads import Reader
from mbc_engine.model.router import Router

TOKENS, DIM, CODES = 3, 6, 5


@dataclass(frozen=True)
class Small:
    """Makes the parts that reads need, always the same for the same arguments."""

    tokens: int = TOKENS
    dim: int = DIM

    def codebook(self, *, levels: int = 1, per_position: bool = False, seed: int = 0) -> Codebook:
        torch.manual_seed(seed)
        codebook = Codebook(CODES, DIM, TOKENS, levels=levels, per_position=per_position)
        with torch.no_grad():
            codebook.books.normal_()
        return codebook.requires_grad_(False)

    def codes(self, chunks: int, levels: int = 1, seed: int = 0) -> Codes:
        return np.random.default_rng(seed).integers(0, CODES, (chunks, TOKENS, levels)).astype(np.uint16)

    def reader(self, codebook: Codebook | None = None, *, routed: bool = False, documents: int = 2) -> Reader:
        torch.manual_seed(7)
        aggregator = Aggregator(DIM, blocks=2, heads=2, head_dim=4, hidden=8).requires_grad_(False)
        router = Router(DIM).requires_grad_(False)
        torch.nn.init.normal_(router.weight)
        return Reader(aggregator, codebook or self.codebook(), router if routed else None, documents, 4)

    def question(self, questions: int = 2, seed: int = 3) -> Tensor:
        return torch.randn(questions, TOKENS, DIM, generator=torch.Generator().manual_seed(seed))

    def dense(self, codebook: Codebook, codes: Codes) -> Tensor:
        """All chunks' vectors by one look-up each, [N, T, D]."""
        result = torch.zeros(len(codes), TOKENS, DIM)
        for chunk, token, level in np.ndindex(*codes.shape):
            position = token if codebook.per_position else 0
            result[chunk, token] += codebook.books[level, position, int(codes[chunk, token, level])]
        return result

    def documents(self, lengths: Lengths) -> list[int]:
        """The number of the document that each chunk belongs to."""
        return [number for number, length in enumerate(lengths.tolist()) for _ in range(length)]

    def bank(
        self,
        codebook: Codebook,
        codes: Codes,
        lengths: Lengths,
        *,
        dates: Sequence[str | None] | None = None,
        keeps_origins: bool = True,
        first: int = 0,
    ) -> MemoryBank:
        """A bank of documents /0, /1, ... in that order, or from another number on."""
        bank = MemoryBank.in_memory(
            ModelSignature("small", "aa" * 8, "bb" * 8),
            shape_of(codebook),
            codebook.books.numpy(),
            keeps_origins=keeps_origins,
        )
        pieces = np.split(codes, np.cumsum(lengths))[:-1]
        records = [
            Record(f"/{number}", "", hashlib.sha256(b"%d" % number).hexdigest(), 1, date)
            for number, date in enumerate(dates or [None] * len(lengths), first)
        ]
        bank.add(list(zip(records, pieces, strict=True)))
        return bank


@pytest.fixture(scope="session")
def small() -> Small:
    return Small()
