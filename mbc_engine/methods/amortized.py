"""MAC: every document as T continuous vectors, read by the aggregator (paper, section 3.1; Tack et al., 2024)."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from mbc_engine.methods.method import Footprint, PaperCount
from mbc_engine.methods.remembering import Remembering
from mbc_engine.model.memory import Lengths, Memory
from mbc_engine.model.vector_memory import VectorMemory

_FLOAT_BYTES: Final = 4


class Amortized(Remembering):
    """MAC with the vectors of the stream's documents, in single precision."""

    def footprint(self) -> Footprint:
        """The numbers of a safetensors file of the vectors; its header, some hundred bytes, is left out."""
        vectors = self._vectors()
        row = vectors.shape[1] * vectors.shape[2] * _FLOAT_BYTES
        return Footprint(len(vectors) * row, PaperCount(0, row))

    def _forget(self) -> None:
        self._parts: list[Tensor] = []

    def _remember(self, chunks: Sequence[str]) -> None:
        self._parts.append(self._model.amortise(chunks))

    def _memory(self, lengths: Lengths) -> Memory:
        return VectorMemory(self._vectors(), lengths)

    def _vectors(self) -> Tensor:
        """The vectors of all chunks, [N, T, D]; parts become one, so that they are held but once."""
        if len(self._parts) != 1:
            none = torch.zeros(0, self._model.settings.tokens, self._model.base.shape.dim)
            self._parts = [torch.cat(self._parts) if self._parts else none]
        return self._parts[0]
