"""Routing: a question's vectors score every document by the document's own codes.

The score of a document is the sum over positions and levels of ⟨W h_t(question), E_{c_t}⟩: with the products of a
question with all codes in a table, a document costs T·levels look-ups. The bank is a product-quantised index of its
documents, for free.

What a question reads: the documents of a bank as codes, or as continuous vectors before there are codes.

Chunks in stored order cut into parts of one size, whatever blocks they come in: groups of a hierarchical read.

A memory of continuous vectors: what there is before the codebook, and between the levels of a hierarchical read.

A memory of codes: at hand, or in a bank, which is gone through block by block and never held as a whole.
"""

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mbc_engine.bank import Codes, CodeShape, ReadableBank, Selection, count, pack
from mbc_engine.bank.codes import CodeTables, PackedBlock, Worths
from mbc_engine.errors import ModelError
from mbc_engine.paper.codebook import Codebook


class Router(nn.Module):
    """W and a learned temperature.

    Args:
        dim: D.
        scale: the first temperature; scores are means over positions times this.
    """

    def __init__(self, dim: int, *, scale: float = 10.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(dim))
        self.log_scale = nn.Parameter(torch.tensor(math.log(scale)))

    def project(self, question: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D], temperature included: a score is the plain sum of products with it."""
        tokens, dim = question.shape[1:]
        return question @ self.weight * (self.log_scale.exp() / (tokens * dim))

    def scores(self, question: Tensor, documents: Tensor) -> Tensor:
        """Score of each of N documents for each question: [B, T, D], [N, T, D] -> [B, N]; the dense way."""
        return torch.einsum("btd,ntd->bn", self.project(question), documents)

    def tables(self, question: Tensor, codebook: Codebook) -> Tensor:
        """Each question's product with each code: [B, T, D] -> [B, T, levels, num_codes]."""
        books = codebook.books.expand(-1, codebook.tokens, -1, -1)
        return torch.einsum("btd,ltjd->btlj", self.project(question), books)


Lengths = NDArray[np.int64]
Weights = NDArray[np.float32]


@dataclass(frozen=True)
class Rows:
    """What attention goes over.

    Attributes:
        vectors: [R, D].
        log_weights: logarithms of how often each counts, [R]; None for once.
        are_codebook: the vectors are those of the codebook, all of them in order.
    """

    vectors: Tensor
    log_weights: Tensor | None
    are_codebook: bool = False


@dataclass(frozen=True)
class Chosen:
    """Some chunks for each question.

    Attributes:
        vectors: [B, k, T, D].
        log_weights: [B, k]; None for 0.
        codes: what the vectors are made of, [B, k, T, levels]; None in a memory without codes.
    """

    vectors: Tensor
    log_weights: Tensor | None
    codes: Codes | None


@dataclass(frozen=True)
class Masses:
    """Logarithms of what chunks weigh, [B, chunks], and the chunks of each document they make up, [documents]."""

    values: NDArray[np.float32]
    lengths: Lengths


@dataclass(frozen=True)
class Group:
    """Some chunks of a memory as a memory.

    Attributes:
        memory: the chunks.
        chunks: their indices in the whole, [n].
        documents: the numbers of their documents in the whole, [n].
        weight: how much they count together.
    """

    memory: "Memory"
    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]
    weight: float


class Memory(Protocol):
    """Chunks that reads go over."""

    def __len__(self) -> int:
        """How many chunks there are that weigh something."""
        ...

    def rows(self) -> Rows:
        """The distinct rows of the flat read."""
        ...

    def shares(self, attention: Tensor) -> Iterator[Masses]:
        """What attention over the rows [B, R] gives each chunk, some chunks at a time."""
        ...

    def scores(self, router: Router, question: Tensor) -> Iterator[Masses]:
        """Routing scores for question vectors [B, T, D], some chunks at a time."""
        ...

    def chosen(self, chunks: NDArray[np.int64]) -> Chosen:
        """Some chunks by their indices, [B, k]."""
        ...

    def groups(self, size: int) -> Iterator[Group]:
        """The chunks in stored order, `size` to a group; those without weight are left out."""
        ...


def log_of(weights: NDArray[np.floating[Any]] | NDArray[np.integer[Any]]) -> NDArray[np.float32]:
    """Logarithms, -inf of nothing."""
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float32] = np.log(weights).astype(np.float32, copy=False)
    return logs


