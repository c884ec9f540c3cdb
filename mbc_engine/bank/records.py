"""A bank's header, its document records, and codes: packed into bits, counted, and what they depend on.

A code takes ⌈log2 num_codes⌉ bits, most significant first. Codes are in chunk, token, level order; zero bits pad the
last byte.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from mbc_engine.text import Chunk, Document
from mbc_engine.text.context import clipped, context_words

_T = TypeVar("_T")

# Of all codebooks together: the counts of a bank have a number for each.
_MOST_VECTORS: Final = 1 << 22
# Codes packed at once; a multiple of 8, so that they end on a whole byte.
_PACKED_AT_ONCE: Final = 1 << 20
# Chunks of a document that are each found by its path; a piece of a file has fewer.
_MOST_NAMED: Final = 1 << 14

Codes = NDArray[np.uint16]
RawCodes = NDArray[np.integer[Any]]
Counts = NDArray[np.int64]
Indices = NDArray[np.int64]
Numbers = Sequence[int] | NDArray[np.integer[Any]]
BlockTotals = tuple[int, ...]  # how many blocks a bank has, and how many documents, origins and chunks they hold
CodeMap = NDArray[np.float32]  # shares of codes, [levels, positions, num_codes]
# A value per code, [questions, tokens, levels, num_codes], or sums of them, [questions, chunks].
Scores = NDArray[np.float32]


class EncodedText(NamedTuple):
    """A chunk's text as encoded by `text_codec.py`, and where it starts.

    `check` is the low three bytes of its CRC-32, `lm` the fingerprint of the language model it is coded with, or "".
    """

    start: int
    codec: int
    check: int
    payload: bytes
    lm: str = ""


Texts = Sequence[EncodedText] | Sequence[Chunk]


class TextState(NamedTuple):
    """Totals for a bank's texts: bytes; the language model's fingerprint, the texts coded with it and their bytes; the
    number below which every text has been tried with it.
    """

    bytes: int = 0
    lm: str = ""
    lm_texts: int = 0
    lm_bytes: int = 0
    lm_tried_before: int = 0


@dataclass(frozen=True)
class CodeShape:
    """The shape of one chunk's codes.

    Attributes:
        tokens: vectors per chunk (T in the paper), 1 to 65,536.
        levels: codes per vector, 1 to 256; 1 in the paper, more for residual quantisation.
        num_codes: vectors in a codebook (N_c in the paper), 2 to 65,536.
        per_position: whether each token position has its own codebooks; False, as in the paper, if all share one.
    """

    tokens: int
    levels: int
    num_codes: int
    per_position: bool

    def __post_init__(self) -> None:
        if not (1 <= self.tokens <= 65_536 and 1 <= self.levels <= 256 and 2 <= self.num_codes <= 65_536):
            raise ValueError(f"{self} needs 1 to 65,536 tokens, 1 to 256 levels and num_codes from 2 to 65,536")
        if self.levels * self.positions * self.num_codes > _MOST_VECTORS:
            raise ValueError(f"{self} has more than {_MOST_VECTORS:,} vectors in all codebooks")

    @property
    def bits_per_code(self) -> int:
        return (self.num_codes - 1).bit_length()

    @property
    def bits_per_chunk(self) -> int:
        return self.tokens * self.levels * self.bits_per_code

    def bytes_of(self, chunks: int) -> int:
        """How many bytes the codes of some chunks take."""
        return -(-chunks * self.bits_per_chunk // 8)

    @property
    def positions(self) -> int:
        """Codebooks per level: `tokens` if each position has its own, else 1."""
        return self.tokens if self.per_position else 1


@dataclass(frozen=True)
class ModelSignature:
    """The model that wrote a bank: hexadecimal fingerprints of amortizer and codebook. The name is for display only."""

    name: str = field(compare=False)
    amortizer: str
    codebook: str

    @property
    def fingerprint(self) -> str:
        """Both fingerprints, shortened for messages."""
        return f"{self.amortizer[:8]}-{self.codebook[:8]}"


def digest_arrays(arrays: Iterable[tuple[str, NDArray[np.float32]]], *details: str) -> str:
    """SHA-256 of named arrays and of further details, hexadecimal."""
    hashed = hashlib.sha256(" ".join(details).encode())
    for name, array in arrays:
        hashed.update(name.encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()


def fingerprint(codebook: NDArray[np.floating[Any]]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of `books` and a codebook's values as float32."""
    return digest_arrays([("", np.asarray(codebook, "<f4"))], "books")[:16]


