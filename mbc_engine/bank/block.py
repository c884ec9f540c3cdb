"""Where the documents of a block were read, column by column.

Columns are how the file has them; and objects by the million keep the garbage collector busy, texts in lists do not.

A block: some thousand chunks of whole documents with all that is known of them, and its form as columns of bytes.

How often each code stands in a bank: all that the flat read of a question needs.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.codes import Codes, CodeShape, pack, unpack
from mbc_engine.bank.records import BankHeader, Origin, StoredDocument
from mbc_engine.errors import BankError


@dataclass
class Origins:
    """The origins of one document after another.

    Attributes:
        numbers: how many each document has.
        sources, parts, dates: what each origin has, in the order of the documents.
    """

    numbers: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    dates: list[str | None] = field(default_factory=list)

    @classmethod
    def of(cls, documents: Iterable[Sequence[Origin]]) -> Self:
        """The origins of each document, in sorted order."""
        origins = cls()
        for several in documents:
            origins.numbers.append(len(several))
            for origin in sorted(several, key=lambda origin: origin[:2]):
                origins.sources.append(origin.source)
                origins.parts.append(origin.part)
                origins.dates.append(origin.date)
        return origins

    def __len__(self) -> int:
        """How many documents these are the origins of."""
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[Origin, ...]]:
        """The origins of each document."""
        flat = iter(map(Origin, self.sources, self.parts, self.dates))
        for number in self.numbers:
            yield tuple(next(flat) for _ in range(number))

    def __getitem__(self, row: int) -> tuple[Origin, ...]:
        """The origins of one document."""
        return self.of_rows([row])[row]

    def rows(self) -> list[int]:
        """The document each origin belongs to."""
        rows: list[int] = np.repeat(np.arange(len(self.numbers)), self.numbers).tolist()
        return rows

    def extend(self, other: "Origins") -> None:
        """Put the origins of further documents behind these."""
        self.numbers += other.numbers
        self.sources += other.sources
        self.parts += other.parts
        self.dates += other.dates

    def between(self, start: int, end: int) -> "Origins":
        """The origins of the documents from `start` to before `end`."""
        return self._part(start, min(end, len(self)), [0, *accumulate(self.numbers)])

    def kept(self, keep: NDArray[np.bool_]) -> "Origins":
        """The origins of the documents for which `keep` is true."""
        each = np.repeat(keep, self.numbers)
        return Origins(
            list(compress(self.numbers, keep)),
            list(compress(self.sources, each)),
            list(compress(self.parts, each)),
            list(compress(self.dates, each)),
        )

    def of_rows(self, rows: Iterable[int]) -> dict[int, tuple[Origin, ...]]:
        """The origins of some documents."""
        ends = [0, *accumulate(self.numbers)]
        spans = {row: slice(ends[row], ends[row + 1]) for row in rows}
        return {
            row: tuple(map(Origin, self.sources[span], self.parts[span], self.dates[span]))
            for row, span in spans.items()
        }

    def changed(self, rows: Mapping[int, Sequence[Origin]]) -> "Origins":
        """With other origins for some documents."""
        ends = [0, *accumulate(self.numbers)]
        result, start = Origins(), 0
        for row in sorted(rows):
            result.extend(self._part(start, row, ends))
            result.extend(Origins.of([rows[row]]))
            start = row + 1
        result.extend(self._part(start, len(self), ends))
        return result

    def _part(self, start: int, end: int, ends: Sequence[int]) -> "Origins":
        span = slice(ends[start], ends[end])
        return Origins(self.numbers[start:end], self.sources[span], self.parts[span], self.dates[span])


# A fifth faster to append than zlib's own choice, for two in a hundred bytes more.
_LEVEL: Final = 2
# No block of honest origins comes near; what a damaged or malicious file could unfold to has to end somewhere.
_MOST_BYTES: Final = 1 << 28

Keys = NDArray[np.uint32]


class Row(NamedTuple):
    """A block as the table `blocks` has it; see docs/bank-format.md."""

    documents: int
    origins: int
    chunks: int
    crc: int
    keys: bytes
    digests: bytes
    lengths: bytes
    described: bytes
    texts: bytes

    def checksum(self) -> int:
        """The CRC-32 that `crc` must be: of the numbers and the columns in order."""
        numbers = np.array([self.documents, self.origins, self.chunks], "<i8").tobytes()
        return checksum(numbers, self.keys, self.digests, self.lengths, self.described, self.texts)


@dataclass
class Listing:
    """Documents side by side, without their codes.

    Attributes:
        digests: content hashes.
        lengths: chunks of each document.
        sizes: bytes each was read from, None where the bank does not keep that.
        origins: where each was read.
        first_texts: number of each document's first text in the table `texts`, which the texts of its other chunks
            follow; 0 in a bank without texts.
    """

    digests: list[bytes]
    lengths: list[int]
    sizes: list[int | None]
    origins: Origins
    first_texts: list[int]

    def __len__(self) -> int:
        return len(self.digests)

    def documents(self) -> Iterator[StoredDocument]:
        """All of its documents."""
        digests = (digest.hex() for digest in self.digests)
        return map(StoredDocument, digests, self.lengths, self.sizes, self.origins)

    def document(self, row: int) -> StoredDocument:
        """One of its documents."""
        return StoredDocument(self.digests[row].hex(), self.lengths[row], self.sizes[row], self.origins[row])


@dataclass
class Block(Listing):
    """Documents side by side, with their codes.

    Attributes:
        codes: of all chunks in order, [sum of lengths, tokens, levels].
    """

    codes: Codes

    @classmethod
    def empty(cls, shape: CodeShape) -> "Block":
        """A block without documents."""
        return cls([], [], [], Origins(), [], np.empty((0, shape.tokens, shape.levels), np.uint16))

    def extend(self, other: "Block") -> None:
        """Put the documents of another block behind these."""
        self.digests += other.digests
        self.lengths += other.lengths
        self.sizes += other.sizes
        self.origins.extend(other.origins)
        self.first_texts += other.first_texts
        self.codes = np.concatenate([self.codes, other.codes])

    def filling(self, start: int, room: int) -> "Block":
        """The documents from `start` on, until `room` chunks are filled or overfilled by the last."""
        ends = np.cumsum(self.lengths[start : start + room])  # a document has at least one chunk
        rows = slice(start, start + 1 + int(np.searchsorted(ends, room)))
        first = sum(self.lengths[:start])
        return Block(
            self.digests[rows],
            self.lengths[rows],
            self.sizes[rows],
            self.origins.between(rows.start, rows.stop),
            self.first_texts[rows],
            self.codes[first : first + sum(self.lengths[rows])],
        )

    def without(self, rows: Iterable[int]) -> "Block":
        """The block less some documents."""
        keep: NDArray[np.bool_] = np.ones(len(self), np.bool_)
        keep[list(rows)] = False
        return Block(
            list(compress(self.digests, keep)),
            list(compress(self.lengths, keep)),
            list(compress(self.sizes, keep)),
            self.origins.kept(keep),
            list(compress(self.first_texts, keep)),
            self.codes[np.repeat(keep, self.lengths)],
        )

    def listing(self) -> Listing:
        """Its documents, whatever becomes of the block."""
        origins = self.origins.between(0, len(self))
        return Listing(self.digests[:], self.lengths[:], self.sizes[:], origins, self.first_texts[:])

    def items(self, rows: Sequence[int]) -> Iterator[tuple[StoredDocument, Codes]]:
        """Some of its documents with their codes."""
        origins, ends = self.origins.of_rows(rows), np.cumsum(self.lengths).tolist()
        for row in rows:
            length = self.lengths[row]
            document = StoredDocument(self.digests[row].hex(), length, self.sizes[row], origins[row])
            yield document, self.codes[ends[row] - length : ends[row]]

    def row(self) -> Row:
        """Its columns, but for the codes."""
        row = Row(
            documents=len(self),
            origins=len(self.origins.sources),
            chunks=len(self.codes),
            crc=0,
            keys=np.unique(keys_of(self.origins)).astype("<u4").tobytes(),
            digests=b"".join(self.digests),
            lengths=deflate(np.array(self.lengths, "<u4").tobytes()),
            described=_describe(self.sizes, self.origins),
            texts=_write_first_texts(self.first_texts, self.lengths),
        )
        return row._replace(crc=row.checksum())

    def packed(self, shape: CodeShape) -> bytes:
        """Its codes as bits."""
        return pack(self.codes, shape)


def keys_of(origins: Origins) -> Keys:
    """What origins are looked up by: the key of each one's source, and that of each part of one."""
    sources = [zlib.crc32(source.encode()) for source in origins.sources]
    parts = [key(source, part) for source, part in zip(origins.sources, origins.parts, strict=True) if part]
    return np.array(sources + parts, np.uint32)


