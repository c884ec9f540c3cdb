"""Codecs for the exact texts of chunks, zstd with a dictionary or range coding with a language model, and their table.

zstd's dictionary holds English prose, which cannot be learned from a short text. A language model needs less than half
of zstd's bytes, but codes only a few texts a second. A row of the table holds many texts, which share its overhead.
"""

import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from mbc_engine.bank.block import inflate, row_checksum
from mbc_engine.bank.database import read_state, wrap_invalid_data
from mbc_engine.bank.records import BankHeader, EncodedText, TextState
from mbc_engine.errors import BankError, ModelError
from mbc_engine.text import Chunk

if TYPE_CHECKING:
    from zstandard import ZstdCompressionDict, ZstdCompressionParameters

PLAIN: Final = 0
ZSTD: Final = 1
LM: Final = 2
_LEVEL: Final = 19
# Every zstd frame begins with these bytes, so they are not stored.
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
# A chunk comes from a piece of a file, which has fewer bytes; more would keep whatever reads them busy.
_MOST_BYTES: Final = 128 << 10
# Characters of a chunk that are compared with a question, read and shown. Only chunks that are no words have more.
MOST_READ: Final = 16 << 10
# A payload may decompress to this many bytes, or to this many times its own; a text that compresses better is stored
# plain. Real ones have a few thousand bytes and compress three or four times.
_SHORT_BYTES: Final = 16 << 10
_MOST_COMPRESSION: Final = 64
# Bytes of the texts of a document or block: these, and so many times those stored.
_TOGETHER: Final = 16 << 20
_TOGETHER_PER_STORED: Final = 8
# A text decoded with the wrong dictionary or language model, or read from a file that is now chunked differently,
# passes the check once in 16 million times.
CHECK_BYTES: Final = 3
# Bytes in a row: enough to fill four SQLite overflow pages, plus the 489 that SQLite then keeps in the tree.
FULL_ROW_BYTES: Final = 489 + 4 * 4092
# Texts that a language model encodes or decodes in one batch.
LM_BATCH: Final = 8
_COLUMN_BYTES: Final = 13  # per text in `columns`, which deflate to about one
_TEXT_WEIGHT: Final = CHECK_BYTES + 1  # what a text takes of a row beside its payload


class TextCoder(Protocol):
    """A language model that range-codes texts; implemented in `mbc_engine.lm.text_model`."""

    @property
    def fingerprint(self) -> str: ...
    def encode(self, texts: Sequence[str], /) -> list[bytes | None]: ...
    def decode(self, payloads: Sequence[bytes], /) -> list[str]: ...


OpenTextModel = Callable[[str], TextCoder]


def text_checksum(text: str) -> int:
    """The low three bytes of the CRC-32 of a text in UTF-8."""
    return zlib.crc32(_utf8(text)) & 0xFFFFFF


def encode_chunk(chunk: Chunk) -> EncodedText:
    """A chunk in zstd, or plain if that is shorter; deterministic for one version of zstd. Keeps lone surrogates."""
    if not 0 <= chunk.start < 1 << 32:
        raise ValueError(f"a chunk cannot start at {chunk.start}")
    plain = _utf8(chunk.text)
    if len(plain) > _MOST_BYTES:
        raise ValueError(f"a chunk has {_MOST_BYTES:,} bytes at most")
    codec, payload = PLAIN, plain
    if plain:
        packed = _own.compressor.compress(plain)[len(_MAGIC) :]
        if len(packed) < len(plain) <= _longest_text(packed):
            codec, payload = ZSTD, packed
    return EncodedText(chunk.start, codec, zlib.crc32(plain) & 0xFFFFFF, payload)


def decode_chunk(text: EncodedText, open_model: OpenTextModel | None = None) -> Chunk:
    """The inverse of `encode_chunk`; raises as `decode_texts`."""
    return Chunk(decode_texts([text], open_model)[0], text.start)


