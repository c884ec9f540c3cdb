"""CSV with a header, separated by commas, semicolons or tabs; a row's number counts from the one after the header."""

import csv
from collections.abc import Iterable, Iterator

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.encoding import LINE_CHARACTERS, lines
from mbc_engine.documents.formats.content import BadRow, Content
from mbc_engine.documents.formats.rows import TEXT_FIELDS, Row, read_rows
from mbc_engine.documents.unreadable import UnreadableFile


def read_csv(stream: ByteStream) -> Iterator[Content | BadRow]:
    """The rows as documents; blank ones are none. Names of columns may be in capitals."""
    return read_rows(_rows(stream))


def _rows(stream: ByteStream) -> Iterator[Row | BadRow]:
    # One limit for the whole process, and by default too small for a long text.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS))
    written = _short_lines(stream)
    header = next((line for line in written if line.strip()), None)
    if header is None:
        return
    # The header tells the separator: no guessing, as only one that yields a column of texts is of use.
    separators = {separator: _names(header, separator) for separator in (",", ";", "\t")}
    separator, names = max(separators.items(), key=lambda item: (bool({*TEXT_FIELDS} & {*item[1]}), len(item[1])))
    if not {*TEXT_FIELDS} & {*names}:
        raise UnreadableFile(f"has no column named {', '.join(TEXT_FIELDS[:-1])} or {TEXT_FIELDS[-1]}")
    for number, cells in enumerate(_parsed(written, separator), 1):
        if isinstance(cells, csv.Error):
            yield BadRow(number, f"is broken: {cells}")
        elif any(cells[len(names) :]):
            yield BadRow(number, "has more cells than the header")
        elif cells:
            yield Row(number, dict(zip(names, cells, strict=False)))


def _names(header: str, separator: str) -> list[str]:
    for cells in _parsed([header], separator):
        return [] if isinstance(cells, csv.Error) else [name.strip().lower() for name in cells]
    return []


def _parsed(written: Iterable[str], separator: str) -> Iterator[list[str] | csv.Error]:
    reader = csv.reader(written, delimiter=separator)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield error


def _short_lines(stream: ByteStream) -> Iterator[str]:
    for line in lines(stream, ""):
        if line is None:
            raise UnreadableFile(f"has a line longer than {LINE_CHARACTERS >> 20} MB")
        yield line
