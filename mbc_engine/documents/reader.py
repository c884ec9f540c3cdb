"""Files and streams become documents, one by one, whatever state they are in."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from mbc_engine.documents.byte_stream import ByteStream, open_bytes
from mbc_engine.documents.dates import day_of_timestamp
from mbc_engine.documents.document import Document, Skipped
from mbc_engine.documents.encoding import storable
from mbc_engine.documents.formats import SUFFIXES, TEXT, Format, kind_of
from mbc_engine.documents.formats.content import BadRow, Content
from mbc_engine.documents.pieces import piece_name, text_pieces
from mbc_engine.documents.unreadable import EmptyFile, UnreadableFile, reason, shown
from mbc_engine.errors import DataError


def read_file(path: Path) -> Iterator[Document | Skipped]:
    """The documents of one file, in order, read as they are asked for.

    A bad row comes as `Skipped` in its place. If the file could not be read, or not to its end, the last item is a
    `Skipped` whose source is that of the file's documents; what came before it stays good.
    """
    source = os.path.realpath(path)
    try:
        # The kind of file is looked at before it is opened: opening a pipe would wait for ever.
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("is not a regular file")
        kind = kind_of(path.name)
        if source != shown(source):
            raise UnreadableFile("has a name that is not UTF-8")
        with open_bytes(path, kind.compression) as stream:
            yield from _documents(stream, kind.format, source, day_of_timestamp(status.st_mtime))
    except EmptyFile as error:
        yield Skipped(source, reason(error), is_whole=True)
    except (OSError, UnreadableFile) as error:
        yield Skipped(shown(source), reason(error))


def read_stream(stream: BinaryIO, name: str = "stdin") -> Iterator[Document | Skipped]:
    """The plain text in a stream, in pieces if it is long. Its source is `name:` and how its first digest begins.

    If the stream cannot be read, or not to its end, the last item is a `Skipped`.
    """
    source = name
    try:
        for item in _documents(ByteStream(stream.read), TEXT, name, None):
            if source == name and isinstance(item, Document):
                source = f"{name}:{item.digest[:12]}"
            yield replace(item, source=source)
    except (OSError, UnreadableFile) as error:
        yield Skipped(source, reason(error))


def read_document(source: str, part: str = "") -> Document:
    """One document again, as its file has it now; whether it has changed tells the digest.

    Takes as long as reading the file up to the document.

    Args:
        source: the document's, and thereby an absolute path.
        part: the document's.

    Raises:
        DataError: it cannot be had any more.
    """
    path = Path(source)
    if not path.is_absolute():
        raise DataError(f"{source} did not come from a file.", hint="It cannot be read a second time.")
    why = f"has no part {part!r} any more" if part else "holds more than one document now"
    for item in read_file(path):
        if isinstance(item, Document) and item.part == part:
            return item
        if isinstance(item, Skipped) and item.source == shown(os.path.realpath(path)):
            why = item.reason
    raise DataError(f"{shown(source)} {why}.", hint=f"Files that can be read: {', '.join(sorted(SUFFIXES))}.")


def _documents(stream: ByteStream, format: Format, source: str, date: str | None) -> Iterator[Document | Skipped]:
    is_empty, position = True, 0
    for content in format.read(stream):
        if isinstance(content, BadRow):
            is_empty = False
            yield Skipped(f"{source}#{content.number}", content.reason)
        elif content.text.strip():
            is_empty = False
            end = stream.position()
            yield from _parts(content, format, source, date, (position, end))
            position = end
    stream.require_whole()
    if is_empty:
        raise EmptyFile


def _parts(
    content: Content, format: Format, source: str, date: str | None, span: tuple[int, int]
) -> Iterator[Document]:
    """A content as a document, or in pieces if it is long; `span` is where in the file it begins and ends."""
    texts = list(text_pieces(storable(content.text)))
    if len(texts) == 1 or content.size is not None:
        size = len(content.data) if content.size is None else content.size
        digest = _digest(format.name, content.data)
        yield Document(
            source, content.part, storable(content.text), digest, size, content.date or date, position=span[1]
        )
        return
    (start, end), done = span, 0
    for number, text in enumerate(texts, 1):
        done += len(text)
        if text.strip():
            yield Document(
                source=source,
                part=piece_name(content.part, number),
                text=text,
                # A zero is in no text, so none can imitate the date; the format's name says that it is a piece.
                digest=_digest(f"{format.name} piece", f"{content.date}\0{text}".encode()),
                size=len(text.encode()),
                date=content.date or date,
                position=start + (end - start) * done // len(content.text),
            )


def _digest(format: str, data: bytes) -> str:
    return hashlib.sha256(format.encode() + b"\0" + data).hexdigest()