@dataclass(frozen=True)
class BankHeader:
    """A bank's model, codes and settings.

    Attributes:
        dim: the width of a codebook vector (D in the paper).
        keeps_origins: whether the bank records where documents were read; if not, it has only a short hash of each.
        keeps_text: whether the exact text of every chunk is stored with its codes.
        context_tokens: the most tokens of a chunk's context; 0 if chunks are encoded without it.
        created: ISO 8601, UTC.
    """

    signature: ModelSignature
    shape: CodeShape
    dim: int
    keeps_origins: bool = True
    keeps_text: bool = False
    context_tokens: int = 0
    created: str = ""

    @property
    def digest_bytes(self) -> int:
        """Bytes stored of each content hash. With 6, one in 560 banks of a million documents has a collision."""
        return 16 if self.keeps_origins else 6

    def shortened(self, digests: Iterable[str]) -> list[bytes]:
        """Hexadecimal content hashes, truncated to the bytes the bank stores. Raises ValueError if one is shorter."""
        width = self.digest_bytes
        shortened = [bytes.fromhex(digest)[:width] for digest in digests]
        if any(len(digest) < width for digest in shortened):
            raise ValueError(f"a digest has at least {width} bytes")
        return shortened

    def float_bytes(self, chunks: int) -> int:
        """Bytes of this many chunks as the float32 vectors [T, D] that their codes stand for."""
        return 4 * self.shape.tokens * self.dim * chunks

    @property
    def codebook_bytes(self) -> int:
        """Bytes of the codebook as float32. It is part of the model, not of the bank."""
        shape = self.shape
        return 4 * shape.levels * shape.positions * shape.num_codes * self.dim

    @property
    def block_chunks(self) -> int:
        """Chunks in a full block: large blocks waste less of a database page, small ones are faster to change."""
        return 8192 if self.keeps_origins else 32_768


class Origin(NamedTuple):
    """Where a document was read: the source, the part of it ("" for all of it), and the document's date there."""

    source: str
    part: str
    date: str | None

    @property
    def name(self) -> str:
        return origin_name(self.source, self.part)


def origin_name(source: str, part: str) -> str:
    """`source`, or `source#part` for a part, as shown to users."""
    return f"{source}#{part}" if part else source


class Outline(NamedTuple):
    """A document's title, and the headings of each of its chunks; none at all if no chunk has any."""

    title: str = ""
    headings: tuple[str, ...] = ()

    @classmethod
    def of(cls, title: str, chunks: Iterable[Chunk]) -> Self:
        headings = tuple(clipped(chunk.headings) for chunk in chunks)
        return cls(clipped(title), headings if any(headings) else ())

    def of_chunk(self, ordinal: int) -> str:
        return self.headings[ordinal] if self.headings else ""


@dataclass(frozen=True)
class StoredDocument:
    """A document as stored in a bank, or to be stored.

    Attributes:
        digest: the content hash, hexadecimal; if stored, truncated to what the bank keeps.
        size: bytes it was read from; None in a bank without origins.
        origins: everywhere it was read, in sorted order; empty in a bank without origins.
        codes: [chunks, tokens, levels], if requested or to be stored.
        texts: one per chunk, likewise: encoded, as `decode_chunk` takes them, or plain.
        words: of a stored document's chunks, if the codes were requested, as `bank.word_index.Words`.
        outline: empty in a bank without contexts.
    """

    digest: str
    chunks: int
    size: int | None
    origins: tuple[Origin, ...]
    codes: RawCodes | None = field(default=None, compare=False, repr=False)
    texts: Texts | None = field(default=None, compare=False, repr=False)
    words: Indices | None = field(default=None, compare=False, repr=False)
    outline: Outline = field(default=Outline(), compare=False, repr=False)

    @classmethod
    def of(cls, document: Document, codes: RawCodes | None = None, texts: Texts | None = None) -> Self:
        origin = Origin(document.source, document.part, document.date)
        outline = Outline.of(document.title, (text for text in texts or () if isinstance(text, Chunk)))
        chunks = 0 if codes is None else len(codes)
        return cls(document.digest, chunks, document.size, (origin,), codes, texts, outline=outline)

    @property
    def origin(self) -> Origin:
        """The first origin; an empty one if there are none."""
        return self.origins[0] if self.origins else Origin("", "", None)

    @property
    def name(self) -> str:
        """Its first origin as `PATH` or `PATH#PART`, or its digest if it has none."""
        return self.origin.name or self.digest

    def contexts(self, header: "BankHeader") -> list[tuple[str, ...]]:
        """What each chunk is found by in a bank beside its text."""
        if not header.context_tokens:
            return [()] * self.chunks
        is_named = header.keeps_origins and self.chunks <= _MOST_NAMED
        about = context_words(self.origin.source if is_named else "", self.outline.title)
        return [(about, self.outline.of_chunk(ordinal)) for ordinal in range(self.chunks)]


