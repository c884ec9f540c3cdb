"""Reads files and streams, even damaged ones, into documents, one by one."""

import hashlib
import io
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import tee
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from mbc_engine.text.decoding import (
    MOST_BINARY_BYTES,
    ByteStream,
    open_bytes,
    open_file,
    piece_name,
    require_at,
    storable,
    stream_of,
    text_pieces,
    without_piece_number,
)
from mbc_engine.text.document import (
    Content,
    Document,
    EmptyFile,
    Place,
    Section,
    Skipped,
    UnreadableFile,
    day_in_name,
    day_of_timestamp,
    printable_path,
    reason,
)
from mbc_engine.text.formats import TEXT, Format
from mbc_engine.text.formats.rows import read_rows
from mbc_engine.text.formats.sniff import DIRECTORY_MARKS, identify

# Of a file that is no text itself, in characters.
_MOST_TEXT: Final = 1 << 28

_Span = TypeVar("_Span", Section, Place)


class Part:
    """A part of a file that is read again; the pieces of a long row are one part."""

    def __init__(self, name: str, pieces: Iterator[Document]) -> None:
        self.name, self.pieces = name, pieces

    def may_hold(self, part: str) -> bool:
        return not self.name or self.name in (part, without_piece_number(part))

    def find(self, part: str) -> Document | None:
        """The document of this name. Created lazily, as most parts are skipped, and kept for the next piece."""
        self.pieces, again = tee(self.pieces)
        return next((document for document in again if document.part == part), None)


def read_file(path: Path, text_column: str | None = None, *, follow_links: bool = True) -> Iterator[Document | Skipped]:
    """The documents of one file, in order, read lazily.

    A bad row yields a `Skipped` in its place. If the file cannot be read to its end, the last item is a `Skipped` with
    the source of the documents before it, which remain valid.

    Rows that lack the field `text_column` are skipped. It is ignored in a file without rows. If links are not to be
    followed, a file is skipped unless `path` is its real one.
    """
    return _documents(read_parts(path, text_column, follow_links=follow_links))


def _documents(items: Iterable[Part | Skipped]) -> Iterator[Document | Skipped]:
    for item in items:
        if isinstance(item, Part):
            yield from item.pieces
        else:
            yield item


def read_parts(path: Path, text_column: str | None = None, *, follow_links: bool = True) -> Iterator[Part | Skipped]:
    """The parts of one file, in order, as `read_file` reads them."""
    # What is a link now was none when the path was found; where it leads is not told.
    source = os.path.realpath(path) if follow_links else os.fspath(path)
    try:
        with open_file(path) as file:
            if not follow_links:
                require_at(file.fileno(), path)
            format, compression = identify(file, path.name)
            if source != printable_path(source):
                raise UnreadableFile("has a name that is not UTF-8")
            date = day_in_name(path.name) or day_of_timestamp(os.fstat(file.fileno()).st_mtime)
            file.seek(0)
            with open_bytes(file, compression) as stream:
                yield from _parts(stream, format, source, date, text_column)
    except EmptyFile as error:
        yield Skipped(source, reason(error), is_empty_file=True)
    except (OSError, UnreadableFile) as error:
        yield Skipped(printable_path(source), reason(error))


def is_changed(path: Path, digest: str) -> bool:
    """Whether a file that was one document is another now, told without parsing it; False if that is not known.

    It is known of PDFs, whose parser is native code: only what an ingest has parsed is parsed again by a process that
    answers.
    """
    with suppress(OSError, UnreadableFile), open_file(path) as file:
        format, _ = identify(file, path.name)
        if format.name == "pdf" and os.fstat(file.fileno()).st_size <= MOST_BINARY_BYTES:
            file.seek(0)
            return not _digest(format.identity, file.read()).startswith(digest)
    return False