@dataclass(frozen=True)
class Part:
    """What is to become a group: items, their weights, indices and document numbers, and runs of the same document."""

    items: NDArray[Any]
    weights: Weights | None
    chunks: NDArray[np.int64]
    documents: NDArray[np.int64]

    @property
    def lengths(self) -> Lengths:
        """How many chunks of each document are in the part."""
        return np.unique(self.documents, return_counts=True)[1]

    @property
    def weight(self) -> float:
        """How much its chunks count together."""
        return float(len(self.chunks) if self.weights is None else self.weights.sum(dtype=np.float64))

    def joined(self, other: "Part") -> "Part":
        weights = None if self.weights is None or other.weights is None else np.append(self.weights, other.weights)
        return Part(
            np.concatenate([self.items, other.items]),
            weights,
            np.append(self.chunks, other.chunks),
            np.append(self.documents, other.documents),
        )

    def between(self, start: int, end: int | None) -> "Part":
        weights = None if self.weights is None else self.weights[start:end]
        return Part(self.items[start:end], weights, self.chunks[start:end], self.documents[start:end])


def parts_of(blocks: Iterator[tuple[NDArray[Any], Lengths]], weights: Weights | None, size: int) -> Iterator[Part]:
    """Cut blocks of items into parts of `size`, the last may be smaller; items without weight are left out."""
    pending: Part | None = None
    chunk = document = 0
    for items, lengths in blocks:
        chunks = np.arange(chunk, chunk + len(items))
        documents = np.repeat(np.arange(document, document + len(lengths)), lengths)
        chunk, document = chunk + len(items), document + len(lengths)
        own = None if weights is None else weights[chunks]
        kept = slice(None) if own is None else np.flatnonzero(own > 0)
        part = Part(items[kept], None if own is None else own[kept], chunks[kept], documents[kept])
        pending = part if pending is None else pending.joined(part)
        whole = len(pending.chunks) // size * size
        for start in range(0, whole, size):
            yield pending.between(start, start + size)
        pending = pending.between(whole, None)
    if pending is not None and len(pending.chunks):
        yield pending


class VectorMemory:
    """Continuous vectors; every row stands for itself.

    Args:
        vectors: [N, T, D].
        lengths: chunks of each document; None if each has one.
        weights: how much each chunk counts, [N]; None for once.
    """

    def __init__(self, vectors: Tensor, lengths: Lengths | None = None, weights: Weights | None = None) -> None:
        self._vectors = vectors
        self._lengths = np.ones(len(vectors), np.int64) if lengths is None else lengths
        self._weights = weights

    def __len__(self) -> int:
        return len(self._vectors) if self._weights is None else int((self._weights > 0).sum())

    def rows(self) -> Rows:
        weights = self._logs()
        tokens = self._vectors.shape[1]
        return Rows(self._vectors.flatten(0, 1), None if weights is None else weights.repeat_interleave(tokens))

    def shares(self, attention: Tensor) -> Iterator[Masses]:
        shares = attention.float().reshape(len(attention), *self._vectors.shape[:2]).sum(-1)
        yield Masses(shares.log().cpu().numpy(), self._lengths)

    def scores(self, router: Router, question: Tensor) -> Iterator[Masses]:
        scores = router.scores(question, self._vectors).float()
        weights = self._logs()
        yield Masses((scores if weights is None else scores + weights).detach().cpu().numpy(), self._lengths)

    def chosen(self, chunks: NDArray[np.int64]) -> Chosen:
        indices = torch.from_numpy(chunks).to(self._vectors.device)
        weights = self._logs()
        return Chosen(self._vectors[indices], None if weights is None else weights[indices], None)

    def groups(self, size: int) -> Iterator[Group]:
        stream = iter([(np.arange(len(self._vectors)), self._lengths)])
        for part in parts_of(stream, self._weights, size):
            vectors = self._vectors[torch.from_numpy(part.chunks).to(self._vectors.device)]
            memory = VectorMemory(vectors, part.lengths, part.weights)
            yield Group(memory, part.chunks, part.documents, part.weight)

    def _logs(self) -> Tensor | None:
        return None if self._weights is None else torch.from_numpy(log_of(self._weights)).to(self._vectors.device)