def key(source: str, part: str = "") -> int:
    """CRC-32 of a source, or of a source, a zero byte and a part. Different ones may share a key."""
    return zlib.crc32(f"{source}\0{part}".encode() if part else source.encode())


def checksum(*data: bytes) -> int:
    """CRC-32 of bytes one after another."""
    value = 0
    for some in data:
        value = zlib.crc32(some, value)
    return value


def read_keys(data: bytes) -> Keys:
    """The keys of all origins of a block, each once, ascending."""
    return np.frombuffer(data, "<u4").astype(np.uint32)


def read_digests(row: Row, header: BankHeader) -> list[bytes]:
    """The content hashes.

    Raises:
        ValueError: their bytes do not add up.
    """
    width = header.digest_bytes
    if type(row.digests) is not bytes or type(row.documents) is not int or len(row.digests) != row.documents * width:
        raise ValueError("content hashes do not add up")
    return [row.digests[start : start + width] for start in range(0, len(row.digests), width)]


def read_lengths(data: bytes, documents: int, chunks: int) -> NDArray[np.int64]:
    """Chunks of each document.

    Raises:
        ValueError: they do not add up.
    """
    lengths = np.frombuffer(inflate(data, 4 * documents), "<u4").astype(np.int64)
    if len(lengths) != documents or int(lengths.sum()) != chunks:
        raise ValueError("chunks do not add up")
    return lengths


