"""A block: a few thousand chunks of whole documents, in memory and as the columns of its row in the file."""

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import accumulate, chain, compress, islice, pairwise
from operator import add
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.records import (
    BankHeader,
    Codes,
    CodeShape,
    Counts,
    Indices,
    Origin,
    Outline,
    StoredDocument,
    require_size,
)
from mbc_engine.bank.word_index import Words
from mbc_engine.bank.words import WORDS
from mbc_engine.errors import BankError
from mbc_engine.text.context import LONGEST

# Appending is a fifth faster than at zlib's default level, for 2% more bytes.
_LEVEL: Final = 2
# A column of JSON, which Python holds in up to thirty times as much memory. It may also not be longer than all that is
# allowed for the bytes it is stored in and for what it describes; neither can be made up without making the file larger.
_MOST_JSON: Final = 24 << 20
_JSON_BYTES: Final = 16 << 10
_JSON_PER_STORED: Final = 32
_JSON_PER_NAME: Final = 128  # a document, or a key of its origins
_JSON_PER_CHUNK: Final = 8

_BLOCK_BITS: Final = np.uint64(32)
_BLOCK: Final = np.uint64(0xFFFFFFFF)

Keys = NDArray[np.uint32]
Lengths = NDArray[np.int64]
Origins = list[tuple[Origin, ...]]  # one tuple per document


class Row(NamedTuple):
    """A row of the table `blocks`; see docs/bank-format.md."""

    documents: int
    origins: int
    chunks: int
    crc: int
    keys: bytes
    digests: bytes
    lengths: bytes
    described: bytes
    texts: bytes
    outlines: bytes

    def checksum(self, block: int) -> int:
        numbers = np.array([self.documents, self.origins, self.chunks], "<i8").tobytes()
        columns = self.keys, self.digests, self.lengths, self.described, self.texts, self.outlines
        return row_checksum("blocks", block, numbers, *columns)


class OriginColumns(NamedTuple):
    """The origins of a block's documents, as columns; `numbers` is how many origins each document has."""

    sources: list[str]
    parts: list[str]
    dates: list[str | None]
    numbers: list[int]