def decode_texts(texts: Sequence[EncodedText], open_model: OpenTextModel | None = None) -> list[str]:
    """Decode texts, those of a model in one call. Raises ValueError if damaged, ModelError without the model."""
    decoded, room = [], _TOGETHER + _TOGETHER_PER_STORED * sum(len(text.payload) for text in texts)
    for text in texts:
        plain = decompress(text.payload) if text.codec == ZSTD else text.payload
        decoded.append("" if text.codec == LM else plain.decode("utf-8", "surrogatepass"))
        if (room := room - len(plain)) < 0:
            raise ValueError("texts are too long together")
    for fingerprint in {text.lm for text in texts if text.codec == LM}:
        if open_model is None:
            raise ModelError(f"These texts need the language model {fingerprint}.", hint="Give `open_model` here.")
        indices = [index for index, text in enumerate(texts) if text.codec == LM and text.lm == fingerprint]
        texts_of_model = open_model(fingerprint).decode([texts[index].payload for index in indices])
        for index, plain_text in zip(indices, texts_of_model, strict=True):
            decoded[index] = plain_text
    if any(text_checksum(plain_text) != text.check for plain_text, text in zip(decoded, texts, strict=True)):
        raise ValueError("a text's checksum does not match")
    return decoded


def recoded(texts: Sequence[EncodedText], model: TextCoder, *, to_lm: bool) -> list[EncodedText]:
    """Recode texts with a language model where that takes fewer bytes, or back to zstd; raises as `decode_texts`."""
    plain = decode_texts(texts, lambda _: model)
    if not to_lm:
        return [encode_chunk(Chunk(plain_text, text.start)) for plain_text, text in zip(plain, texts, strict=True)]
    payloads = zip(texts, model.encode(plain), strict=True) if texts else ()
    return [
        text
        if payload is None or len(payload) >= len(text.payload)
        else EncodedText(text.start, LM, text.check, payload, model.fingerprint)
        for text, payload in payloads
    ]


def decode_found(
    texts: Sequence[EncodedText | None], name: str, open_model: OpenTextModel | None
) -> Sequence[Chunk | None]:
    """As `decode_texts`, of texts in the bank `name`, some of which may be None. Raises BankError if damaged."""
    stored = [text for text in texts if text is not None]
    with wrap_invalid_data(name):
        decoded = iter(decode_texts(stored, open_model))
    return [None if text is None else Chunk(next(decoded), text.start) for text in texts]


