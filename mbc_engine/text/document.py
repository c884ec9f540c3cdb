"""Documents: their text, where it came from, when it was written, and why one could not be read."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from mbc_engine.text.tables import distinct


class Section(NamedTuple):
    """A part of a text, up to the next one, and what its chunks must know beside their own text."""

    start: int  # the index of its first character
    context: str  # its headings, outermost first, as "Budget > Orion", or the header of its table


class Place(NamedTuple):
    """Where in its file a part of a text stands, up to the next one; 0 for what does not apply."""

    start: int  # the index of its first character
    page: int = 0  # from 1
    line: int = 0  # of the first line, from 1; the others follow


@dataclass(frozen=True)
class Document:
    """A text to remember. Documents with the same digest have the same text."""

    source: str  # the absolute path of a file, links resolved; "stdin:" and 12 hexadecimal digits for standard input
    # "" for all of the source; else the id or number of a row, the number (from 1) of a piece of a long text, or
    # `row 12, part 3` for a piece of a long row.
    part: str
    text: str  # never blank, valid UTF-8 without NUL
    # Hexadecimal SHA-256 of the format's identity, a zero byte and the decompressed bytes it was read from; for a piece, of
    # what determines its text.
    digest: str
    size: int  # the number of these bytes
    date: str | None = None  # ISO day it was written by its text or file name, else the file was last modified (UTC)
    title: str = ""  # as the document states it, "" if it does not
    sections: tuple[Section, ...] = ()  # in order; a text before the first has no context
    losses: tuple[str, ...] = ()  # what could not be kept, worded as "3 pictures"
    places: tuple[Place, ...] = ()  # in order, where a format knows them
    position: int = field(default=0, compare=False)  # approximate offset of its end in the file on disk


@dataclass(frozen=True)
class Skipped:
    """What was not read, and why."""

    source: str  # a file or folder, or `path#row`
    reason: str  # worded to follow the name
    is_empty_file: bool = False  # whether the file was read to its end and is empty


@dataclass(frozen=True)
class Content:
    """One document as read by a format."""

    text: str  # may be blank
    data: bytes  # identifies it, and alone determines the text
    date: str | None = None  # the ISO day written in it
    part: str = ""
    size: int | None = None  # bytes it was read from, if the format itself cuts long texts into pieces
    title: str = ""
    sections: tuple[Section, ...] = ()  # of `text`, in order
    losses: tuple[str, ...] = ()  # what could not be kept, worded as "3 pictures"
    places: tuple[Place, ...] = ()  # of `text`, in order


def with_title(title: str, text: str) -> str:
    """The text preceded by its title, unless it already begins with it."""
    title, text = title.strip(), text.strip()
    return text if text.startswith(title) else f"{title}\n\n{text}".strip()


def counted(losses: Mapping[str, int]) -> tuple[str, ...]:
    """What could not be kept, from counts by its name in the singular, as "3 pictures"."""
    return tuple(f"{count} {name}{'s' * (count > 1)}" for name, count in losses.items() if count)


def number_in(written: str | None, otherwise: int) -> int:
    """The number that an attribute is, unless it is none, or too large to be meant."""
    return int(written) if written and written.isdecimal() and len(written) < 8 else otherwise


def tidy(text: str) -> str:
    """The text with single spaces for white space within its lines."""
    return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()


class Heading(NamedTuple):
    """Where in a text a heading stands, and its level, 1 being the highest."""

    start: int
    level: int
    text: str  # "" if what follows only ends the headings of this level


def sections_of(headings: Iterable[Heading]) -> tuple[Section, ...]:
    """A section from each heading on, with those that it stands below."""
    above: list[Heading] = []
    sections: list[Section] = []
    for heading in headings:
        above = [outer for outer in above if outer.level < heading.level] + [heading] * bool(heading.text)
        sections.append(Section(heading.start, " > ".join(outer.text for outer in above)))
    return tuple(sections)


class TextBuilder:
    """Puts a text together from paragraphs, and keeps the headings that each stands below."""

    def __init__(self, gap: str = "\n\n") -> None:
        self._gap = gap  # between paragraphs
        self._written: list[str] = []
        self._length = 0
        self._headings: list[tuple[int, str]] = []
        self._context = ""  # of the next paragraph
        self._sections: list[Section] = []

    def add(self, text: str, gap: str | None = None) -> None:
        """A paragraph, or with the gap "\\n" a line; nothing if it is blank."""
        if text := text.strip():
            before = (self._gap if gap is None else gap) if self._written else ""
            start = self._length + len(before)
            if self._context != (self._sections[-1].context if self._sections else ""):
                self._sections.append(Section(start, self._context))
            self._written += (before, text)
            self._length = start + len(text)

    def add_lines(self, lines: Iterable[str], gap: str | None = None) -> None:
        """Lines that belong together, as those of a table."""
        self.add("\n".join(line.strip() for line in lines if line.strip()), gap)

    def add_note(self, kind: str, author: str, text: str, gap: str = "\n") -> None:
        """What is said of the text before it, such as a comment; nothing if it is blank."""
        if text := text.strip():
            self.add(f"{kind} by {author}: {text}" if author else f"{kind}: {text}", gap)

    def heading(self, level: int, text: str, *, is_shown: bool = True) -> None:
        """A heading, 1 being the highest, which is also the context of what follows; "" ends those of its level."""
        self._headings = [(outer, above) for outer, above in self._headings if outer < level]
        if text := " ".join(text.split()):
            self._headings.append((level, text))
        self.begin()
        if is_shown:
            self.add(text)

    def begin(self, *more: str) -> None:
        """Begin a section below the present headings, and below `more` for itself alone."""
        self._context = " > ".join(distinct((*(text for _, text in self._headings), *more)))

    def include(self, text: str, sections: Iterable[Section]) -> None:
        """A text with sections of its own, below the present headings."""
        self.begin()
        self.add(text)
        start = self._length - len(text.rstrip())
        above = [heading for _, heading in self._headings]
        for section in sections:
            self._context = " > ".join(distinct((*above, section.context)))
            self._sections.append(Section(max(start + section.start, 0), self._context))

    def content(
        self,
        data: bytes,
        date: str | None = None,
        part: str = "",
        title: str = "",
        losses: Mapping[str, int] | None = None,
    ) -> Content:
        """The text with its sections, as a document that is identified by `data`."""
        about = title, tuple(self._sections), counted(losses or {})
        return Content(self.text(), data, date, part, None, *about)

    def text(self) -> str:
        return "".join(self._written)


MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_MONTHS = [name[:3].lower() for name in MONTH_NAMES]
_DATES = (
    # "Thu, 26 Feb 1987 15:01:01 +0000" as in mail, "26-FEB-1987 15:01:01.79" as in old databases, "26 February 1987".
    re.compile(r"(?:[A-Za-z]{3,9},?\s+)?(?P<day>\d{1,2})[\s-](?P<month>[A-Za-z]{3})[a-z]{0,6}[\s-](?P<year>\d{4})\b"),
    # "Thu Feb 26 15:01:01 +0000 1987", as Unix writes it.
    re.compile(
        r"[A-Z][a-z]{2}\s+(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s[\d:]{8}(?:\s\S{3,5})?\s(?P<year>\d{4})\b"
    ),
    # "January 4, 2020", also after the day of the week.
    re.compile(
        r"(?:[A-Za-z]{3,9},\s+)?(?P<month>[A-Za-z]{3})[a-z]{0,6}\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>\d{4})\b"
    ),
)
# Longer than any date, and short enough for every parser.
_LONGEST = 100


def day_of(written: object) -> str | None:
    """The ISO day of a date as people and programs write it: ISO 8601, or day, month in English, year.

    A time with an offset is converted to UTC. Anything may follow the day. None if `written` is not a date.
    """
    if not isinstance(written, str):
        return None
    value = written.strip()[:_LONGEST]
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date().isoformat()
    with suppress(ValueError):  # "2024-05-01 10:30:00 +0200", as site generators write it, and "2024/05/01"
        return date.fromisoformat(value[:10].replace("/", "-")).isoformat()
    for form in _DATES:
        with suppress(ValueError):
            if match := form.match(value):
                month = _MONTHS.index(match["month"].lower()) + 1
                return date(int(match["year"]), month, int(match["day"])).isoformat()
    return None


_BETWEEN = r"[-_. ]?"
# A month, or its abbreviation.
MONTH_WORDS = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in MONTH_NAMES).replace("(?:tember)?", "(?:t(?:ember)?)?")
_APART = "[-_., ]{0,2}"
_DAY_IN_NAME = rf"(?<![^\W_])(?P<day>\d\d?)(?:st|nd|rd|th)?{_APART}"
# "2024-03-12", "20240312", "12.03.2024", "12 March 2024", "12mar24", "March 12 2024", "2024-03" and "March 2024", not
# within longer numbers or words.
_DATES_IN_NAMES = (
    re.compile(rf"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<by>{_BETWEEN})(?P<month>\d\d)(?P=by)(?P<day>\d\d)(?!\d)"),
    re.compile(r"(?<![\d.])(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>(?:19|20)\d\d)(?!\d)"),
    re.compile(
        rf"{_DAY_IN_NAME}(?P<month>{MONTH_WORDS}){_APART}(?P<year>(?:19|20)\d\d(?!\d)|\d\d(?![^\W_]|[-.:]\d))",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(
        rf"(?<![^\W_])(?P<month>{MONTH_WORDS}){_APART}{_DAY_IN_NAME}(?P<year>(?:19|20)\d\d)(?!\d)",
        re.IGNORECASE | re.ASCII,
    ),
    re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)[-_.](?P<month>0[1-9]|1[0-2])(?![-_.]?\d)"),
    re.compile(rf"(?<![^\W_])(?P<month>{MONTH_WORDS}){_APART}(?P<year>(?:19|20)\d\d)(?!\d)", re.IGNORECASE | re.ASCII),
)


def date_in_name(name: str) -> tuple[str, tuple[int, int]] | None:
    """The date in the name of a file, as YYYY-MM-DD or YYYY-MM, and where it stands; None if there is none."""
    for pattern in _DATES_IN_NAMES:
        for match in pattern.finditer(name):
            numbers = match.groupdict()
            year, month, day = int(numbers["year"]), numbers["month"].lower(), int(numbers.get("day") or 1)
            year += 2000 if year < 100 else 0
            month = int(month) if month.isdigit() else 1 + _MONTHS.index(month[:3])
            with suppress(ValueError):
                written = date(year, month, day).isoformat()
                return written if "day" in numbers else written[:7], match.span()
    return None


def day_in_name(name: str) -> str | None:
    """The ISO day in the name of a file, the first of a month that stands alone; None if there is none."""
    dated = date_in_name(name)
    return dated and f"{dated[0]}-01"[:10]


def day_of_timestamp(seconds: float) -> str | None:
    """The UTC day of a file timestamp; None if it is out of range."""
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    return None


class UnreadableFile(Exception):
    """The message is the reason, worded to follow the file's name."""


class EmptyFile(UnreadableFile):
    """The file was read to its end and holds no text."""

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
    """Turn whatever a library's parser raises on a damaged file, which is nearly everything, into `UnreadableFile`."""
    try:
        yield
    except (OSError, UnreadableFile):
        raise
    except Exception as error:
        raise UnreadableFile(f"is damaged: {described(error)}") from error


def described(error: Exception) -> str:
    """A library's error as one short, printable line."""
    return printable(" ".join(str(error).split())[:120] or type(error).__name__)


def printable(text: str) -> str:
    """The text with "?" for characters that cannot be shown."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