@dataclass(frozen=True)
class Block:
    """Documents as columns: every list has one value per document.

    Attributes:
        digests: content hashes.
        lengths: chunks of each.
        sizes: bytes each was read from, None if the bank does not record it.
        origins: where each was read, in sorted order.
        first_texts: number of its first text in the table `texts`; its other chunks' texts follow. 0 without texts.
        outlines: what each says of its chunks.
        codes: of all chunks, [sum of lengths, tokens, levels]; None if not loaded.
        words: of all chunks; empty if codes are not loaded, or in a bank without texts.
    """

    digests: list[bytes]
    lengths: list[int]
    sizes: list[int | None]
    origins: Origins
    first_texts: list[int]
    outlines: list[Outline]
    codes: Codes | None = None
    words: Words = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def empty(cls, shape: CodeShape) -> "Block":
        return cls([], [], [], [], [], [], np.empty((0, shape.tokens, shape.levels), np.uint16))

    def __len__(self) -> int:
        return len(self.digests)

    @cached_property
    def rows(self) -> dict[str, dict[str, int]]:
        """The row of the document with each origin, by its source and part."""
        rows: dict[str, dict[str, int]] = {}
        for row, origins in enumerate(self.origins):
            for origin in origins:
                rows.setdefault(origin.source, {})[origin.part] = row
        return rows

    @property
    def known_codes(self) -> Codes:
        assert self.codes is not None
        return self.codes

    @property
    def _columns(self) -> tuple[list[Any], ...]:
        return self.digests, self.lengths, self.sizes, self.origins, self.first_texts, self.outlines

    def __add__(self, other: "Block") -> "Block":
        words = np.concatenate([self.words, other.words + WORDS * len(self.known_codes)])
        codes = np.concatenate([self.known_codes, other.known_codes])
        columns: list[Any] = list(map(add, self._columns, other._columns))
        return Block(*(*columns, codes, words))

    def filling(self, start: int, room: int) -> "Block":
        """The documents from `start` on that fill `room` chunks; the last may exceed it."""
        ends = np.cumsum(self.lengths[start : start + room])  # a document has at least one chunk
        keep = np.zeros(len(self), np.bool_)
        keep[start : start + 1 + int(np.searchsorted(ends, room))] = True
        return self.where(keep)

    def where(self, keep: NDArray[np.bool_]) -> "Block":
        rows: list[Any] = [list(compress(column, keep)) for column in self._columns]
        chunks = np.repeat(keep, self.lengths)
        words = self.words[chunks[self.words // WORDS]]
        words -= (WORDS * np.cumsum(~chunks))[words // WORDS]
        return Block(*(*rows, self.known_codes[chunks], words))

    def document(self, row: int) -> StoredDocument:
        return StoredDocument(
            self.digests[row].hex(), self.lengths[row], self.sizes[row], self.origins[row], outline=self.outlines[row]
        )

    def documents(self) -> Iterator[StoredDocument]:
        starts = list(accumulate(self.lengths, initial=0))
        word_starts = np.searchsorted(self.words, WORDS * np.array(starts)).tolist()
        for row, (start, end) in enumerate(pairwise(starts)):
            codes = None if self.codes is None else self.codes[start:end]
            words = None if self.codes is None else self.words[word_starts[row] : word_starts[row + 1]] - WORDS * start
            yield replace(self.document(row), codes=codes, words=words)

    def row(self, block: int) -> Row:
        keys = np.unique(keys_of(self.origins)).astype("<u4").tobytes()
        row = Row(
            documents=len(self),
            origins=sum(map(len, self.origins)),
            chunks=sum(self.lengths),
            crc=0,
            keys=keys,
            digests=b"".join(self.digests),
            lengths=_deflate(np.array(self.lengths, "<u4").tobytes()),
            described=_described(self.sizes, self.origins, keys),
            texts=_write_first_texts(self.first_texts, self.lengths),
            outlines=_write_outlines(self.outlines, self.lengths),
        )
        return row._replace(crc=row.checksum(block))


# The functions below raise ValueError, TypeError or KeyError on invalid data.


def require_sizes(row: Row, header: BankHeader, code_bytes: int | None) -> None:
    """Require as many documents as content hashes, and as many chunks as codes, before anything is decompressed.

    Hashes and codes are not compressed, so a small file cannot claim to hold much.
    """
    if not all(type(number) is int and number >= 0 for number in (row.documents, row.origins, row.chunks)):
        raise TypeError("its sizes are not numbers")
    if type(row.digests) is not bytes or len(row.digests) != row.documents * header.digest_bytes:
        raise ValueError("content hashes do not add up")
    if code_bytes is None:
        raise ValueError("it has no codes")
    require_size(code_bytes, header.shape, row.chunks)


def read_block(row: Row, header: BankHeader, codes: Codes | None = None) -> Block:
    """The documents of a block from its columns."""
    digests = read_digests(row, header)
    lengths = read_lengths(row.lengths, row.documents, row.chunks).tolist()
    sizes, origins = read_origins(row, header)
    outlines = read_outlines(row.outlines, lengths)
    return Block(digests, lengths, sizes, origins, read_first_texts(row, header, lengths), outlines, codes)


def read_digests(row: Row, header: BankHeader) -> list[bytes]:
    """The content hashes."""
    width = header.digest_bytes
    return [row.digests[start : start + width] for start in range(0, len(row.digests), width)]


def read_lengths(data: bytes, documents: int, chunks: int) -> Lengths:
    """Chunks of each document."""
    lengths = np.frombuffer(inflate(data, 4 * documents), "<u4").astype(np.int64)
    if len(lengths) != documents or int(lengths.sum()) != chunks:
        raise ValueError("chunks do not add up")
    if not lengths.all():
        raise ValueError("a document has no chunks")
    return lengths


def locate_chunks(lengths: Lengths, chunks: Indices) -> tuple[Indices, Indices]:
    """The document each chunk belongs to, given the documents' lengths, and the chunk's index in it."""
    ends = np.cumsum(lengths)
    rows = np.searchsorted(ends, chunks, side="right")
    return rows, chunks - (ends - lengths)[rows]


def read_origins(row: Row, header: BankHeader) -> tuple[list[int | None], Origins]:
    """Size and origins of each document."""
    if not header.keeps_origins:
        if row.origins or row.described:
            raise ValueError("origins in a bank without them")
        return [None] * row.documents, [()] * row.documents
    sizes, columns = read_origin_columns(row)
    origins = map(Origin, columns.sources, columns.parts, columns.dates)
    return sizes, [tuple(islice(origins, number)) for number in columns.numbers]


def read_origin_columns(row: Row) -> tuple[list[int | None], OriginColumns]:
    """As `read_origins`, in a bank that keeps them, without an object for each: several times as fast."""
    columns = _read_json(row.described, _json_of_names(row.documents, row.keys))
    sources, parts, dates = columns["sources"], columns["parts"], columns["dates"]
    sizes, numbers = columns["sizes"], columns["origins"]
    if not (
        len(sources) == len(parts) == len(dates) == row.origins == sum(numbers)
        and len(sizes) == len(numbers) == row.documents
        and set(map(type, [*sources, *parts])) <= {str}
        and set(map(type, dates)) <= {str, type(None)}
        and set(map(type, [*sizes, *numbers])) <= {int}
        and min(numbers, default=1) > 0
        and 0 <= min(sizes, default=0) <= max(sizes, default=0) < 1 << 63
    ):
        raise ValueError("origins do not add up")
    "".join([*sources, *parts, *filter(None, dates)]).encode()  # fails on lone surrogates, which cannot be written
    return sizes, OriginColumns(sources, parts, dates, numbers)


def read_first_texts(row: Row, header: BankHeader, lengths: Sequence[int] | Lengths) -> list[int]:
    """The number of each document's first text, 0 in a bank without texts."""
    if not header.keeps_text:
        if row.texts:
            raise ValueError("texts in a bank without them")
        return [0] * row.documents
    gaps = np.frombuffer(inflate(row.texts, 8 * row.documents), "<i8")
    if len(gaps) != row.documents:
        raise ValueError("texts do not add up")
    chunks = np.array(lengths, np.int64)
    firsts: list[int] = (np.cumsum(gaps) + np.cumsum(chunks) - chunks).tolist()
    if not all(0 < first < 1 << 62 for first in firsts):
        raise ValueError("no text has such a number")
    return firsts


def read_outlines(data: bytes, lengths: Sequence[int]) -> list[Outline]:
    """The title of each document and the headings of its chunks."""
    if not data:
        return [Outline()] * len(lengths)
    columns = _read_json(data, _json_of_chunks(lengths))
    titles, shared = columns["titles"], columns["headings"]
    if not (
        len(titles) == len(lengths)
        and len(shared) == sum(lengths)
        and set(map(type, titles)) <= {str}
        and set(map(type, shared)) <= {str, type(None)}
        and shared[:1] != [None]
        and max(map(len, [*titles, *filter(None, shared)])) <= LONGEST
    ):
        raise ValueError("titles and headings do not add up")
    "".join([*titles, *filter(None, shared)]).encode()  # fails on lone surrogates, which cannot be written
    headings: Iterator[str] = accumulate(shared, lambda before, heading: before if heading is None else heading)
    of_documents = (tuple(islice(headings, length)) for length in lengths)
    return [Outline(title, each if any(each) else ()) for title, each in zip(titles, of_documents, strict=True)]


def _write_outlines(outlines: Sequence[Outline], lengths: Sequence[int]) -> bytes:
    if not any(outline.title or outline.headings for outline in outlines):
        return b""
    every = chain.from_iterable(
        outline.headings or ("",) * length for outline, length in zip(outlines, lengths, strict=True)
    )
    shared = [None if heading == before else heading for before, heading in pairwise((None, *every))]
    columns = {"titles": [outline.title for outline in outlines], "headings": shared}
    return _write_json(columns, _json_of_chunks(lengths), "headings", hint="Ingest fewer of them at a time.")


def keys_of(origins: Iterable[Iterable[Origin]]) -> Keys:
    """The lookup keys of origins: one for each source, and one for each part of a source."""
    sources = [key(origin.source) for origin in chain.from_iterable(origins)]
    parts = [key(origin.source, origin.part) for origin in chain.from_iterable(origins) if origin.part]
    return np.array(sources + parts, np.uint32)


def key(source: str, part: str = "") -> int:
    """CRC-32 of a source, or of a source, a zero byte and a part. Keys may collide."""
    return zlib.crc32(f"{source}\0{part}".encode() if part else source.encode())


def read_keys(data: bytes) -> Keys:
    """The distinct keys of a block's origins, ascending."""
    return np.frombuffer(data, "<u4").astype(np.uint32)


def digest_keys(data: bytes, header: BankHeader) -> Keys:
    """The lookup keys of concatenated content hashes: their first four bytes."""
    starts = np.frombuffer(data, np.uint8).reshape(-1, header.digest_bytes)[:, :4]
    return np.ascontiguousarray(starts).view(">u4")[:, 0].astype(np.uint32)


class KeyIndex:
    """The blocks that may hold a 32-bit key: sorted runs of (key, block) pairs, a log-structured merge tree.

    A pair stays when the key leaves the block, so a hit still has to be checked.
    """

    def __init__(self, blocks: Iterable[tuple[int, NDArray[np.integer[Any]]]]) -> None:
        pairs = [_pairs(block, keys) for block, keys in blocks]
        self._runs = [np.sort(np.concatenate(pairs))] if pairs else []

    def add(self, block: int, keys: NDArray[np.integer[Any]]) -> None:
        pairs = _pairs(block, keys)
        while self._runs and len(self._runs[-1]) <= len(pairs):
            pairs = np.sort(np.concatenate([self._runs.pop(), pairs]))
        self._runs.append(pairs)

    def blocks_of(self, keys: NDArray[np.integer[Any]]) -> dict[int, set[int]]:
        """The blocks to search, for each key that may be in any."""
        wanted = np.sort(keys).astype(np.uint64)
        blocks: defaultdict[int, set[int]] = defaultdict(set)
        for pairs in self._runs:
            starts = np.searchsorted(pairs, wanted << _BLOCK_BITS)
            ends = np.searchsorted(pairs, wanted << _BLOCK_BITS | _BLOCK, side="right")
            for index in np.flatnonzero(starts < ends).tolist():
                blocks[int(wanted[index])].update((pairs[starts[index] : ends[index]] & _BLOCK).tolist())
        return blocks


def _pairs(block: int, keys: NDArray[np.integer[Any]]) -> NDArray[np.uint64]:
    if not 0 <= block <= _BLOCK:
        raise OverflowError(f"{block} is not a valid block number")
    return np.sort(keys).astype(np.uint64) << _BLOCK_BITS | np.uint64(block)


def checksum(*data: bytes) -> int:
    """CRC-32 of concatenated bytes."""
    return reduce(lambda value, some: zlib.crc32(some, value), data, 0)


def row_checksum(table: str, number: int, *data: bytes) -> int:
    """CRC-32 of what a row of a table holds, including its table ("" for `texts`) and id: swapped rows are detected."""
    return checksum(table.encode(), number.to_bytes(8, "little", signed=True), *data)


def write_counts(counts: Counts) -> bytes:
    """Counts as a bank stores them: little-endian int64, deflated."""
    return _deflate(counts.astype("<i8").tobytes())


def read_counts(data: bytes, shape: CodeShape) -> Counts:
    """The inverse of `write_counts`. Raises ValueError if the bytes are not valid counts."""
    size = shape.levels * shape.positions * shape.num_codes
    counts = np.frombuffer(inflate(data, 8 * size), "<i8").astype(np.int64)
    return counts.reshape(shape.levels, shape.positions, shape.num_codes)


def _write_first_texts(first_texts: Sequence[int], lengths: Sequence[int]) -> bytes:
    """The gap between each document's texts and the previous document's: mostly 0, which deflates to almost nothing."""
    if not any(first_texts):
        return b""
    firsts = np.array(first_texts, np.int64)
    ends = firsts + np.array(lengths, np.int64)
    return _deflate((firsts - np.append(0, ends[:-1])).astype("<i8").tobytes())


def _described(sizes: Sequence[int | None], origins: Origins, keys: bytes) -> bytes:
    flat = list(chain.from_iterable(origins))
    if not flat:  # in a bank with origins, each document has at least one
        return b""
    columns = {
        "sizes": sizes,
        "origins": list(map(len, origins)),
        "sources": [origin.source for origin in flat],
        "parts": [origin.part for origin in flat],
        "dates": [origin.date for origin in flat],
    }
    hint = "Ingest fewer copies of them, or use a bank made with --no-sources."
    return _write_json(columns, _json_of_names(len(sizes), keys), "sources", hint=hint)


def _json_of_names(documents: int, keys: bytes) -> int:
    return _JSON_PER_NAME * (documents + len(keys) // 4)


def _json_of_chunks(lengths: Sequence[int]) -> int:
    return _JSON_PER_NAME * len(lengths) + _JSON_PER_CHUNK * sum(lengths)


def _longest_json(stored: int, allowed: int) -> int:
    return min(_MOST_JSON, _JSON_BYTES + _JSON_PER_STORED * stored + allowed)


def _read_json(data: bytes, allowed: int) -> Any:
    return json.loads(inflate(data, _longest_json(len(data), allowed)))


def _write_json(columns: Mapping[str, object], allowed: int, what: str, *, hint: str) -> bytes:
    """The inverse of `_read_json`. Raises BankError, about `what` the columns hold, if they are too long."""
    data = json.dumps(columns, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) > _MOST_JSON:
        raise BankError(f"These documents have too many {what} to be stored in one block.", hint=hint)
    deflated = _deflate(data)
    if len(data) > _longest_json(len(deflated), allowed):
        # Much the same over and over. Without repetitions, zlib saves at most seven of eight bits.
        compressor = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
        deflated = compressor.compress(data) + compressor.flush()
    return deflated


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data, _LEVEL)


def inflate(data: bytes, limit: int) -> bytes:
    """Decompress a column. Raises ValueError if it is damaged, or longer than `limit` bytes."""
    decompressor = zlib.decompressobj()
    try:
        result = decompressor.decompress(data, limit + 1)  # at least 1, as 0 means no limit
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof or decompressor.unused_data or len(result) > limit:
        raise ValueError("a column is too long or cut off")
    return result
