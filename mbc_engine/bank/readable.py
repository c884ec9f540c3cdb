"""What is read of documents' codes, whether they lie in one bank or in several."""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.format import Codes
from mbc_engine.bank.packed import Worths
from mbc_engine.bank.records import BankSizes, BankTotals, ModelSignature, StoredChunk
from mbc_engine.bank.selection import Selection
from mbc_engine.documents import Chunk


class ReadableBank(Protocol):
    """A `MemoryBank`, or several as `Banks`; see these."""

    @property
    def name(self) -> str:
        """The path, or what stands for it in messages."""
        ...

    @property
    def is_weighted(self) -> bool:
        """Whether some documents count more than others even where nothing is selected."""
        ...

    @property
    def keeps_text(self) -> bool:
        """Whether the exact text of some chunks is kept beside their codes; of all of them, where it is one bank."""
        ...

    def require(self, signature: ModelSignature) -> None:
        """Make sure that this model wrote it."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Inside, every read sees the same state."""
        ...

    def totals(self) -> BankTotals:
        """How much it holds."""
        ...

    def sizes(self) -> BankSizes:
        """What it weighs, in bytes."""
        ...

    def counts(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """How often each code counts, [levels, positions, num_codes]."""
        ...

    def blocks(self) -> Iterator[tuple[Codes, NDArray[np.int64]]]:
        """All codes in stored order, some thousand chunks at a time, with documents' lengths."""
        ...

    def sums(self, worths: Worths) -> Iterator[tuple[Worths, NDArray[np.int64]]]:
        """What the codes of chunks are worth together, as `blocks`."""
        ...

    def log_weights(self, selection: Selection) -> Iterator[NDArray[np.float64]]:
        """Logarithms of how much each chunk counts in a selection, and by itself."""
        ...

    def codes_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> Codes:
        """The codes of some chunks, by their index in stored order."""
        ...

    def texts_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> Sequence[Chunk | None]:
        """The exact texts of some chunks, by their index in stored order; None where a chunk's bank keeps no text.

        Ask only where `keeps_text`.
        """
        ...

    def chunks_at(self, chunks: Sequence[int] | NDArray[np.integer[Any]]) -> list[StoredChunk]:
        """Where chunks came from, by their index in stored order."""
        ...

    def version(self) -> Hashable:
        """What is equal for as long as nobody has written to it."""
        ...

    def is_replaced(self) -> bool:
        """Whether it is not what stands at its path any more."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
