"""What a document is: a text to remember, where it came from, when it was written, and why it cannot be read."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path


@dataclass(frozen=True)
class Document:
    """A text to remember.

    Attributes:
        source: the absolute path of a file, links resolved; "stdin:" and 12 hexadecimal digits for standard input.
        part: "" when the document is all of its source; else the id or number of a row, the number (from 1) of a piece
            of a long text, or `row 12, part 3` for a piece of a long row.
        text: the whole text, never blank, always valid UTF-8 without NUL.
        digest: SHA-256, hexadecimal, of the name of the format, a zero byte and the bytes it was read from, after
            decompression; of a piece, of what decides its text. Two documents with the same digest have the same text.
        size: how many bytes these were.
        date: the day it was written, ISO 8601: as it says itself, else the day its file was last modified (UTC);
            None when unknown.
        position: about how many bytes of the file on the disk go up to the document's end; 0 for standard input.
    """

    source: str
    part: str
    text: str
    digest: str
    size: int
    date: str | None = None
    position: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Skipped:
    """What was not read, and why.

    Attributes:
        source: a file or folder; for one row of a file, `path#row`.
        reason: worded to follow the name.
        is_whole: whether a file was read to its end nevertheless, and there is nothing in it.
    """

    source: str
    reason: str
    is_whole: bool = False


@dataclass(frozen=True)
class Content:
    """What a format reads of one document.

    Attributes:
        text: perhaps blank.
        data: the bytes that identify it: they, and nothing else, decide the text.
        date: the ISO day written in it.
        part: "" if it is all of the file.
        size: bytes it was read from, of a text that is cut into pieces where it is long; None of any other.
    """

    text: str
    data: bytes
    date: str | None = None
    part: str = ""
    size: int | None = None


@dataclass(frozen=True)
class Fields:
    """A row of named fields, any of which may hold its text.

    Attributes:
        number: in its file, from 1.
        joined: all fields as one text, where none of them has a name that promises one; else "".
        is_of_table: whether all rows of the file have these fields.
    """

    number: int
    fields: Mapping[str, object]
    joined: str = ""
    is_of_table: bool = False


def with_title(title: str, text: str) -> str:
    """The text under its title, unless it begins with it already."""
    title, text = title.strip(), text.strip()
    return text if text.startswith(title) else f"{title}\n\n{text}".strip()


# What separates two texts, the stronger the greater.
CELL, LINE, PARAGRAPH = 1, 2, 3
_WRITTEN = {CELL: "\t", LINE: "\n", PARAGRAPH: "\n\n"}


def lay_out(pieces: Iterable[str | int]) -> str:
    """Write texts one after the other, with breaks between them; of several breaks the strongest counts.

    White space within a text becomes a single space.
    """
    written: list[str] = []
    pending = 0
    has_space = False
    for piece in pieces:
        if isinstance(piece, int):
            pending = max(piece, pending)
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
        pending = 0
        has_space = piece[-1].isspace()
    return "".join(written)


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# "Thu, 26 Feb 1987 15:01:01 +0000" as in mail, "26-FEB-1987 15:01:01.79" as in old databases, "26 February 1987".
_IN_WORDS = re.compile(r"(?:[A-Za-z]{3,9},?\s+)?(\d{1,2})[\s-]([A-Za-z]{3})[a-z]{0,6}[\s-](\d{4})\b")
# Longer than any date, and short enough for whatever looks at it.
_LONGEST = 100


def day_of(written: object) -> str | None:
    """The ISO day of a date as people and programs write it: ISO 8601, or day, month in English, year.

    An ISO time with an offset is taken to UTC; of others the day is certain enough. Whatever follows the day may be
    anything. None if `written` is no such text.
    """
    if not isinstance(written, str):
        return None
    value = written.strip()[:_LONGEST]
    for parse in (_iso_moment, _iso_day, _day_in_words):
        with suppress(ValueError, OverflowError):
            return parse(value).isoformat()
    return None


def day_of_moment(moment: datetime | None) -> str | None:
    """The day of a moment in UTC."""
    try:
        return _utc_day(moment).isoformat() if moment else None
    except OverflowError:
        return None


def day_of_timestamp(seconds: float) -> str | None:
    """The day of a file system's time stamp in UTC, or None if it is beyond what can be written."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _utc_day(moment: datetime) -> date:
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()


def _iso_moment(value: str) -> date:
    return _utc_day(datetime.fromisoformat(value))


def _iso_day(value: str) -> date:
    """The 2024-05-01 of "2024-05-01 10:30:00 +0200", as site generators write it, and of "2024/05/01"."""
    return date.fromisoformat(value[:10].replace("/", "-"))


def _day_in_words(value: str) -> date:
    found = _IN_WORDS.match(value)
    if found is None:
        raise ValueError(value)
    return date(int(found[3]), _MONTHS.index(found[2].lower()) + 1, int(found[1]))


class UnreadableFile(Exception):
    """Raised while a file is read. Its message is the reason, worded to follow the file's name."""


class EmptyFile(UnreadableFile):
    """The file was read to its end, and there is no text in it."""

    def __init__(self) -> None:
        super().__init__("is empty")


def reason(error: OSError | UnreadableFile) -> str:
    """The reason, worded to follow the file's name."""
    if isinstance(error, OSError):
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    return str(error)


def printable_path(path: Path | str) -> str:
    """The path as text that can always be printed and stored, whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextmanager
def damage_is_unreadable() -> Iterator[None]:
    """Turns whatever a parser of others raises over a damaged file into `UnreadableFile`.

    Such parsers raise nearly everything (KeyError, AttributeError, RecursionError...), no list of which would hold
    for their next version, and one bad file must not end the reading of a thousand good ones.
    """
    try:
        yield
    except (OSError, UnreadableFile):
        raise
    except Exception as error:
        raise UnreadableFile(f"is damaged: {described(error)}") from error


def described(error: Exception) -> str:
    """One line about an error of a library, short and printable."""
    line = " ".join(str(error).split())[:120] or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in line)