class StoredChunk(NamedTuple):
    """The `ordinal`-th chunk (from 0) of a document, the name of its bank, and how many tokens this left for contexts."""

    document: StoredDocument
    ordinal: int
    bank: str
    context_tokens: int


@dataclass(frozen=True)
class BankTotals:
    """How much a bank holds. Documents are distinct contents; one read in two places has two origins."""

    documents: int
    origins: int
    chunks: int


@dataclass(frozen=True)
class BankSizes:
    """Bytes of packed codes; words; compressed texts; the codebook, which is in the model; the file with its log."""

    codes: int
    words: int
    texts: int
    codebook: int
    file: int


def check(codes: RawCodes, shape: CodeShape) -> Codes:
    """The codes as uint16. Raises ValueError if they are not integers [chunks, tokens, levels] in [0, num_codes)."""
    if codes.ndim != 3 or codes.shape[1:] != (shape.tokens, shape.levels):
        raise ValueError(f"codes must be [chunks, {shape.tokens}, {shape.levels}], not {list(codes.shape)}")
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"codes must be integers, not {codes.dtype}")
    if codes.size and (codes.min() < 0 or codes.max() >= shape.num_codes):
        raise ValueError(f"codes must be in [0, {shape.num_codes}), not in [{codes.min()}, {codes.max()}]")
    return codes.astype(np.uint16)


def pack(codes: RawCodes, shape: CodeShape) -> bytes:
    """Pack codes [chunks, tokens, levels], validated by `check`, into ⌈chunks · bits_per_chunk / 8⌉ bytes."""
    halves = check(codes, shape).astype(">u2").reshape(-1, 1).view(np.uint8)
    several = (halves[start : start + _PACKED_AT_ONCE] for start in range(0, len(halves), _PACKED_AT_ONCE))
    return b"".join(
        np.packbits(np.unpackbits(some, axis=1)[:, 16 - shape.bits_per_code :]).tobytes() for some in several
    )


def unpack(data: bytes, shape: CodeShape, chunks: int) -> Codes:
    """The inverse of `pack`. Raises ValueError if `data` is not the packed codes of that many chunks."""
    require_size(len(data), shape, chunks)
    unused = -chunks * shape.bits_per_chunk % 8
    if data and data[-1] & ((1 << unused) - 1):
        raise ValueError("the bits that fill the last byte are not zero")
    codes = np.empty((chunks, shape.tokens * shape.levels), np.uint16)
    for rows, column, values in columns(data, shape, chunks):
        codes[rows, column] = values
    return check(codes.reshape(chunks, shape.tokens, shape.levels), shape)


