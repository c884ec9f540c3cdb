"""What a question reads: the documents of a bank as codes, or as continuous vectors before there are codes."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from mbc_engine.bank import MemoryBank
from mbc_engine.errors import MBCError
from mbc_engine.model.codebook import Codebook
from mbc_engine.model.router import Router


class Memory(Protocol):
    """N documents (chunks, in a bank) that reads go over."""

    def __len__(self) -> int: ...

    def rows(self) -> tuple[Tensor, Tensor | None]:
        """The distinct rows of the flat read [R, D] and the log of their multiplicities [R], None for one each."""
        ...

    def shares(self, attention: Tensor) -> Tensor:
        """Attention over rows [B, R] as shares of the documents [B, N]; both sum to 1."""
        ...

    def scores(self, router: Router, question: Tensor) -> Tensor:
        """Routing scores of all documents: question vectors [B, T, D] -> [B, N]."""
        ...

    def vectors(self, documents: Tensor) -> Tensor:
        """Vectors of chosen documents: [B, k] -> [B, k, T, D]."""
        ...


class VectorMemory:
    """Continuous vectors [N, T, D]; every row stands for itself."""

    def __init__(self, vectors: Tensor) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def rows(self) -> tuple[Tensor, Tensor | None]:
        return self._vectors.flatten(0, 1), None

    def shares(self, attention: Tensor) -> Tensor:
        return attention.reshape(len(attention), *self._vectors.shape[:2]).sum(-1)

    def scores(self, router: Router, question: Tensor) -> Tensor:
        return router.scores(question, self._vectors)

    def vectors(self, documents: Tensor) -> Tensor:
        return self._vectors[documents]


class CodeMemory:
    """Codes [N, T, levels] and the codebook they index.

    The flat read goes over the codebook's rows with their counts, not over the documents: rows with the same code are
    the same row, n times. That needs single codes; residual codes are sums, and are read routed.
    """

    def __init__(self, codes: np.ndarray, codebook: Codebook) -> None:
        self._codes = as_indices(codes, codebook)
        self._codebook = codebook

    def __len__(self) -> int:
        return len(self._codes)

    def rows(self) -> tuple[Tensor, Tensor | None]:
        return counted_rows(self._codebook, self._row_counts())

    def shares(self, attention: Tensor) -> Tensor:
        return shares_of(self._codes, occurrence_weights(attention, self._row_counts()), self._codebook)

    def scores(self, router: Router, question: Tensor) -> Tensor:
        return table_scores(router.tables(question, self._codebook), self._codes)

    def vectors(self, documents: Tensor) -> Tensor:
        return self._codebook.lookup(self._codes[documents])

    def _row_counts(self) -> Tensor:
        books = self._codebook.books.shape[1]
        rows = row_indices(self._codes, self._codebook)
        return torch.bincount(rows.flatten(), minlength=books * self._codebook.num_codes)


class BankMemory:
    """A bank's codes, gone through block by block: however large the bank, one block is unpacked at a time.

    The flat read takes its rows from the bank's running counts. Use it inside one of the bank's snapshots.
    """

    def __init__(self, bank: MemoryBank, codebook: Codebook) -> None:
        self._bank, self._codebook = bank, codebook
        self._chunks = bank.totals().chunks

    def __len__(self) -> int:
        return self._chunks

    def rows(self) -> tuple[Tensor, Tensor | None]:
        return counted_rows(self._codebook, self._row_counts())

    def shares(self, attention: Tensor) -> Tensor:
        weights = occurrence_weights(attention, self._row_counts())
        return torch.cat([shares_of(codes, weights, self._codebook) for codes in self._blocks()], dim=-1)

    def scores(self, router: Router, question: Tensor) -> Tensor:
        tables = router.tables(question, self._codebook)
        return torch.cat([table_scores(tables, codes) for codes in self._blocks()], dim=-1)

    def vectors(self, documents: Tensor) -> Tensor:
        codes = self._bank.codes_at(documents.flatten().cpu().numpy())
        return self._codebook.lookup(as_indices(codes, self._codebook).unflatten(0, documents.shape))

    def _blocks(self) -> Iterator[Tensor]:
        return (as_indices(codes, self._codebook) for codes in self._bank.codes())

    def _row_counts(self) -> Tensor:
        return torch.from_numpy(self._bank.counts()[0].reshape(-1)).to(self._codebook.books.device)


def as_indices(codes: np.ndarray, codebook: Codebook) -> Tensor:
    """Stored codes as what indexes a tensor beside the codebook."""
    return torch.from_numpy(codes.astype(np.int64)).to(codebook.books.device)


def row_indices(codes: Tensor, codebook: Codebook) -> Tensor:
    """Codes [N, T, 1] as rows of the flattened books, [N, T]."""
    rows = codes[..., 0]
    if codebook.per_position:
        rows = rows + torch.arange(codebook.tokens, device=codes.device) * codebook.num_codes
    return rows


def counted_rows(codebook: Codebook, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of the books that occur, and the log of how often, from the counts of all rows.

    Raises:
        MBCError: the codes are residual.
    """
    if codebook.levels > 1:
        raise MBCError("Residual codes cannot be read flat.", hint="Use the routed read.")
    used = counts > 0
    return codebook.books[0].flatten(0, 1)[used], counts[used].double().log().float()


def occurrence_weights(attention: Tensor, counts: Tensor) -> Tensor:
    """What one occurrence of each row gets of the attention over the rows that occur, [B, rows]."""
    weights = attention.new_zeros(len(attention), len(counts))
    weights[:, counts > 0] = attention
    return weights / counts.clamp_min(1)


def shares_of(codes: Tensor, weights: Tensor, codebook: Codebook) -> Tensor:
    """Shares of documents with codes [N, T, 1]: the sum of their occurrences' weights, [B, N]."""
    return weights[:, row_indices(codes, codebook)].sum(-1)


def table_scores(tables: Tensor, codes: Tensor) -> Tensor:
    """Routing scores by look-up: tables [B, T, levels, num_codes], codes [N, T, levels] -> [B, N]."""
    scores = tables.new_zeros(len(tables), len(codes))
    for token in range(tables.shape[1]):
        for level in range(tables.shape[2]):
            scores += tables[:, token, level][:, codes[:, token, level]]
    return scores
