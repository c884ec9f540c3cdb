"""Codes as bits: each takes ⌈log2 num_codes⌉ of them, most significant first.

Codes follow one another chunk by chunk, token by token, level by level; zero bits fill the last byte.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]
Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
# A number for each code, or sums of such: [questions, tokens, levels, num_codes] or [questions, chunks].
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class CodeShape:
    """What the codes of one chunk look like.

    Attributes:
        tokens: vectors a chunk becomes (T in the paper), 1 to 65,536.
        levels: codes a vector takes, 1 to 256; 1 in the paper, more for residual quantisation.
        num_codes: vectors in a codebook (N_c in the paper), 2 to 65,536.
        per_position: each token has codebooks of its own; False, as in the paper, when all share one.

    Raises:
        ValueError: a number is out of range.
    """

    tokens: int
    levels: int
    num_codes: int
    per_position: bool

    def __post_init__(self) -> None:
        if not (1 <= self.tokens <= 65_536 and 1 <= self.levels <= 256 and 2 <= self.num_codes <= 65_536):
            raise ValueError(f"{self} needs 1 to 65,536 tokens, 1 to 256 levels and num_codes from 2 to 65,536")

    @property
    def bits_per_code(self) -> int:
        """⌈log2 num_codes⌉."""
        return (self.num_codes - 1).bit_length()

    @property
    def bits_per_chunk(self) -> int:
        """What a chunk takes in a bank, before the last byte of its block is filled."""
        return self.tokens * self.levels * self.bits_per_code

    @property
    def positions(self) -> int:
        """Codebooks per level: `tokens` if each position has its own, else 1."""
        return self.tokens if self.per_position else 1


def check(codes: NDArray[np.integer[Any]], shape: CodeShape) -> Codes:
    """The codes as uint16. Raises ValueError if they are not integers [chunks, tokens, levels] in [0, num_codes)."""
    if codes.ndim != 3 or codes.shape[1:] != (shape.tokens, shape.levels):
        raise ValueError(f"codes must be [chunks, {shape.tokens}, {shape.levels}], not {list(codes.shape)}")
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"codes must be integers, not {codes.dtype}")
    if codes.size and (codes.min() < 0 or codes.max() >= shape.num_codes):
        raise ValueError(f"codes must be in [0, {shape.num_codes}), not in [{codes.min()}, {codes.max()}]")
    return codes.astype(np.uint16)


def pack(codes: NDArray[np.integer[Any]], shape: CodeShape) -> bytes:
    """Pack codes [chunks, tokens, levels] into ⌈chunks · bits_per_chunk / 8⌉ bytes.

    Raises ValueError if the codes do not have that shape.
    """
    halves = check(codes, shape).astype(">u2").reshape(-1, 1).view(np.uint8)
    return np.packbits(np.unpackbits(halves, axis=1)[:, 16 - shape.bits_per_code :]).tobytes()


def unpack(data: bytes, shape: CodeShape, chunks: int) -> Codes:
    """The inverse of `pack`: codes [chunks, tokens, levels].

    Raises ValueError if `data` is not what `pack` makes of that many chunks.
    """
    _require_size(data, shape, chunks)
    unused = -chunks * shape.bits_per_chunk % 8
    if data and data[-1] & ((1 << unused) - 1):
        raise ValueError("the bits that fill the last byte are not zero")
    codes = np.empty((chunks, shape.tokens * shape.levels), np.uint16)
    for rows, place, values in columns(data, shape, chunks):
        codes[rows, place] = values
    return check(codes.reshape(chunks, shape.tokens, shape.levels), shape)


def unpack_some(data: bytes, shape: CodeShape, chunks: int, wanted: Indices) -> Codes:
    """What `unpack` gives at some indices, [len(wanted), tokens, levels], in time for these alone.

    Raises ValueError if `data` does not hold so many chunks, or not such codes, IndexError if there is no such chunk.
    """
    _require_size(data, shape, chunks)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= chunks):
        raise IndexError(f"there are {chunks} chunks")
    starts = wanted * shape.bits_per_chunk
    # A chunk may begin with any bit of its first byte.
    places = starts[:, None] // 8 + np.arange(-(-(shape.bits_per_chunk + 7) // 8))
    bits = np.unpackbits(np.frombuffer(data, np.uint8).take(places, mode="clip"), axis=1)
    own = np.take_along_axis(bits, starts[:, None] % 8 + np.arange(shape.bits_per_chunk), axis=1)
    powers = 1 << np.arange(shape.bits_per_code)[::-1]
    codes = own.reshape(len(wanted), shape.tokens, shape.levels, shape.bits_per_code) @ powers
    return check(codes, shape)


def columns(
    data: bytes, shape: CodeShape, chunks: int, places: Sequence[int] | None = None
) -> Iterator[tuple[slice, int, NDArray[np.uint32]]]:
    """The codes of packed chunks column by column, each read in one go: the quickest way through many chunks.

    Args:
        data: the bits.
        shape: the shape of the codes.
        chunks: how many there are.
        places: which columns, in the order they are yielded; None for all.

    Yields:
        the chunks, every one, second, fourth or eighth; the column, token · levels + level; and its codes in them,
        which are not checked against `num_codes`.
    """
    bits = shape.bits_per_code
    # After so many chunks a chunk starts with a byte again; each has its codes at fixed places in that many bytes.
    period = 8 // math.gcd(shape.bits_per_chunk, 8)
    stride = period * shape.bits_per_chunk // 8
    padded = data + bytes(4)  # a code, at most 16 bits from a byte's last bit on, is read as four bytes
    for first in range(min(period, chunks)):
        for place in range(shape.tokens * shape.levels) if places is None else places:
            byte, bit = divmod(first * shape.bits_per_chunk + place * bits, 8)
            words = np.ndarray((-(-(chunks - first) // period),), ">u4", padded, byte, (stride,))
            codes = words.astype(np.uint32)
            codes >>= 32 - bits - bit
            codes &= (1 << bits) - 1
            yield slice(first, None, period), place, codes


def table_sums(shape: CodeShape, tables: Scores) -> Callable[[bytes, int], Scores]:
    """The scan of packed codes: every code is looked up in a table, and a chunk's values are summed.

    Args:
        shape: of the codes.
        tables: each question's value of each code, [questions, tokens, levels, num_codes].

    Returns:
        a function of a block's bits and its number of chunks, which gives the sums [questions, chunks] and raises
        ValueError where the bits are no such codes.
    """
    # Bits that are no code have the value NaN, and so has the sum they end up in.
    padded = np.full((len(tables), shape.tokens * shape.levels, 1 << shape.bits_per_code), np.nan, np.float32)
    padded[:, :, : shape.num_codes] = tables.reshape(len(tables), -1, shape.num_codes)
    # Columns of nothing but zeros need no look-up. NaN is not zero: where it may occur, bits are looked at.
    places: list[int] = np.flatnonzero(padded.any(axis=(0, 2))).tolist()

    def sums(data: bytes, chunks: int) -> Scores:
        _require_size(data, shape, chunks)
        found = np.zeros((len(padded), chunks), np.float32)
        for rows, place, codes in columns(data, shape, chunks, places):
            for own, table in zip(found, padded[:, place], strict=True):
                own[rows] += table.take(codes)
        if np.isnan(found).any():
            raise ValueError("some bits are no code")
        return found

    return sums


def count(codes: NDArray[np.integer[Any]], shape: CodeShape) -> Counts:
    """Count the codes [chunks, tokens, levels] of each codebook.

    Returns:
        [levels, positions, num_codes], where positions is `tokens` with a codebook per position and 1 with a shared one.
    """
    books = np.arange(shape.levels)[None, :] * shape.positions
    if shape.per_position:
        books = books + np.arange(shape.tokens)[:, None]
    flat = (books * shape.num_codes + codes).ravel()
    size = (shape.levels, shape.positions, shape.num_codes)
    return np.bincount(flat, minlength=int(np.prod(size))).reshape(size).astype(np.int64)


def perplexity(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Effective number of codes in use in each codebook, exp of the entropy of its usage (paper, section 4.4.4).

    Args:
        counts: how often each code is used, [..., num_codes], non-negative.

    Returns:
        [...], values in [1, num_codes]; 1 where nothing has been used.
    """
    used = counts.astype(np.float64)
    share = used / np.maximum(used.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    entropy: NDArray[np.float64] = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
    return np.exp(entropy)


def unused(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """How many codes of each codebook do not occur: [..., num_codes] -> [...]."""
    each: NDArray[np.int64] = (counts == 0).sum(-1)
    return each


def located(chunks: Sequence[int] | NDArray[np.integer[Any]], sizes: Indices) -> Iterator[tuple[int, Indices, Indices]]:
    """Find chunks that are numbered through several holders, such as blocks or banks.

    Args:
        chunks: their indices through all holders.
        sizes: how many chunks each holder has, in order.

    Yields:
        each holder that has some of them, the places of these in `chunks`, and their indices in the holder.

    Raises:
        IndexError: there is no such chunk.
    """
    wanted = np.asarray(chunks, np.int64)
    ends = np.cumsum(sizes)
    total = int(sizes.sum())
    if wanted.size and (wanted.min() < 0 or wanted.max() >= total):
        raise IndexError(f"chunk indices must be in [0, {total}), not in [{wanted.min()}, {wanted.max()}]")
    holders = np.searchsorted(ends, wanted, side="right")
    for holder in np.unique(holders).tolist():
        places = np.flatnonzero(holders == holder)
        yield holder, places, wanted[places] - (ends[holder] - sizes[holder])


def _require_size(data: bytes, shape: CodeShape, chunks: int) -> None:
    if chunks < 0 or len(data) != -(-chunks * shape.bits_per_chunk // 8):
        raise ValueError(f"{len(data)} bytes do not hold the codes of {chunks} chunks")
