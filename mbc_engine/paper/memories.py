"""What a question reads: the chunks of a memory, as continuous vectors, as codes in RAM, or as the codes of a bank.

Routing scores a chunk by its own codes, the sum over positions and levels of ⟨W h_t(question), E_{c_t}⟩: T·levels
look-ups in a table of a question's products with all codes.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mbc_engine.bank import Codes, ReadableBank, Selection, count
from mbc_engine.errors import ModelError
from mbc_engine.paper.codebook import Codebook
from mbc_engine.ranking import Lengths, Weights, chunk_weights, log_of

# Log scores of some chunks for each question, [B, chunks], and the number of chunks in each of their documents.
LogScores = tuple[NDArray[np.float32], Lengths]
Chunks = NDArray[np.int64]


class Router(nn.Module):
    """W and a learned scale, initially 10; scores are means over positions times this scale."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(dim))
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def project(self, question: Tensor) -> Tensor:
        tokens, dim = question.shape[1:]
        return question @ self.weight * (self.log_scale.exp() / (tokens * dim))

    def scores(self, question: Tensor, documents: Tensor) -> Tensor:
        """Score of each of N documents for each question: [B, T, D], [N, T, D] -> [B, N]; computed densely."""
        return torch.einsum("btd,ntd->bn", self.project(question), documents)

    def tables(self, question: Tensor, codebook: Codebook) -> Tensor:
        """Each question's product with each code: [B, T, D] -> [B, T, levels, num_codes]."""
        books = codebook.books.expand(-1, codebook.tokens, -1, -1)
        return torch.einsum("btd,ltjd->btlj", self.project(question), books)


class ReadableMemory(ABC):
    """Chunks that questions read, optionally weighted."""

    def __init__(self, weights: Weights | None) -> None:
        self._given_weights = weights

    @property
    def weights(self) -> Weights | None:
        return self._given_weights

    def __len__(self) -> int:
        return self._chunks() if self._given_weights is None else int((self._given_weights > 0).sum())

    @abstractmethod
    def rows(self) -> tuple[Tensor | None, Tensor | None]:
        """The rows of the flat read, [R, D] or None for those of the codebook, and their log weights, [R]."""

    @abstractmethod
    def shares(self, attention: Tensor) -> Iterator[LogScores]:
        """Each chunk's log share of the attention over the rows [B, R], some chunks at a time."""

    @abstractmethod
    def scores(self, router: Router, question: Tensor) -> Iterator[LogScores]:
        """Routing scores for question vectors [B, T, D], some chunks at a time."""

    @abstractmethod
    def vectors_at(self, chunks: Chunks) -> Tensor:
        """The vectors of some chunks: indices of any shape [...] -> [..., T, D]."""

    def codes_at(self, chunks: Chunks) -> Codes | None:
        """The codes of some chunks, [n] -> [n, T, levels]; None in a memory without codes."""
        return None

    @abstractmethod
    def _chunks(self) -> int: ...

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[NDArray[Any], Lengths]]:
        """Each chunk's representation, some chunks at a time in stored order, and the chunk count of each document."""

    @abstractmethod
    def _part(self, items: NDArray[Any], lengths: Lengths, weights: Weights | None) -> "ReadableMemory":
        """A memory of some of the chunks, given their items from `_blocks`."""

    def groups(self, size: int) -> Iterator[tuple["ReadableMemory", Chunks, Chunks]]:
        """Chunks of positive weight in stored order, `size` to a group: memory, chunk and document indices [n]."""

        def group(items: NDArray[Any], chunks: Chunks, documents: Chunks) -> tuple[ReadableMemory, Chunks, Chunks]:
            lengths = np.unique(documents, return_counts=True)[1]
            return self._part(items, lengths, None if self.weights is None else self.weights[chunks]), chunks, documents

        pending: list[NDArray[Any]] = []
        chunk = document = 0
        for items, lengths in self._blocks():
            chunks = np.arange(chunk, chunk + len(items))
            documents = np.repeat(np.arange(document, document + len(lengths)), lengths)
            chunk, document = chunk + len(items), document + len(lengths)
            selected = slice(None) if self.weights is None else np.flatnonzero(self.weights[chunks] > 0)
            new = [items[selected], chunks[selected], documents[selected]]
            pending = [np.concatenate(pair) for pair in zip(pending, new, strict=True)] if pending else new
            whole = len(pending[1]) // size * size
            for start in range(0, whole, size):
                yield group(*(column[start : start + size] for column in pending))
            pending = [column[whole:] for column in pending]
        if pending and len(pending[1]):
            yield group(*pending)

    def total_weight(self) -> float:
        return float(self._chunks() if self.weights is None else self.weights.sum(dtype=np.float64))


class VectorMemory(ReadableMemory):
    """Continuous vectors [N, T, D]; `lengths` are the documents' chunk counts, None if each has one."""

    def __init__(self, vectors: Tensor, lengths: Lengths | None = None, weights: Weights | None = None) -> None:
        super().__init__(weights)
        self._vectors = vectors
        self._lengths = np.ones(len(vectors), np.int64) if lengths is None else lengths

    def rows(self) -> tuple[Tensor, Tensor | None]:
        if self.weights is None:
            return self._vectors.flatten(0, 1), None
        logs = torch.from_numpy(log_of(self.weights)).to(self._vectors.device)
        return self._vectors.flatten(0, 1), logs.repeat_interleave(self._vectors.shape[1])

    def shares(self, attention: Tensor) -> Iterator[LogScores]:
        shares = attention.float().reshape(len(attention), *self._vectors.shape[:2]).sum(-1)
        yield shares.log().cpu().numpy(), self._lengths

    def scores(self, router: Router, question: Tensor) -> Iterator[LogScores]:
        scores = router.scores(question, self._vectors).float().detach().cpu().numpy()
        yield scores if self.weights is None else scores + log_of(self.weights), self._lengths

    def vectors_at(self, chunks: Chunks) -> Tensor:
        return self._vectors[torch.from_numpy(chunks).to(self._vectors.device)]

    def _chunks(self) -> int:
        return len(self._vectors)

    def _blocks(self) -> Iterator[tuple[NDArray[np.int64], Lengths]]:
        yield np.arange(len(self._vectors)), self._lengths

    def _part(self, items: NDArray[np.int64], lengths: Lengths, weights: Weights | None) -> ReadableMemory:
        return VectorMemory(self.vectors_at(items), lengths, weights)


