"""Rows of named cells, a document each, whatever the format they come from.

A row is written as `Name: value; Name: value`, and its long cells follow as paragraphs, so that what identifies it comes
first.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from typing import Final, NamedTuple

from mbc_engine.text.decoding import storable
from mbc_engine.text.document import Content, Section, Skipped, UnreadableFile, day_of, printable, with_title
from mbc_engine.text.tables import TEXT_FIELDS

LONGEST_NAME: Final = 200
_LONGEST_ID: Final = 200
_LONGEST_LIST: Final = 200
# Names reserved for rows without a usable id, and for pieces of long rows.
_TAKEN_NAME: Final = re.compile(r"(?:.*, )?row \d+|.*, part \d+", re.DOTALL)


class Cell(NamedTuple):
    """A value, and the name of its column or its path, "" if it has none."""

    name: str
    text: str  # without white space around it; "" if there is no value


@dataclass(frozen=True)
class Row:
    """A row, which is a document."""

    number: int  # in its table, from 1
    cells: Sequence[Cell]
    below: str = ""  # what else belongs to it, as text
    table: str = ""  # the name of its table, if the file holds several
    context: str = ""  # what its chunks must know beside the row, as a line above the table
    is_table: bool = False  # whether all rows of the file have these cells
    date: str | None = None  # of its file, if the row has none
    losses: tuple[str, ...] = ()  # of its file, in the first row
    id: str = ""  # with the white space that its cell does not have

    @property
    def name(self) -> str:
        """Its name in its file."""
        return f"{self.table}, row {self.number}" if self.table else f"row {self.number}"

    def by_name(self) -> dict[str, Cell]:
        """The first cell with a text of each name, in lower case."""
        return {_key(cell): cell for cell in reversed(self.cells) if cell.text}


def _key(cell: Cell) -> str:
    return cell.name.strip().lower()


def read_rows(items: Iterable[Content | Row | Skipped], text_column: str | None = None) -> Iterator[Content | Skipped]:
    """Turn rows into documents; everything else passes through.

    A row is named by its id, or "row 12" if the id is missing, used by an earlier row, or looks like "row 12" or
    "x, part 2". Its number and id are not part of its identity (unless its text holds them), so inserting a row above
    changes no other. Rows without a text in the column `text_column` are skipped. Raises UnreadableFile if no row has
    it; for a table, at the first row.
    """
    taken: set[str] = set()
    lacking: list[Row] = []
    wanted = None if text_column is None else text_column.strip().lower()
    is_there = wanted is None
    for item in items:
        if not isinstance(item, Row):
            yield item
            continue
        named = item.by_name()
        part = _part(item, named.get("id"), taken)  # whatever column is wanted
        if not is_there and all(_key(cell) != wanted for cell in item.cells):
            lacking.append(item)
            if item.is_table:
                break
        else:
            is_there = True
            yield from (Skipped(row.name, "has no text") for row in lacking)
            lacking = []
            has_text = bool(named or item.below) if wanted is None else wanted in named
            yield _content(item, named, part) if has_text else Skipped(item.name, "has no text")
    if lacking:
        columns = printable(", ".join(cell.name for cell in lacking[0].cells))
        columns = columns if len(columns) <= _LONGEST_LIST else f"{columns[:_LONGEST_LIST]}…"
        raise UnreadableFile(f"has no column named {text_column!r}; its columns are {columns}")


def _part(row: Row, id: Cell | None, taken: set[str]) -> str:
    name = row.id or (id.text if id else "")
    if row.table or name in taken or not is_row_name(name):
        return row.name
    taken.add(name)
    return name


def is_row_name(id: str) -> bool:
    """Whether a row can be named by this id."""
    return 0 < len(id) <= _LONGEST_ID and storable(id) == id and not _TAKEN_NAME.fullmatch(id)


def _content(row: Row, named: Mapping[str, Cell], part: str) -> Content:
    body = next((named[name] for name in TEXT_FIELDS if name in named), None)
    title, dated = named.get("title"), named.get("date")
    plain = (named.get("id"), title, dated, body)
    if body and not row.below and all(any(cell is special for special in plain) for cell in row.cells if cell.text):
        text = with_title(title.text if title else "", body.text)
    else:
        others = written(cell for cell in row.cells if cell is not body)
        text = "\n\n".join(filter(None, (others, body and body.text, row.below)))
    date = (day_of(dated.text) if dated else None) or row.date
    sections = (Section(0, row.context),) if row.context else ()
    data = "\0".join((str(date), text, *filter(None, [row.context]))).encode()  # texts contain no NUL
    about = title.text if title else _identity(row, named, text), sections, row.losses
    return Content(text, data, date, part, None, *about)


# HTML from its first to its last tag; and a tag that may stand in a sentence.
_OUTER: Final = "html|body|div|p|ul|ol|table|h[1-6]|blockquote|article|section|span|b|i|a|en-note"
_PAGE: Final = re.compile(rf"\s*(?:<[?!][^>]*>\s*)*<(?:{_OUTER})\b.*</(?:{_OUTER})>\s*", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(
    r"</?(?:a|b|i|u|em|strong|br|p|span)(?:\s+[\w:-]+=(?:\"[^\"]*\"|'[^']*'))*\s*/?>", re.IGNORECASE
)
_ENTITY: Final = re.compile("&(?:amp|lt|gt|quot|#39);")


def as_seen(text: str) -> str:
    """What a browser shows of HTML, as in notes, feeds and reviews; anything else as it is."""
    if "<" not in text and "&" not in text:
        return text
    if _PAGE.fullmatch(text) or 0 < text.count("<") == len(_TAG.findall(text)):
        from mbc_engine.text.formats.html import page_of

        with suppress(UnreadableFile):
            return page_of(text).content(b"").text
    return unescape(text) if _ENTITY.search(text) else text


# Cells that are at most so long share lines of at most so many characters.
_SHORT_CELL: Final = 200
_LONGEST_LINE: Final = 500


def written(cells: Iterable[Cell]) -> str:
    """Cells as text: the short ones, `Name: value; Name: value`, then a paragraph for each longer one."""
    lines: list[str] = []
    long: list[str] = []
    for name, text in cells:
        if not text:
            continue
        named = f"{name}: {text}" if name else text
        if len(text) > _SHORT_CELL or "\n" in text:
            long.append(named)
        elif lines and len(lines[-1]) + len(named) <= _LONGEST_LINE:
            lines[-1] += f"; {named}"
        else:
            lines.append(named)
    return "\n\n".join(["\n".join(lines), *long] if lines else long)


# A longer row may be cut, and only its first chunk would know what it is about.
_LONG_ROW: Final = 600
_LONGEST_IDENTITY: Final = 100


_FOR_PROGRAMS: Final = re.compile(r"true|false|\d[\dTZ:.+-]*|(?=\D*\d)[\w-]{16,}")


def _identity(row: Row, named: Mapping[str, Cell], text: str) -> str:
    """The name, or else the first short cell with a letter, if a row is long or has several parts."""
    if len(text) < _LONG_ROW and not row.below:
        return ""
    cells = row.cells if row.is_table or "name" not in named else (named["name"], *row.cells)
    texts = (cell.text for cell in cells if len(cell.text) <= _LONGEST_IDENTITY)
    return next((text for text in texts if any(map(str.isalpha, text)) and not _FOR_PROGRAMS.fullmatch(text)), "")