def read_origins(row: Row, header: BankHeader) -> tuple[list[int | None], Origins]:
    """Size and origins of each document.

    Raises:
        ValueError: they do not add up.
        TypeError, KeyError: they are not what they should be.
    """
    if not header.keeps_origins:
        if row.origins or row.described:
            raise ValueError("origins in a bank without them")
        return [None] * row.documents, Origins([0] * row.documents)
    columns = json.loads(inflate(row.described, _MOST_BYTES))
    sources, parts, dates = columns["sources"], columns["parts"], columns["dates"]
    sizes, numbers = columns["sizes"], columns["origins"]
    if not (
        len(sources) == len(parts) == len(dates) == row.origins == sum(numbers)
        and len(sizes) == len(numbers) == row.documents
        and all(type(text) is str for text in sources)
        and all(type(text) is str for text in parts)
        and all(text is None or type(text) is str for text in dates)
        and all(type(size) is int for size in sizes)
        and all(type(number) is int and number > 0 for number in numbers)
    ):
        raise ValueError("origins do not add up")
    "".join([*sources, *parts, *filter(None, dates)]).encode()  # half a surrogate could be read, but not be written
    return sizes, Origins(numbers, sources, parts, dates)


def read_listing(row: Row, header: BankHeader) -> Listing:
    """The documents of a block from its columns.

    Raises:
        ValueError, TypeError, KeyError: they do not make sense.
    """
    digests = read_digests(row, header)  # first, as it bounds how many documents there may be
    lengths = read_lengths(row.lengths, row.documents, row.chunks).tolist()
    sizes, origins = read_origins(row, header)
    return Listing(digests, lengths, sizes, origins, read_first_texts(row, header, lengths))


def read_block(row: Row, packed: bytes, header: BankHeader) -> Block:
    """A whole block from its columns.

    Raises:
        ValueError, TypeError, KeyError: they do not make sense.
    """
    own = read_listing(row, header)
    codes = unpack(packed, header.shape, row.chunks)
    return Block(own.digests, own.lengths, own.sizes, own.origins, own.first_texts, codes)


