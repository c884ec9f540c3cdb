"""A memory of continuous vectors: what there is before the codebook, and between the levels of a hierarchical read."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.model.memory import Chosen, Group, Lengths, Masses, Rows, Weights, log_of
from mbc_engine.model.parts import parts_of
from mbc_engine.model.router import Router


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
