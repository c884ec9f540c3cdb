"""CSV with a header, separated by commas, semicolons or tabs; a row's number counts from the one after the header."""

import csv
from collections.abc import Iterable, Iterator
from itertools import chain

from mbc_engine.documents.byte_stream import ByteStream
from mbc_engine.documents.encoding import LINE_CHARACTERS, lines
from mbc_engine.documents.formats.content import BadRow, Row
from mbc_engine.documents.formats.rows import TEXT_FIELDS
from mbc_engine.documents.unreadable import UnreadableFile


def read_csv(stream: ByteStream) -> Iterator[Row | BadRow]:
    """The rows, but for blank ones, with the names of their columns in small letters.

    Where no column is named for a text, a row's text is all its cells, a line `Name: value` each.
    """
    # One limit for the whole process, and by default too small for a long text.
    csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS))
    written = _short_lines(stream)
    first = next((line for line in written if line.strip()), None)
    if first is None:
        return
    separator = _separator(first)
    table = _parsed(chain([first], written), separator)
    header = next(table)
    if isinstance(header, csv.Error):
        raise UnreadableFile(f"has a broken header: {header}")
    columns = [name.strip() for name in header]
    names = [name.lower() for name in columns]
    has_text = bool({*TEXT_FIELDS} & {*names})
    for number, cells in enumerate(table, 1):
        if isinstance(cells, csv.Error):
            yield BadRow(number, f"is broken: {cells}")
        elif any(cells[len(names) :]):
            yield BadRow(number, "has more cells than the header")
        elif any(cell.strip() for cell in cells):
            joined = "" if has_text else _joined(columns, cells)
            fields = dict.fromkeys(names, "") | dict(zip(names, cells, strict=False))
            yield Row(number, fields, joined, is_of_table=True)


def _separator(header: str) -> str:
    """The header tells it: the one that yields a column named for a text, or else most columns."""

    def worth(separator: str) -> tuple[bool, int]:
        cells = next(_parsed([header], separator), [])
        names = [] if isinstance(cells, csv.Error) else [name.strip().lower() for name in cells]
        return bool({*TEXT_FIELDS} & {*names}), len(names)

    return max(("\t", ",", ";"), key=worth)  # a name rarely holds a tab: of as many columns it is that


def _joined(columns: Iterable[str], cells: Iterable[str]) -> str:
    filled = ((name, cell.strip()) for name, cell in zip(columns, cells, strict=False) if cell.strip())
    return "\n".join(f"{name}: {cell}" if name else cell for name, cell in filled)


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