def columns(
    data: bytes, shape: CodeShape, chunks: int, wanted: Sequence[int] | None = None
) -> Iterator[tuple[slice, int, NDArray[np.unsignedinteger[Any]]]]:
    """Read packed codes column by column, each in one vectorised read: the fastest way through many chunks.

    Yields a slice that selects every chunk, or every second, fourth or eighth; the column, token · levels + level, from
    `wanted` or all; and its codes in these chunks, not checked against `num_codes`.
    """
    bits, in_chunk = shape.bits_per_code, shape.bits_per_chunk
    # Every `period` chunks, one starts on a byte boundary again: bit offsets repeat every `stride` bytes.
    period = 8 // math.gcd(in_chunk, 8)
    stride = period * in_chunk // 8
    width = 2 if bits <= 9 else 4  # bytes that hold a code at any bit offset
    padded, stored, native = data + bytes(width), np.dtype(f">u{width}"), np.dtype(f"=u{width}")
    for first in range(min(period, chunks)):
        for column in range(shape.tokens * shape.levels) if wanted is None else wanted:
            byte, bit = divmod(first * in_chunk + column * bits, 8)
            words = np.ndarray((-(-(chunks - first) // period),), stored, padded, byte, (stride,))
            codes = words.astype(native)
            codes >>= 8 * width - bits - bit
            codes &= (1 << bits) - 1
            yield slice(first, None, period), column, codes


def table_sums(shape: CodeShape, tables: Scores) -> Callable[[bytes, int], Scores]:
    """The scan of packed codes: look up every code in a table and sum the values of each chunk.

    Given tables [questions, tokens, levels, num_codes], returns a function from a block's bits and number of chunks to
    the sums [questions, chunks]. It raises ValueError if the bits are not valid codes.
    """
    # Bits that are not a code map to NaN, which propagates to the sum.
    padded = np.full((len(tables), shape.tokens * shape.levels, 1 << shape.bits_per_code), np.nan, np.float32)
    padded[:, :, : shape.num_codes] = tables.reshape(len(tables), -1, shape.num_codes)
    # All-zero columns need no look-up. NaN counts as non-zero, so invalid bits are never overlooked.
    used_columns: list[int] = np.flatnonzero(padded.any(axis=(0, 2))).tolist()

    def sums(data: bytes, chunks: int) -> Scores:
        require_size(len(data), shape, chunks)
        totals = np.zeros((len(padded), chunks), np.float32)
        for rows, column, codes in columns(data, shape, chunks, used_columns):
            indices = codes.astype(np.intp)  # once for all questions
            for of_question, table in zip(totals, padded[:, column], strict=True):
                of_question[rows] += table.take(indices, mode="wrap")  # nothing wraps: it covers all bit patterns
        if np.isnan(totals).any():
            raise ValueError("some bits are not a valid code")
        return totals

    return sums


def count(codes: RawCodes, shape: CodeShape, weights: NDArray[np.floating[Any]] | None = None) -> NDArray[Any]:
    """How often each code occurs: [chunks, tokens, levels] -> [levels, positions, num_codes], int64.

    With weights, which broadcast to the codes, their sums in float64.
    """
    books = np.arange(shape.levels)[None, :] * shape.positions
    if shape.per_position:
        books = books + np.arange(shape.tokens)[:, None]
    flat = (books * shape.num_codes + codes).ravel()
    size = (shape.levels, shape.positions, shape.num_codes)
    flat_weights = None if weights is None else np.broadcast_to(weights, codes.shape).ravel()
    return np.bincount(flat, flat_weights, int(np.prod(size))).reshape(size)


def spread(shares: NDArray[np.floating], codes: Codes, shape: CodeShape) -> CodeMap:
    """Shares of vectors [B, k, T] as shares of their codes [B, k, T, levels]: [B, levels, positions, num_codes].

    They sum to 1 over each level. No question's shares may all be zero.
    """
    whole = (shares / shares.sum((1, 2), keepdims=True))[..., None]
    return np.stack([count(row, shape, share) for row, share in zip(codes, whole, strict=True)]).astype(np.float32)


def perplexity(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Effective number of codes in use in each codebook, exp of the entropy of its usage (paper, section 4.4.4).

    From counts [..., num_codes] to [...], in [1, num_codes]; 1 where no code is used.
    """
    used = counts.astype(np.float64)
    share = used / np.maximum(used.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    return np.asarray(np.exp(-(share * np.log(np.where(share > 0, share, 1))).sum(-1)))


def distinct(values: Indices) -> Indices:
    """The distinct values, ascending. Unlike the first `np.unique` of a process, it does not import numpy.ma, for 20 ms."""
    ordered: Indices = np.sort(values)
    is_new: NDArray[np.bool_] = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    return ordered[is_new]


def read_across(chunks: Numbers, sizes: Indices, read: Callable[[int, Indices], Iterable[_T]]) -> list[_T]:
    """Read chunks that are numbered across several containers of these sizes, such as blocks or banks.

    `read` gets the index of a container and chunk indices within it. Raises IndexError if a chunk does not exist.
    """
    wanted = np.asarray(chunks, np.int64)
    ends, total = np.cumsum(sizes), int(sizes.sum())
    if wanted.size and (wanted.min() < 0 or wanted.max() >= total):
        raise IndexError(f"chunk indices must be in [0, {total}), not in [{wanted.min()}, {wanted.max()}]")
    order = np.argsort(wanted, kind="stable")  # neighbours are read together
    holders = np.searchsorted(ends, wanted[order], side="right")
    values: dict[int, _T] = {}
    for holder in dict.fromkeys(holders.tolist()):
        positions = order[holders == holder]
        values |= zip(positions.tolist(), read(holder, wanted[positions] - (ends[holder] - sizes[holder])), strict=True)
    return [values[position] for position in range(len(values))]


def require_size(size: int, shape: CodeShape, chunks: int) -> None:
    """Raises ValueError unless packed codes of this many chunks have `size` bytes."""
    if chunks < 0 or size != shape.bytes_of(chunks):
        raise ValueError(f"{size} bytes do not hold the codes of {chunks} chunks")
