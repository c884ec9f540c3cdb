"""The codebook as a bank keeps it: the vectors its codes stand for, so that the file makes sense without its model."""

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.format import CodeShape

Books = NDArray[np.float32]
_TYPES: Final = {2: "<f2", 4: "<f4"}


def fingerprint(books: NDArray[np.floating[Any]]) -> str:
    """16 hexadecimal digits of the SHA-256 of `books` and their values as float32."""
    digest = hashlib.sha256(b"books")
    digest.update(np.ascontiguousarray(books, "<f4").data)
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class StoredCodebook:
    """The books as bytes.

    Attributes:
        data: little-endian IEEE numbers [levels, positions, num_codes, dim].
        width: bytes of a number, 2 or 4.
    """

    data: bytes
    width: int

    @classmethod
    def of(cls, books: NDArray[np.floating[Any]], *, half: bool = False) -> "StoredCodebook":
        """Half precision where that loses nothing, or where `half` asks for it; else float32."""
        single = np.ascontiguousarray(books, "<f4")
        with np.errstate(over="ignore"):
            short = single.astype("<f2")
        if half or np.array_equal(short.astype("<f4"), single):
            return cls(short.tobytes(), 2)
        return cls(single.tobytes(), 4)

    def books(self, shape: CodeShape, dim: int) -> Books:
        """The books as float32.

        Raises:
            ValueError: the bytes are not of that shape.
        """
        if self.width not in _TYPES:
            raise ValueError(f"a number takes 2 or 4 bytes, not {self.width}")
        values = np.frombuffer(self.data, _TYPES[self.width]).astype(np.float32)
        return values.reshape(shape.levels, shape.positions, shape.num_codes, dim)
