"""Codes as bits: each takes ⌈log2 num_codes⌉ of them, most significant first.

Codes follow one another chunk by chunk, token by token, level by level; zero bits fill the last byte.

Blocks gone through without being unfolded: for every chunk the sum of what its codes are worth, out of the bits.

Chunks numbered through several blocks, or several banks, as if they were one.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]


@dataclass(frozen=True)
class CodeShape:
    """What the codes of one chunk look like.

    Attributes:
        tokens: vectors a chunk becomes (T in the paper), 1 to 65,536.
        levels: codes a vector takes, 1 to 256; 1 in the paper, more for residual quantisation.
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
    flat = check(codes, shape).reshape(-1)
    group = _Group(shape.bits_per_code)
    rows = -(-flat.size // group.codes)
    values = np.zeros((rows, group.codes), np.uint32)
    values.reshape(-1)[: flat.size] = flat
    packed = np.zeros((rows, group.bytes), np.uint8)
    for code, byte, shift in group.places():
        packed[:, byte] |= _shifted(values[:, code], shift).astype(np.uint8)
    return packed.tobytes()[: _num_bytes(len(codes), shape)]


def unpack(data: bytes, shape: CodeShape, chunks: int) -> Codes:
    """The inverse of `pack`: codes [chunks, tokens, levels].

    Raises:
        ValueError: `data` is not what `pack` makes of that many chunks.
    """
    if chunks < 0 or len(data) != _num_bytes(chunks, shape):
        raise ValueError(f"{len(data)} bytes do not hold the codes of {chunks} chunks")
    unused = -chunks * shape.bits_per_chunk % 8
    if data and data[-1] & ((1 << unused) - 1):
        raise ValueError("the bits that fill the last byte are not zero")
    codes = np.empty((chunks, shape.tokens * shape.levels), np.uint16)
    for rows, place, values in columns(data, shape, chunks):
        codes[rows, place] = values
    return check(codes.reshape(chunks, shape.tokens, shape.levels), shape)


def unpack_some(data: bytes, shape: CodeShape, chunks: int, wanted: NDArray[np.int64]) -> Codes:
    """What `unpack` gives at some indices, [len(wanted), tokens, levels], in time for these alone.

    Raises:
        ValueError: `data` does not hold so many chunks, or not such codes.
        IndexError: there is no such chunk.
    """
    if len(data) != _num_bytes(chunks, shape):
        raise ValueError(f"{len(data)} bytes do not hold the codes of {chunks} chunks")
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
        places: where to look, as they are yielded; None for everywhere.

    Yields:
        the chunks, every one, second, fourth or eighth; the place, token · levels + level, that the codes have in
        them; and the codes, which are not checked against `num_codes`.
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


def _num_bytes(chunks: int, shape: CodeShape) -> int:
    return -(-chunks * shape.bits_per_chunk // 8)


@dataclass(frozen=True)
class _Group:
    """The fewest codes that fill whole bytes: every group of a long row has its codes at the same places."""

    bits: int

    @property
    def codes(self) -> int:
        return 8 // math.gcd(self.bits, 8)

    @property
    def bytes(self) -> int:
        return self.bits // math.gcd(self.bits, 8)

    def places(self) -> Iterator[tuple[int, int, int]]:
        """Each code with each byte that holds bits of it, and how far left (negative: right) it moves to get there."""
        for code in range(self.codes):
            end = (code + 1) * self.bits
            for byte in range((end - self.bits) // 8, -(-end // 8)):
                yield code, byte, 8 * (byte + 1) - end


def _shifted(values: NDArray[np.uint32], left: int) -> NDArray[np.uint32]:
    return np.left_shift(values, left) if left >= 0 else np.right_shift(values, -left)


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


Indices = NDArray[np.int64]


def located(chunks: Sequence[int] | NDArray[np.integer[Any]], sizes: Indices) -> Iterator[tuple[int, Indices, Indices]]:
    """Find the holders of some chunks.

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