class CodedMemory(ABC):
    """Codes and the codebook they index; subclasses say where the codes are.

    The flat read goes over the codebook's rows with their counts, not over the documents: rows with the same code are
    the same row, n times. That needs single codes; residual codes are sums.

    Args:
        codebook: what the codes are indices into.
        selected: how much each chunk counts, [N]; None where `_counts` has it.
    """

    def __init__(self, codebook: Codebook, selected: Weights | None) -> None:
        self._codebook, self._selected = codebook, selected

    @abstractmethod
    def _chunks(self) -> int:
        """How many chunks there are, whatever they weigh."""

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        """All codes in stored order, some chunks at a time, and the chunks of each document."""

    @abstractmethod
    def _sums(self, worths: Worths) -> Iterator[tuple[Worths, Lengths]]:
        """As `MemoryBank.sums`."""

    @abstractmethod
    def _counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """How often each code counts where nothing is selected, [levels, positions, num_codes]."""

    @abstractmethod
    def codes_at(self, chunks: NDArray[np.int64]) -> Codes:
        """The codes of chunks by their indices [n]: [n, T, levels]."""

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return self._chunks() if self._selected is None else int((self._selected > 0).sum())

    @cached_property
    def _weights(self) -> Weights | None:
        """How much each chunk counts, [N]; None for once."""
        return self._selected

    def rows(self) -> Rows:
        """The codebook's rows and the logarithms of how often each occurs; -inf for those that do not.

        Raises:
            ModelError: the codes are residual.
        """
        if not self._codebook.is_read_by_row:
            raise ModelError(
                "These codes cannot be read flat: a chunk's vectors are made of several codes each.",
                hint="Use --read routed, or --read hierarchical.",
            )
        logs = torch.from_numpy(log_of(self._row_counts)).to(self._codebook.books.device)
        return Rows(self._codebook.books[0].flatten(0, 1), logs, are_codebook=True)

    def shares(self, attention: Tensor) -> Iterator[Masses]:
        """See `Memory`. What a row gets of the attention is divided among its occurrences."""
        counts = self._row_counts
        each = attention.float().cpu().numpy() / np.maximum(counts, np.finfo(np.float64).tiny)
        books = each.reshape(len(each), -1, 1, self._codebook.num_codes)
        shape = (len(each), self._codebook.tokens, 1, self._codebook.num_codes)
        for start, (sums, lengths) in self._placed(np.broadcast_to(books, shape).astype(np.float32)):
            yield Masses(self._weighted(log_of(sums), start), lengths)

    def scores(self, router: Router, question: Tensor) -> Iterator[Masses]:
        """See `Memory`. A score is the sum of table entries, one for each code."""
        tables = router.tables(question, self._codebook)
        for start, (sums, lengths) in self._placed(tables.detach().float().cpu().numpy()):
            yield Masses(self._weighted(sums, start), lengths)

    def chosen(self, chunks: NDArray[np.int64]) -> Chosen:
        """See `Memory`."""
        own = self.codes_at(chunks.ravel())
        codes = own.reshape(*chunks.shape, *own.shape[1:])
        indices, weights = as_indices(codes, self._codebook), None
        if self._weights is not None:
            weights = torch.from_numpy(log_of(self._weights[chunks])).to(indices.device)
        return Chosen(self._codebook.lookup(indices), weights, codes)

    def groups(self, size: int) -> Iterator[Group]:
        """See `Memory`. Groups of residual codes are read as the vectors they stand for."""
        for part in parts_of(self._blocks(), self._weights, size):
            memory: Memory
            if not self._codebook.is_read_by_row:
                vectors = self._codebook.lookup(as_indices(part.items, self._codebook))
                memory = VectorMemory(vectors, part.lengths, part.weights)
            else:
                memory = CodeMemory(part.items, self._codebook, part.lengths, part.weights)
            yield Group(memory, part.chunks, part.documents, part.weight)

    def _placed(self, worths: Worths) -> Iterator[tuple[int, tuple[Worths, Lengths]]]:
        """The sums with the index of their first chunk.

        Raises:
            ModelError: what codes are worth are no numbers.
        """
        if not np.isfinite(worths).all():  # which would look like damage to the bank
            raise ModelError(
                "This model computes values that are no numbers; its training must have diverged.",
                hint="Ask with another model.",
            )
        start = 0
        for sums, lengths in self._sums(worths):
            yield start, (sums, lengths)
            start += sums.shape[1]

    def _weighted(self, values: NDArray[np.float32], start: int) -> NDArray[np.float32]:
        if self._weights is None:
            return values
        return values + log_of(self._weights[start : start + values.shape[1]])

    @cached_property
    def _row_counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """How often each row of the books of single codes counts, [rows]."""
        if self._selected is None:
            whole: NDArray[np.int64] | NDArray[np.float64] = self._counts()[0].ravel()
            return whole
        counts, start = np.zeros(self._codebook.books[0].flatten(0, 1).shape[0]), 0
        for codes, _ in self._blocks():
            rows = codes[..., 0].astype(np.int64)
            if self._codebook.per_position:
                rows += np.arange(self._codebook.tokens) * self._codebook.num_codes
            weights = np.repeat(self._selected[start : start + len(codes)], self._codebook.tokens)
            counts += np.bincount(rows.ravel(), weights, minlength=len(counts))
            start += len(codes)
        return counts