def read_stream(stream: BinaryIO, name: str = "stdin") -> Iterator[Document | Skipped]:
    """The documents in a stream, as of a file of this name.

    Their source is `name:` and 12 digits of a digest: a document's own, so that none takes the place of one of another
    stream, or for the pieces of a long text that of the first. If the stream cannot be read to its end, the last item is
    a `Skipped`.
    """
    source = name
    try:
        for part, format in _read_stream(ByteStream(stream.read), name):
            is_named = format is TEXT and source != name
            for item in _documents([part]):
                if not is_named and isinstance(item, Document):
                    source, is_named = f"{name}:{item.digest[:12]}", True
                yield replace(item, source=source + item.source.removeprefix(name))
    except (OSError, UnreadableFile) as error:
        yield Skipped(source, reason(error))


def _read_stream(stream: ByteStream, name: str) -> Iterator[tuple[Part | Skipped, Format]]:
    beginning = stream.peek()
    if beginning.startswith(DIRECTORY_MARKS) or not beginning:
        beginning = stream.read_all(MOST_BINARY_BYTES)
        stream.require_undamaged()
        stream = stream_of(beginning)
    format, compression = identify(io.BufferedReader(io.BytesIO(beginning)), name)
    with open_bytes(stream, compression) as content:
        yield from ((part, format) for part in _parts(content, format, name, None))
    stream.require_undamaged()


def _parts(
    stream: ByteStream, format: Format, source: str, date: str | None, text_column: str | None = None
) -> Iterator[Part | Skipped]:
    is_empty, position = True, 0
    for content in _contents(stream, format, text_column):
        if isinstance(content, Skipped):
            is_empty = False
            yield Skipped(f"{source}#{content.source}", content.reason)
        elif content.text.strip():
            is_empty = False
            end = stream.position()
            yield Part(content.part, _pieces(content, format, source, date, (position, end)))
            position = end
    stream.require_undamaged()
    if is_empty:
        raise EmptyFile


def _contents(stream: ByteStream, format: Format, text_column: str | None) -> Iterator[Content | Skipped]:
    left = _MOST_TEXT
    for content in read_rows(format.read(stream, by_row=text_column is not None), text_column):
        # A small file may name the same text, or page, as often as it likes.
        left -= len(content.text) if isinstance(content, Content) and not format.may_be_compressed else 0
        if left < 0:
            raise UnreadableFile("expands to too much text")
        yield content


def _pieces(
    content: Content, format: Format, source: str, date: str | None, span: tuple[int, int]
) -> Iterator[Document]:
    """A content as a document, or in pieces if it is long; `span` is where in the file it begins and ends."""
    whole, date = storable(content.text), content.date or date
    texts = list(text_pieces(whole))
    if len(texts) == 1 or content.size is not None:
        size = len(content.data) if content.size is None else content.size
        about = content.title, content.sections, content.losses, content.places
        yield Document(
            source, content.part, whole, _digest(format.identity, content.data), size, date, *about, position=span[1]
        )
        return
    (start, end), done = span, 0
    for number, text in enumerate(texts, 1):
        sections = tuple(
            section._replace(start=max(0, section.start - done))
            for section in _within(content.sections, done, done + len(text))
        )
        places = _places_within(content.places, whole, done, done + len(text))
        done += len(text)
        if text.strip():
            # Texts contain no NUL, so none can imitate the date; the format's name marks it as a piece.
            digest = _digest(f"{format.identity} piece", f"{content.date}\0{text}".encode())
            position = start + (end - start) * done // len(content.text)
            part = piece_name(content.part, number)
            losses = content.losses if number == 1 else ()
            about = content.title, sections, losses, places
            yield Document(source, part, text, digest, len(text.encode()), date, *about, position=position)


def _places_within(places: tuple[Place, ...], text: str, start: int, end: int) -> tuple[Place, ...]:
    """The places of the characters from `start` to `end` of a text, with their starts counted from there."""
    within: list[Place] = []
    for place in _within(places, start, end):
        lines = text.count("\n", place.start, start) if place.line else 0
        within.append(Place(max(0, place.start - start), place.page, place.line + lines))
    return tuple(within)


def _within(spans: tuple[_Span, ...], start: int, end: int) -> tuple[_Span, ...]:
    first = max(0, bisect_right(spans, start, key=lambda span: span.start) - 1)
    last = bisect_left(spans, end, key=lambda span: span.start)
    return spans[first:last]


def _digest(format: str, data: bytes) -> str:
    return hashlib.sha256(format.encode() + b"\0" + data).hexdigest()
