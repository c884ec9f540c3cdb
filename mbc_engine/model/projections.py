"""Keys and values of the codebook for each block of the aggregator, computed once for as long as both stay the same."""

import torch

from mbc_engine.model.aggregator import Aggregator, KeyValue
from mbc_engine.model.codebook import Codebook


class Projections:
    """The first level of a codebook as the aggregator's blocks see it."""

    def __init__(self, aggregator: Aggregator, codebook: Codebook) -> None:
        self._aggregator, self._codebook = aggregator, codebook
        self._state: list[tuple[int, int]] = []
        self._kept: list[KeyValue] = []

    def __call__(self) -> list[KeyValue]:
        """Keys and values of all rows, [1, positions · num_codes, heads, head_dim] a block."""
        rows = self._codebook.books[:1].flatten(1, 2)
        if torch.is_grad_enabled():  # what training sees has to belong to its own graph
            return self._aggregator.project(rows)
        # Anything that writes to a tensor counts up its version; moving it to a device gives it new memory.
        tensors = [self._codebook.books, *self._aggregator.parameters()]
        state = [(tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]
        if state != self._state:
            self._kept, self._state = self._aggregator.project(rows), state
        return self._kept