class CodeMemory(CodedMemory):
    """Codes at hand.

    Args:
        codes: [N, T, levels].
        codebook: what they are indices into.
        lengths: chunks of each document; None if each has one.
        weights: how much each chunk counts, [N]; None for once.
    """

    def __init__(
        self, codes: Codes, codebook: Codebook, lengths: Lengths | None = None, weights: Weights | None = None
    ) -> None:
        super().__init__(codebook, weights)
        self._codes = codes
        self._lengths = np.ones(len(codes), np.int64) if lengths is None else lengths

    def _chunks(self) -> int:
        return len(self._codes)

    def _blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        yield self._codes, self._lengths

    def _sums(self, worths: Worths) -> Iterator[tuple[Worths, Lengths]]:
        yield self._packed.sums(CodeTables(self._packed.shape, worths)), self._lengths

    @cached_property
    def _packed(self) -> PackedBlock:
        shape = shape_of(self._codebook)
        return PackedBlock(shape, pack(self._codes, shape), self._lengths)

    def _counts(self) -> NDArray[np.int64]:
        return count(self._codes, shape_of(self._codebook))

    def codes_at(self, chunks: NDArray[np.int64]) -> Codes:
        return self._codes[chunks]


class BankMemory(CodedMemory):
    """The codes of a bank, or of several, gone through block by block: however many, one block is looked at a time.

    The flat read takes its rows from the running counts of the banks. Use it inside one of their snapshots.

    Args:
        bank: what is remembered.
        codebook: of the bank's model.
        selection: what of it counts; None for all. Weights take four bytes a chunk, as do those of banks that count
            unequally, once chunks are looked at.

    Raises:
        BankError: the bank has nothing to select by.
    """

    def __init__(self, bank: ReadableBank, codebook: Codebook, selection: Selection | None = None) -> None:
        selected = None
        if selection is not None and not selection.is_everything:
            selected = chunk_weights(bank, selection)
        super().__init__(codebook, selected)
        self._bank = bank

    @cached_property
    def _weights(self) -> Weights | None:
        if self._selected is None and self._bank.is_weighted:
            return chunk_weights(self._bank, Selection())
        return self._selected

    def _chunks(self) -> int:
        return self._bank.totals().chunks

    def _blocks(self) -> Iterator[tuple[Codes, Lengths]]:
        return self._bank.blocks()

    def _sums(self, worths: Worths) -> Iterator[tuple[Worths, Lengths]]:
        return self._bank.sums(worths)

    def _counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        return self._bank.counts()

    def codes_at(self, chunks: NDArray[np.int64]) -> Codes:
        return self._bank.codes_at(chunks)


def shape_of(codebook: Codebook) -> CodeShape:
    """The shape of the codes that a codebook gives."""
    return CodeShape(codebook.tokens, codebook.levels, codebook.num_codes, codebook.per_position)


def chunk_weights(bank: ReadableBank, selection: Selection) -> Weights:
    """How much each chunk counts beside the one that counts most."""
    logs = array("f")
    for own in bank.log_weights(selection):
        logs.frombytes(own.astype(np.float32).tobytes())
    weights = np.frombuffer(logs, np.float32)
    # Reads go by ratios alone; all documents may be so old that none would count beside one of today.
    weights -= weights.max(initial=np.finfo(np.float32).min)
    return np.exp(weights, out=weights)


def as_indices(codes: Codes, codebook: Codebook) -> Tensor:
    """Stored codes as what indexes a tensor beside the codebook."""
    return torch.from_numpy(codes.astype(np.int64)).to(codebook.books.device)
