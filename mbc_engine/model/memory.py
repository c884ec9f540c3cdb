"""What a question reads: the documents of a bank as codes, or as continuous vectors before there are codes."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

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
        self._codes = torch.from_numpy(codes.astype(np.int64)).to(codebook.books.device)
        self._codebook = codebook

    def __len__(self) -> int:
        return len(self._codes)

    def rows(self) -> tuple[Tensor, Tensor | None]:
        if self._codebook.levels > 1:
            raise MBCError("Residual codes cannot be read flat.", hint="Use the routed read.")
        counts = self._row_counts()
        used = counts > 0
        return self._codebook.books[0].flatten(0, 1)[used], counts[used].double().log().float()

    def shares(self, attention: Tensor) -> Tensor:
        counts = self._row_counts()
        weight = attention.new_zeros(len(attention), len(counts))
        weight[:, counts > 0] = attention
        return (weight / counts.clamp_min(1))[:, self._row_index()].sum(-1)

    def scores(self, router: Router, question: Tensor) -> Tensor:
        tables = router.tables(question, self._codebook)  # [B, T, levels, N_c]
        scores = question.new_zeros(len(question), len(self))
        for token in range(tables.shape[1]):
            for level in range(tables.shape[2]):
                scores += tables[:, token, level][:, self._codes[:, token, level]]
        return scores

    def vectors(self, documents: Tensor) -> Tensor:
        return self._codebook.lookup(self._codes[documents])

    def _row_index(self) -> Tensor:
        """Each code as a row of the flattened books, [N, T]."""
        codes = self._codes[..., 0]
        if self._codebook.per_position:
            codes = codes + torch.arange(self._codebook.tokens, device=codes.device) * self._codebook.num_codes
        return codes

    def _row_counts(self) -> Tensor:
        books = self._codebook.books.shape[1]
        return torch.bincount(self._row_index().flatten(), minlength=books * self._codebook.num_codes)
