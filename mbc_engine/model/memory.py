"""What a question reads: the documents of a bank as codes, or as continuous vectors before there are codes.

A memory consists of chunks, T vectors each, of which one or more make a document. They may carry weights: what is read
is then what a memory would give that held each of them so many times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mbc_engine.bank import Codes
from mbc_engine.model.router import Router

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
