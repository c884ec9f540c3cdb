"""Blocks gone through without being unfolded: for every chunk the sum of what its codes are worth, out of the bits.

A question's score of a chunk, and a chunk's share of the attention, are such sums: a table says what each code is worth
at each place, and a chunk costs as many look-ups as it has codes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.format import Codes, CodeShape, columns, unpack

Worths = NDArray[np.float32]


class CodeTables:
    """What codes are worth to some questions.

    Args:
        shape: the shape of the codes.
        worths: [questions, tokens, levels, num_codes].

    Attributes:
        tables: what any bits at any place are worth, [questions, tokens · levels, 2 ** bits_per_code].
        places: those of the tables that are not all zero, which alone have to be looked up.
    """

    def __init__(self, shape: CodeShape, worths: Worths) -> None:
        questions = len(worths)
        # Bits that are no code are worth NaN, and so is the sum they end up in.
        self.tables = np.full((questions, shape.tokens * shape.levels, 1 << shape.bits_per_code), np.nan, np.float32)
        self.tables[:, :, : shape.num_codes] = worths.reshape(questions, -1, shape.num_codes)
        # NaN is not zero: where there are bits that are no code, they are looked for.
        self.places: list[int] = np.flatnonzero(self.tables.any(axis=(0, 2))).tolist()


@dataclass(frozen=True)
class PackedBlock:
    """The codes of some thousand chunks, whole documents side by side.

    Attributes:
        shape: the shape of the codes.
        data: their bits.
        lengths: chunks of each document.

    Raises:
        ValueError: a document has no chunks.
    """

    shape: CodeShape
    data: bytes
    lengths: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not (self.lengths > 0).all():
            raise ValueError("a document has no chunks")

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return int(self.lengths.sum())

    def codes(self) -> Codes:
        """The codes, [chunks, tokens, levels].

        Raises:
            ValueError: the bits are no such codes.
        """
        return unpack(self.data, self.shape, self.chunks)

    def sums(self, tables: CodeTables) -> Worths:
        """What each chunk's codes are worth together, [questions, chunks].

        Raises:
            ValueError: the bits are no such codes.
        """
        chunks = self.chunks
        if len(self.data) != -(-chunks * self.shape.bits_per_chunk // 8):
            raise ValueError(f"{len(self.data)} bytes do not hold the codes of {chunks} chunks")
        sums = np.zeros((len(tables.tables), chunks), np.float32)
        for rows, place, codes in columns(self.data, self.shape, chunks, tables.places):
            for own, table in zip(sums, tables.tables[:, place], strict=True):
                own[rows] += table.take(codes)
        if np.isnan(sums).any():
            raise ValueError("some bits are no code")
        return sums
