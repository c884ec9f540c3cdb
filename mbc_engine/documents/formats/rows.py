"""Rows of named fields, as JSON Lines and CSV hold them: each is a document of its own.

Fields: `text` (or `content`, or `body`), and if there are such `title`, `date` and `id`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mbc_engine.documents.dates import day_of
from mbc_engine.documents.encoding import storable
from mbc_engine.documents.formats.content import BadRow, Content, with_title

TEXT_FIELDS = ("text", "content", "body")
_LONGEST_ID = 200
# How rows without a usable id are called, and pieces of long rows.
_TAKEN_NAME = re.compile(r"row \d+|.*, part \d+", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """A row's number in its file, from 1, and its fields."""

    number: int
    fields: Mapping[str, object]


def read_rows(rows: Iterable[Row | BadRow]) -> Iterator[Content | BadRow]:
    """Turn rows into documents.

    A row is called by its id, or "row 12" if it has none, one that an earlier row has, one that reads like "row 12"
    or like "x, part 2", or one that cannot be stored. Its number and id are no part of what identifies it, so that a row added above
    changes no other.
    """
    taken: set[str] = set()
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        texts = (_as_text(row.fields.get(name)) for name in TEXT_FIELDS)
        text = next((text for text in texts if text), None)
        if text is None:
            yield BadRow(row.number, "has no text")
            continue
        text = with_title(_as_text(row.fields.get("title")), text)
        date = day_of(row.fields.get("date"))
        part = _identifier(row.fields.get("id"))
        if part is None or part in taken:
            part = f"row {row.number}"
        else:
            taken.add(part)
        yield Content(text, f"{date}\0{text}".encode(), date, part)  # a zero is in no text, so none can imitate this


def is_row_name(text: str) -> bool:
    """Whether a row of this id is called by it."""
    return 0 < len(text) <= _LONGEST_ID and storable(text) == text and not _TAKEN_NAME.fullmatch(text)


def _as_text(value: object) -> str:
    return storable(value).strip() if isinstance(value, str) else ""


def _identifier(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    name = str(value)
    return name if is_row_name(name) else None