def joined_text(texts: Sequence[EncodedText], name: str, open_model: OpenTextModel | None) -> str:
    """A document's text from that of its chunks in order; white space between them is not exact. Raises as above."""
    whole = ""
    for chunk in filter(None, decode_found(texts, name, open_model)):
        gap = chunk.start - len(whole)  # of white space, which is not stored
        whole += "\n" * min(max(gap, 0), 2) + chunk.text[max(0, -gap) :]
    return whole


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def read_row(lm: str, number: int, crc: int, columns: bytes, data: bytes) -> dict[int, EncodedText]:
    """The texts of a row by their numbers. Raises ValueError or TypeError if the row is damaged."""
    if crc != row_checksum("", number, columns, data):
        raise ValueError("its checksum does not match")
    most_texts = -(-FULL_ROW_BYTES // _TEXT_WEIGHT)
    packed = inflate(columns, _COLUMN_BYTES * most_texts)
    count = len(packed) // _COLUMN_BYTES
    planes = np.frombuffer(packed, np.uint8, offset=count).reshape(3, 4, count).transpose(0, 2, 1)
    gaps, starts, lengths = np.ascontiguousarray(planes).view("<u4")[..., 0].astype(np.int64)
    numbers = (number + np.cumsum(gaps) + np.arange(count)).tolist()
    ends = [CHECK_BYTES * count, *(CHECK_BYTES * count + np.cumsum(lengths)).tolist()]
    if ends[-1] != len(data) or max(packed[:count]) > LM or gaps[0] or lengths.max() > _MOST_BYTES:
        raise ValueError("its columns do not add up")
    checks = (int.from_bytes(data[at : at + CHECK_BYTES], "little") for at in range(0, ends[0], CHECK_BYTES))
    columns_of = zip(numbers, starts.tolist(), packed[:count], checks, pairwise(ends), strict=True)
    return {
        at: EncodedText(start, codec, check, data[begin:end], lm if codec == LM else "")
        for at, start, codec, check, (begin, end) in columns_of
    }


def text_rows(texts: Iterable[tuple[int, EncodedText]]) -> Iterator[tuple[int, int, bytes, bytes]]:
    """The rows of the table for texts in ascending order of their numbers."""
    row: dict[int, EncodedText] = {}
    weight = 0
    for number, text in texts:
        row[number] = text
        weight += _TEXT_WEIGHT + len(text.payload)
        if weight >= FULL_ROW_BYTES:
            yield _write_row(list(row), list(row.values()))
            row, weight = {}, 0
    if row:
        yield _write_row(list(row), list(row.values()))


def _write_row(numbers: Sequence[int], texts: Sequence[EncodedText]) -> tuple[int, int, bytes, bytes]:
    gaps = np.diff(np.array(numbers), prepend=numbers[0] - 1) - 1
    values = np.stack([gaps, [text.start for text in texts], [len(text.payload) for text in texts]])
    planes = values.astype("<u4").view(np.uint8).reshape(3, -1, 4).transpose(0, 2, 1)
    columns = zlib.compress(bytes(text.codec for text in texts) + planes.tobytes(), 9)
    checks = (text.check.to_bytes(CHECK_BYTES, "little") for text in texts)
    data = b"".join([*checks, *(text.payload for text in texts)])
    return numbers[0], row_checksum("", numbers[0], columns, data), columns, data


# Starts at the row that holds a number, or `OFFSET` rows before it.
_FROM: Final = """SELECT id, crc, columns, data FROM texts
    WHERE id >= coalesce((SELECT id FROM texts WHERE id <= ? ORDER BY id DESC LIMIT 1 OFFSET ?), 0) AND id <= ?
    ORDER BY id"""
_MAX_NUMBER: Final = (1 << 63) - 1
# Texts with numbers at most this far apart are changed together.
_MAX_DISTANCE: Final = 256


class TextTable:
    """Reads and writes the table `texts`, whose texts have ascending numbers; the caller manages transactions."""

    def __init__(self, connection: sqlite3.Connection, header: BankHeader, name: str) -> None:
        self._connection, self._header, self._name = connection, header, name
        self.forget()

    def forget(self) -> None:
        self._state: TextState | None = None
        self._cached: dict[int, EncodedText] = {}

    @property
    def state(self) -> TextState:
        """As stored, or as it will be after the changes in progress."""
        if self._state is None:
            _, self._state = read_state(self._connection, self._header, self._name)
        return self._state

    def read(self, first: int, count: int) -> list[EncodedText]:
        """Texts with consecutive numbers. Raises BankError if one is missing or damaged."""
        span = range(first, first + count)
        if not all(number in self._cached for number in (first, span[-1])):
            _, self._cached = self._load(first, span[-1], before=0)
        with wrap_invalid_data(self._name):
            return [self._cached[number] for number in span]

    def following(self, number: int, *, are_lm: bool) -> Iterator[tuple[int, EncodedText]]:
        """The texts from a number on that are coded with the language model, or else the others."""
        for row in self._connection.execute(_FROM, (number, 0, _MAX_NUMBER)):
            with wrap_invalid_data(self._name):
                texts = read_row(self.state.lm, *row)
            yield from ((at, text) for at, text in texts.items() if at >= number and (text.codec == LM) == are_lm)

    def append(self, texts: Sequence[EncodedText]) -> int:
        """Append texts, numbered after the largest; returns the first new number."""
        if lm := next((text.lm for text in texts if text.codec == LM), ""):
            self.require(lm)
        rows, last = self._load(_MAX_NUMBER, _MAX_NUMBER)
        first = max(last, default=0) + 1
        self._store(rows, last, last | dict(enumerate(texts, first)))
        self.mark_tried(min(self.state.lm_tried_before, first))  # texts that had these numbers before are gone
        return first

    def change(self, changed: Mapping[int, EncodedText | None]) -> int:
        """Remove texts (those given as None), or store them in another codec, if they are still there.

        Returns the first number that now belongs to a different text.
        """
        first = _MAX_NUMBER
        changed_numbers = np.array(sorted(changed), np.int64)
        for near in (
            np.split(changed_numbers, np.flatnonzero(np.diff(changed_numbers) > _MAX_DISTANCE) + 1) if changed else ()
        ):
            numbers: list[int] = near.tolist()
            rows, old = self._load(numbers[0], numbers[-1])
            new = dict(old)
            for number in numbers:
                stored, text = old.get(number), changed[number]
                if text is None:
                    new.pop(number, None)
                elif stored is not None and (stored.start, stored.check) == (text.start, text.check):
                    new[number] = text
                elif stored is not None:
                    first = min(first, number)
            self._store(rows, old, new)
        return first

    def mark_tried(self, number: int) -> None:
        """Record that texts below this number are coded with the language model, or would not be shorter."""
        self._state = self.state._replace(lm_tried_before=number)

    def require(self, lm: str) -> None:
        """Set the language model of the texts. Raises BankError if some are coded with another one."""
        if self.state.lm == lm:
            return
        if self.state.lm_texts:
            raise BankError(
                f"{self._name} has texts compressed with another language model ({self.state.lm}, not {lm}).",
                hint="Run `mbc bank compact --codec zstd` with that model first.",
            )
        self._state = self.state._replace(lm=lm, lm_tried_before=0)

    def _load(self, first: int, last: int, before: int = 1) -> tuple[list[Any], dict[int, EncodedText]]:
        """The rows that hold a range of numbers, and one before, which may have room; and their texts."""
        with wrap_invalid_data(self._name):
            rows = self._connection.execute(_FROM, (first, before, last)).fetchall()
            return rows, {number: text for row in rows for number, text in read_row(self.state.lm, *row).items()}

    def _store(self, rows: Sequence[Any], old: Mapping[int, EncodedText], new: Mapping[int, EncodedText]) -> None:
        with wrap_invalid_data(self._name):  # numbers beyond 64 bits raise OverflowError
            after = list(text_rows(sorted(new.items())))
            gone = [(row[0],) for row in rows if row not in after]
            self._connection.executemany("DELETE FROM texts WHERE id = ?", gone)
            added = [row for row in after if row not in rows]
            self._connection.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", added)
        self._cached, state = {}, self.state
        for sign, written, texts in ((-1, rows, old), (1, after, new)):
            under = [len(text.payload) for text in texts.values() if text.codec == LM]
            state = state._replace(
                bytes=state.bytes + sign * sum(len(columns) + len(data) for _, _, columns, data in written),
                lm_texts=state.lm_texts + sign * len(under),
                lm_bytes=state.lm_bytes + sign * sum(under),
            )
        self._state = state


def decompress(payload: bytes) -> bytes:
    """The UTF-8 of a text of codec `ZSTD`. Raises ValueError if it is damaged."""
    from zstandard import ZstdError, frame_content_size

    try:
        size = frame_content_size(_MAGIC + payload)
        if not 0 <= size <= _longest_text(payload):
            raise ValueError("a text does not say how long it is, or is too long")
        plain: bytes = _own.decompressor.decompress(_MAGIC + payload, allow_extra_data=False)
    except ZstdError as error:
        raise ValueError(str(error)) from error
    return plain


def _longest_text(payload: bytes) -> int:
    return min(_MOST_BYTES, max(_SHORT_BYTES, _MOST_COMPRESSION * len(payload)))


_preparing: Final = threading.Lock()


class _OfThread(threading.local):
    """Compressors and decompressors are not thread-safe; the dictionary is."""

    @cached_property
    def compressor(self) -> Any:
        from zstandard import ZstdCompressor

        with _preparing:
            return ZstdCompressor(dict_data=_dictionary(), compression_params=_parameters())

    @cached_property
    def decompressor(self) -> Any:
        from zstandard import ZstdDecompressor

        with _preparing:
            return ZstdDecompressor(dict_data=_dictionary())


_own: Final = _OfThread()


@cache
def _dictionary() -> "ZstdCompressionDict":
    from zstandard import ZstdCompressionDict

    return ZstdCompressionDict(files(__package__).joinpath("text.dict").read_bytes())


@cache
def _parameters() -> "ZstdCompressionParameters":
    from zstandard import ZstdCompressionParameters

    sizes = {"source_size": 1024, "dict_size": len(_dictionary())}  # the source is about a chunk
    writes = {"write_content_size": True, "write_checksum": False, "write_dict_id": False}
    parameters = ZstdCompressionParameters.from_level(_LEVEL, **sizes, **writes)
    _dictionary().precompute_compress(compression_params=parameters)  # takes a quarter of a second
    return parameters
