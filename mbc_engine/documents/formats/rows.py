"""Rows of named fields, as JSON Lines and CSV hold them: each is a document of its own.

Fields: `text` (or `content`, or `body`), or another one that somebody names; and if there are such `title`, `date` and
`id`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mbc_engine.documents.dates import day_of
from mbc_engine.documents.encoding import storable
from mbc_engine.documents.formats.content import BadRow, Content, Row, with_title
from mbc_engine.documents.unreadable import UnreadableFile

TEXT_FIELDS: Final = ("text", "content", "body")
# What a row may have been read as, after the field taken for its text; None stands for the default.
Candidate = tuple[str | None, Content]
_LONGEST_ID: Final = 200
_LONGEST_LIST: Final = 200
# How rows without a usable id are called, and pieces of long rows.
_TAKEN_NAME: Final = re.compile(r"row \d+|.*, part \d+", re.DOTALL)


def read_contents(
    items: Iterable[Content | Row | BadRow], text_column: str | None = None
) -> Iterator[Content | BadRow]:
    """Turn rows into documents; everything else stays as it is.

    A row is called by its id, or "row 12" if it has none, one that an earlier row has, one that reads like "row 12"
    or like "x, part 2", or one that cannot be stored. Its number and id are no part of what identifies it (unless its
    text holds them), so that a row added above changes no other.

    Args:
        items: what a format reads.
        text_column: the field that holds the text.

    Raises:
        UnreadableFile: there are rows, and none of them has this field; told at the first row of a table.
    """
    lacking: list[int] = []
    names = ""
    is_there = text_column is None
    for item, part in _named(items):
        if not isinstance(item, Row):
            yield item
        elif text_column is not None and not is_there and _key(item, text_column) is None:
            names = names or _listed(item.fields)
            if item.is_of_table:
                raise _no_column(text_column, names)
            lacking.append(item.number)
        else:
            is_there = True
            yield from (BadRow(number, "has no text") for number in lacking)
            lacking = []
            text = _default_text(item) if text_column is None else _column_text(item, text_column)
            yield _content(item, part, text) if text else BadRow(item.number, "has no text")
    if lacking and text_column is not None:
        raise _no_column(text_column, names)


def read_candidates(items: Iterable[Content | Row | BadRow]) -> Iterator[tuple[str, Iterator[Candidate]] | BadRow]:
    """The name of each part, and what may have been read as its document, the default first."""
    for item, part in _named(items):
        if isinstance(item, BadRow):
            yield item
        elif isinstance(item, Row):
            yield part, _candidates(item, part)
        elif item.text.strip():
            yield part, iter(((None, item),))


def is_row_name(text: str) -> bool:
    """Whether a row of this id is called by it."""
    return 0 < len(text) <= _LONGEST_ID and storable(text) == text and not _TAKEN_NAME.fullmatch(text)


def _no_column(name: str, columns: str) -> UnreadableFile:
    return UnreadableFile(f"has no column named {name!r}; its columns are {columns}")


def _listed(fields: Iterable[str]) -> str:
    told = "".join(letter if letter.isprintable() else "?" for letter in ", ".join(fields))
    return told if len(told) <= _LONGEST_LIST else f"{told[:_LONGEST_LIST]}…"


def _named(items: Iterable[Content | Row | BadRow]) -> Iterator[tuple[Content | Row | BadRow, str]]:
    """Each with the name of its part. Names do not depend on which field holds the text: whoever reads a document once
    more does not know that."""
    taken: set[str] = set()
    for item in items:
        if isinstance(item, Row):
            name = _identifier(item.fields.get("id"))
            if name is None or name in taken:
                yield item, f"row {item.number}"
            else:
                taken.add(name)
                yield item, name
        else:
            yield item, item.part if isinstance(item, Content) else ""


def _candidates(row: Row, part: str) -> Iterator[Candidate]:
    default = _default_column(row)
    for column in (None, *(name for name in row.fields if name != default)):
        if text := _default_text(row) if column is None else _column_text(row, column):
            yield column, _content(row, part, text)


def _content(row: Row, part: str, text: str) -> Content:
    date = day_of(row.fields.get("date"))
    return Content(text, f"{date}\0{text}".encode(), date, part)  # a zero is in no text, so none can imitate this


def _default_text(row: Row) -> str:
    if row.joined:
        return storable(row.joined)
    column = _default_column(row)
    return "" if column is None else _column_text(row, column)


def _default_column(row: Row) -> str | None:
    return next((name for name in TEXT_FIELDS if _column_text(row, name)), None)


def _column_text(row: Row, name: str) -> str:
    """What a field holds, under the row's title; "" if that is no text."""
    key = _key(row, name)
    text = "" if key is None else _as_text(row.fields[key])
    return with_title(_as_text(row.fields.get("title")), text) if text else ""


def _key(row: Row, name: str) -> str | None:
    """The field of a name, whose capitals matter only where there is one that has them."""
    return next((key for key in (name, name.strip().lower()) if key in row.fields), None)


def _as_text(value: object) -> str:
    return storable(value).strip() if isinstance(value, str) else ""


def _identifier(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = str(value)
    return name if is_row_name(name) else None