class CodeMemory(ReadableMemory):
    """Codes [N, T, levels] of a codebook.

    The flat read attends over the codebook's rows, weighted by their counts, not over the documents. That needs a
    single level; residual codes are sums.
    """

    def __init__(
        self, codes: Codes, codebook: Codebook, lengths: Lengths | None = None, weights: Weights | None = None
    ) -> None:
        super().__init__(weights)
        self._codebook, self._codes = codebook, codes
        self._lengths = np.ones(len(codes), np.int64) if lengths is None else lengths

    def _chunks(self) -> int:
        return len(self._codes)

    def _blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        yield self._codes, self._lengths

    def _sums(self, tables: NDArray[np.float32]) -> Iterator[LogScores]:
        sums = np.zeros((len(tables), len(self._codes)), np.float32)
        for token, level in np.ndindex(*self._codes.shape[1:]):
            sums += tables[:, token, level, self._codes[:, token, level]]
        yield sums, self._lengths

    def _counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        return count(self._codes, self._codebook.shape)

    def codes_at(self, chunks: Chunks) -> Codes:
        return self._codes[chunks]

    def vectors_at(self, chunks: Chunks) -> Tensor:
        return self._looked_up(self.codes_at(chunks.ravel())).unflatten(0, chunks.shape)  # type: ignore[no-any-return]

    def rows(self) -> tuple[None, Tensor]:
        """Raises ModelError if the codes are residual."""
        if self._codebook.levels > 1:
            raise ModelError(
                "These codes cannot be read flat: a chunk's vectors are made of several codes each.",
                hint="Use --read routed, or --read hierarchical.",
            )
        return None, torch.from_numpy(log_of(self._row_counts)).to(self._codebook.books.device)

    def shares(self, attention: Tensor) -> Iterator[LogScores]:
        # A row's attention is divided among its occurrences.
        each = attention.float().cpu().numpy() / np.maximum(self._row_counts, np.finfo(np.float64).tiny)
        by_position = each.reshape(len(each), -1, 1, self._codebook.num_codes)
        shape = (len(each), self._codebook.tokens, 1, self._codebook.num_codes)
        return self._scan(np.broadcast_to(by_position, shape).astype(np.float32), log_of)

    def scores(self, router: Router, question: Tensor) -> Iterator[LogScores]:
        tables = router.tables(question, self._codebook)
        return self._scan(tables.detach().float().cpu().numpy(), lambda sums: sums)

    def _part(self, items: Codes, lengths: Lengths, weights: Weights | None) -> ReadableMemory:
        if self._codebook.levels > 1:
            return VectorMemory(self._looked_up(items), lengths, weights)
        return CodeMemory(items, self._codebook, lengths, weights)

    def _looked_up(self, codes: Codes) -> Tensor:
        return self._codebook.lookup(torch.from_numpy(codes.astype(np.int64)).to(self._codebook.books.device))

    def _scan(
        self, tables: NDArray[np.float32], log_scores: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    ) -> Iterator[LogScores]:
        if not np.isfinite(tables).all():  # which would look like damage to the bank
            raise ModelError(
                "This model computes NaN or infinite values; its training must have diverged.",
                hint="Ask with another model.",
            )
        start = 0
        for sums, lengths in self._sums(tables):
            scores, end = log_scores(sums), start + sums.shape[1]
            yield scores if self.weights is None else scores + log_of(self.weights[start:end]), lengths
            start = end

    @cached_property
    def _row_counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        if self._given_weights is None:
            return self._counts()[0].ravel()  # type: ignore[no-any-return]
        counts, start = np.zeros(self._codebook.books[0].flatten(0, 1).shape[0]), 0
        for codes, _ in self._blocks():
            weights = self._given_weights[start : start + len(codes), None, None]
            counts += count(codes, self._codebook.shape, weights)[0].ravel()
            start += len(codes)
        return counts


class BankMemory(CodeMemory):
    """The codes of one or more banks, read block by block; use it inside one of their snapshots.

    Weights, from a selection or from unequally weighted banks, take four bytes per chunk. Raises BankError if the bank
    does not store what the selection needs.
    """

    def __init__(self, bank: ReadableBank, codebook: Codebook, selection: Selection | None = None) -> None:
        weights = None if selection is None or selection.is_everything else chunk_weights(bank, selection)
        super().__init__(np.empty((0, codebook.tokens, codebook.levels), np.uint16), codebook, None, weights)
        self._bank = bank

    @cached_property
    def weights(self) -> Weights | None:
        if self._given_weights is None and self._bank.is_weighted:
            return chunk_weights(self._bank, Selection())
        return self._given_weights

    def _chunks(self) -> int:
        return self._bank.totals().chunks

    def _blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        return self._bank.blocks()

    def _sums(self, tables: NDArray[np.float32]) -> Iterator[LogScores]:
        return self._bank.scan(tables)

    def _counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        return self._bank.counts()

    def codes_at(self, chunks: Chunks) -> Codes:
        return self._bank.codes_at(chunks)
