"""Codes as bits: each takes ⌈log2 num_codes⌉ of them, most significant first.

Codes follow one another chunk by chunk, token by token, level by level; zero bits fill the last byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]


@dataclass(frozen=True)
class CodeShape:
    """What the codes of one chunk look like.

    Attributes:
        tokens: vectors a chunk becomes (T in the paper).
        levels: codes a vector takes; 1 in the paper, more for residual quantisation.
        num_codes: vectors in a book (N_c in the paper), 2 to 65,536.
        per_position: each token has books of its own; False, as in the paper, when all share one.

    Raises:
        ValueError: a number is out of range.
    """

    tokens: int
    levels: int
    num_codes: int
    per_position: bool

    def __post_init__(self) -> None:
        if self.tokens < 1 or self.levels < 1 or not 2 <= self.num_codes <= 65_536:
            raise ValueError(f"{self} needs tokens and levels of at least 1 and num_codes from 2 to 65,536")

    @property
    def bits_per_code(self) -> int:
        """⌈log2 num_codes⌉."""
        return (self.num_codes - 1).bit_length()

    @property
    def bits_per_chunk(self) -> int:
        """What a chunk takes in a bank, before the last byte of its document is filled."""
        return self.tokens * self.levels * self.bits_per_code

    @property
    def positions(self) -> int:
        """Books per level: `tokens` if each position has its own, else 1."""
        return self.tokens if self.per_position else 1


def check(codes: NDArray[np.integer[Any]], shape: CodeShape) -> Codes:
    """The codes as uint16.

    Raises:
        ValueError: they are not integers [chunks, tokens, levels] in [0, num_codes).
    """
    if codes.ndim != 3 or codes.shape[1:] != (shape.tokens, shape.levels):
        raise ValueError(f"codes must be [chunks, {shape.tokens}, {shape.levels}], not {list(codes.shape)}")
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"codes must be integers, not {codes.dtype}")
    if codes.size and (codes.min() < 0 or codes.max() >= shape.num_codes):
        raise ValueError(f"codes must be in [0, {shape.num_codes}), not in [{codes.min()}, {codes.max()}]")
    return codes.astype(np.uint16)


def pack(codes: NDArray[np.integer[Any]], shape: CodeShape) -> bytes:
    """Pack codes [chunks, tokens, levels] into ⌈chunks · bits_per_chunk / 8⌉ bytes.

    Raises:
        ValueError: the codes do not have that shape.
    """
    words = check(codes, shape).astype(">u2").reshape(-1, 1).view(np.uint8)
    return np.packbits(np.unpackbits(words, axis=1)[:, 16 - shape.bits_per_code :]).tobytes()


def unpack(data: bytes, shape: CodeShape, chunks: int | Sequence[int]) -> Codes:
    """The inverse of `pack`.

    Args:
        data: the result of one call of `pack`, or of several put one after another.
        shape: the shape they were packed with.
        chunks: how many chunks each call packed.

    Returns:
        The codes of all of them, [sum of chunks, tokens, levels].

    Raises:
        ValueError: `data` is not what `pack` makes of that many chunks.
    """
    number = np.atleast_1d(np.asarray(chunks, dtype=np.int64))
    used = number * shape.bits_per_chunk
    filled = -used % 8
    is_possible = ((number >= 0) & (number <= 8 * len(data))).all()
    if not is_possible or int((used + filled).sum()) != 8 * len(data):
        raise ValueError(f"{len(data)} bytes do not hold the codes of {chunks} chunks")
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
    if filled.any():
        is_code = np.repeat(np.tile([True, False], len(used)), np.stack([used, filled], axis=1).ravel())
        if bits[~is_code].any():
            raise ValueError("the bits that fill the last byte are not zero")
        bits = bits[is_code]
    words = np.zeros((bits.size // shape.bits_per_code, 16), dtype=np.uint8)
    words[:, 16 - shape.bits_per_code :] = bits.reshape(-1, shape.bits_per_code)
    codes = np.packbits(words, axis=1).view(">u2").reshape(-1, shape.tokens, shape.levels)
    return check(codes, shape)
