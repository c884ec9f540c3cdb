"""Small parts for reads: codebooks of five codes, documents of random codes, and their vectors written out."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from mbc_engine.bank import BankHeader, MemoryBank, ModelSignature, Origin, StoredDocument
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import Router
from mbc_engine.paper.read_modes import Reader

TOKENS, DIM, CODES = 3, 6, 5
MODES = ("flat", "routed", "hierarchical:3")


@dataclass(frozen=True)
class Small:
    """Makes the parts that reads need, always the same for the same arguments."""

    tokens: int = TOKENS
    dim: int = DIM

    def codebook(self, *, levels=1, per_position=False, seed=0):
        torch.manual_seed(seed)
        codebook = Codebook(CODES, DIM, TOKENS, levels=levels, per_position=per_position)
        with torch.no_grad():
            codebook.books.normal_()
        return codebook.requires_grad_(False)

    def codes(self, chunks, levels=1, seed=0):
        return np.random.default_rng(seed).integers(0, CODES, (chunks, TOKENS, levels)).astype(np.uint16)

    def reader(self, codebook=None, *, routed=False, documents=2, pass_through=False):
        torch.manual_seed(7)
        aggregator = Aggregator(DIM, blocks=2, heads=2, head_dim=4, hidden=8, pass_through=pass_through)
        aggregator.requires_grad_(False)
        router = Router(DIM).requires_grad_(False)
        torch.nn.init.normal_(router.weight)
        return Reader(aggregator, codebook or self.codebook(), router if routed else None, documents, 4)

    def question(self, questions=2, seed=3):
        return torch.randn(questions, TOKENS, DIM, generator=torch.Generator().manual_seed(seed))

    def dense(self, codebook, codes):
        """All chunks' vectors by one look-up each, [N, T, D]."""
        result = torch.zeros(len(codes), TOKENS, DIM)
        for chunk, token, level in np.ndindex(*codes.shape):
            position = token if codebook.per_position else 0
            result[chunk, token] += codebook.books[level, position, int(codes[chunk, token, level])]
        return result

    def documents(self, lengths):
        """The number of the document that each chunk belongs to."""
        return [number for number, length in enumerate(lengths.tolist()) for _ in range(length)]

    def bank(self, codebook, codes, lengths, *, dates=None, keeps_origins=True, first=0):
        """A bank of documents /0, /1, ... in that order, or from another number on."""
        bank = MemoryBank.create(
            None,
            ModelSignature("small", "aa" * 8, "bb" * 8),
            codebook.shape,
            codebook.books.shape[-1],
            keeps_origins=keeps_origins,
        )
        pieces = np.split(codes, np.cumsum(lengths))[:-1]
        numbered = enumerate(zip(dates or [None] * len(lengths), pieces, strict=True), first)
        bank.put(
            [
                StoredDocument(
                    hashlib.sha256(b"%d" % number).hexdigest(), len(own), 1, (Origin(f"/{number}", "", date),), own
                )
                for number, (date, own) in numbered
            ]
        )
        return bank


@pytest.fixture(scope="session")
def small():
    return Small()


@pytest.fixture(scope="module")
def small_blocks():
    """Banks with five chunks to a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
        yield


def modes_of(codebook):
    """The reads of these codes; residual ones cannot be read flat."""
    return MODES if codebook.levels == 1 else MODES[1:]


def assert_same(one, other, number_of=int, other_number_of=int):
    """The same modulation and the same sources, whose chunks are of documents with these numbers or names."""
    torch.testing.assert_close(one.modulation, other.modulation, rtol=1e-4, atol=1e-5)

    def shares(reading, number_of):
        for own in reading.sources:
            sums = Counter()
            for found in own:
                sums[number_of(found.chunk)] += found.share
            yield sums

    for own, theirs in zip(shares(one, number_of), shares(other, other_number_of), strict=True):
        assert own == pytest.approx(theirs, rel=1e-3, abs=1e-7)


def weight_overrides(base, encoder, frozen=False):
    """Settings for the weight formats of the base LM and both encoders."""
    sides = [f"model.{side}.weights={encoder}" for side in ("documents", "questions")]
    sides += [f"model.{side}.frozen={str(frozen).lower()}" for side in ("documents", "questions")]
    return [f"model.base_weights={base}", *sides]