def read_first_texts(row: Row, header: BankHeader, lengths: Sequence[int]) -> list[int]:
    """The number of each document's first text; 0 in a bank without texts.

    Raises:
        ValueError: they do not add up.
    """
    if not header.keeps_text:
        if row.texts:
            raise ValueError("texts in a bank without them")
        return [0] * row.documents
    gaps = np.frombuffer(inflate(row.texts, 8 * row.documents), "<i8")
    if len(gaps) != row.documents:
        raise ValueError("texts do not add up")
    chunks = np.array(lengths, np.int64)
    firsts = np.cumsum(gaps) + np.cumsum(chunks) - chunks
    if not (firsts > 0).all():
        raise ValueError("no text has such a number")
    numbers: list[int] = firsts.tolist()
    return numbers


def _write_first_texts(first_texts: Sequence[int], lengths: Sequence[int]) -> bytes:
    """How far each document's texts are from those of the document before: mostly 0, which deflated takes no room."""
    if not any(first_texts):
        return b""
    firsts = np.array(first_texts, np.int64)
    ends = firsts + np.array(lengths, np.int64)
    return deflate((firsts - np.append(0, ends[:-1])).astype("<i8").tobytes())


def _describe(sizes: Sequence[int | None], origins: Origins) -> bytes:
    if not origins.sources:  # a document of a bank with origins has at least one
        return b""
    columns = {
        "sizes": sizes,
        "origins": origins.numbers,
        "sources": origins.sources,
        "parts": origins.parts,
        "dates": origins.dates,
    }
    data = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > _MOST_BYTES:
        raise BankError(
            "Some thousand documents were read in too many places to be stored together.",
            hint="Ingest fewer copies of them, or use a bank made with --no-sources.",
        )
    return deflate(data)


def deflate(data: bytes) -> bytes:
    """The data compressed by zlib."""
    return zlib.compress(data, _LEVEL)


def inflate(data: bytes, most: int) -> bytes:
    """The inverse of `deflate`.

    Raises:
        ValueError: the bytes are damaged, or unfold to more than `most`.
    """
    unfolding = zlib.decompressobj()
    try:
        result = unfolding.decompress(data, most + 1)  # at least 1, as 0 would be no limit
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unfolding.eof or unfolding.unused_data or len(result) > most:
        raise ValueError("a column is too long or cut off")
    return result


Counts = NDArray[np.int64]


def count(codes: NDArray[np.integer[Any]], shape: CodeShape) -> Counts:
    """Count the codes of each book.

    Args:
        codes: [chunks, tokens, levels], in [0, num_codes).
        shape: their shape.

    Returns:
        [levels, positions, num_codes], where positions is `tokens` with a book per position and 1 with a shared one.
    """
    books = np.arange(shape.levels)[None, :] * shape.positions
    if shape.per_position:
        books = books + np.arange(shape.tokens)[:, None]
    flat = (books * shape.num_codes + codes).ravel()
    size = (shape.levels, shape.positions, shape.num_codes)
    return np.bincount(flat, minlength=int(np.prod(size))).reshape(size).astype(np.int64)


def perplexity(counts: NDArray[np.integer[Any]] | NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Effective number of codes in use in each book, exp of the entropy of its usage (paper, section 4.4.4).

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
    """How many codes of each book do not occur: [..., num_codes] -> [...]."""
    each: NDArray[np.int64] = (counts == 0).sum(-1)
    return each


def write_counts(counts: Counts) -> bytes:
    """Counts as a bank keeps them: little-endian int64, deflated, as most codes of a small bank never occur."""
    return deflate(counts.astype("<i8").tobytes())


def read_counts(data: bytes, shape: CodeShape) -> Counts:
    """The inverse of `write_counts`.

    Raises:
        ValueError: the bytes are not such counts.
    """
    size = shape.levels * shape.positions * shape.num_codes
    counts = np.frombuffer(inflate(data, 8 * size), "<i8").astype(np.int64)
    return counts.reshape(shape.levels, shape.positions, shape.num_codes)
