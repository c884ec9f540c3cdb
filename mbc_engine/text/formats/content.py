"""What a format gives: the documents of a file as texts with the bytes each stands for.

Texts and the breaks between them, as HTML and Word give them, become paragraphs, lines and cells.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from mbc_engine.text.decoding import ByteStream


@dataclass(frozen=True)
class Content:
    """One document of a file.

    Attributes:
        text: its text, perhaps blank.
        data: the bytes that identify it: they, and nothing else, decide the text.
        date: the date written in it, an ISO day, or None.
        part: "" if it is all of the file.
        size: bytes it was read from, of a text that is cut into pieces where it is long; None of any other.
    """

    text: str
    data: bytes
    date: str | None = None
    part: str = ""
    size: int | None = None


@dataclass(frozen=True)
class BadRow:
    """A row that is no document: its number from 1, and why, worded to follow its name."""

    number: int
    reason: str


@dataclass(frozen=True)
class Row:
    """A row of named fields, any of which may hold its text.

    Attributes:
        number: in its file, from 1.
        fields: by name.
        joined: all fields as one text, where none of them has a name that promises one; else "".
        is_of_table: whether all rows of the file have these fields.
    """

    number: int
    fields: Mapping[str, object]
    joined: str = ""
    is_of_table: bool = False


Read = Callable[[ByteStream], Iterator[Content | Row | BadRow]]
"""Reads the documents of a file, lazily.

Raises:
    UnreadableFile: the file, or from some place on the rest of it, cannot be read.
"""


def with_title(title: str, text: str) -> str:
    """The text under its title, unless it begins with it already."""
    title, text = title.strip(), text.strip()
    return text if text.startswith(title) else f"{title}\n\n{text}".strip()


class Break(IntEnum):
    """What separates two texts, the stronger the greater."""

    CELL = 1
    LINE = 2
    PARAGRAPH = 3


_WRITTEN = {Break.CELL: "\t", Break.LINE: "\n", Break.PARAGRAPH: "\n\n"}


def lay_out(pieces: Iterable[str | Break]) -> str:
    """Write the texts one after the other; of several breaks between two texts the strongest counts.

    White space within a text becomes a single space.
    """
    written: list[str] = []
    pending: Break | None = None
    has_space = False
    for piece in pieces:
        if isinstance(piece, Break):
            pending = max(piece, pending or piece)
            continue
        words = piece.split()
        if not words:
            has_space = has_space or bool(piece)
            continue
        if written and pending:
            written.append(_WRITTEN[pending])
        elif written and (has_space or piece[0].isspace()):
            written.append(" ")
        written.append(" ".join(words))
        pending = None
        has_space = piece[-1].isspace()
    return "".join(written)
