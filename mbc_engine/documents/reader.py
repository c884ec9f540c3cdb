"""Finds the files a person names and reads each into a `Document`.

A format is one entry of `READERS`: a suffix and a function from bytes to `Content`.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from mbc_engine.documents.document import Document
from mbc_engine.errors import DataError


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not read, and why; the reason is worded to follow the name."""

    source: str
    reason: str


@dataclass(frozen=True)
class Found:
    """What a walk met: the files that can be read, in order and each once, and those left out."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class Content:
    """What a format gives: the text, and the date written in it (ISO 8601, a day) or None."""

    text: str
    date: str | None = None


class UnreadableFile(Exception):
    """Raised by a reader. Its message is the reason, worded to follow the file's name."""


def find_files(paths: Sequence[Path]) -> Found:
    """The readable files among `paths` and, for folders, below them, in sorted order.

    Hidden files and folders are left out unless named themselves. Symbolic links are followed; whatever is reached
    twice counts once. What cannot be entered or read is skipped with a reason.

    Raises:
        DataError: one of `paths` does not exist or cannot be looked at.
    """
    for path in paths:
        try:
            path.stat()
        except FileNotFoundError as error:
            raise DataError(f"{_shown(path)} does not exist.", hint="Check the path.") from error
        except OSError as error:
            raise DataError(f"{_shown(path)} {_reason(error)}.", hint="Check the path and its permissions.") from error

    files: list[Path] = []
    skipped: list[Skipped] = []
    seen: set[str] = set()
    # Real paths grow with the walk: resolving every path from the root again would cost most of it.
    waiting = [(path, os.path.realpath(path)) for path in reversed(paths)]
    while waiting:
        path, real = waiting.pop()
        if real in seen:
            continue
        seen.add(real)
        try:
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                names = sorted(name for name in os.listdir(path) if not name.startswith("."))
                for name in reversed(names):
                    child = path / name
                    is_link = os.path.islink(child)
                    waiting.append((child, os.path.realpath(child) if is_link else os.path.join(real, name)))
                continue
            _reader_of(path, mode)
            files.append(path)
        except (OSError, UnreadableFile) as error:
            skipped.append(Skipped(_shown(path), _reason(error)))
    return Found(tuple(files), tuple(skipped))


def read(path: Path) -> Document:
    """Read one file.

    Its source is the absolute path with links resolved; its date is the one written in it, else the day it was last
    modified (UTC).

    Raises:
        DataError: the file cannot be opened, is of an unknown kind, looks binary or is empty.
    """
    try:
        return _load(path)
    except (OSError, UnreadableFile) as error:
        raise DataError(
            f"{_shown(path)} {_reason(error)}.", hint=f"Files that can be read: {', '.join(sorted(READERS))}."
        ) from error


def read_files(paths: Iterable[Path]) -> Iterator[Document | Skipped]:
    """Read files one by one; one that cannot be read comes as `Skipped` in its place."""
    for path in paths:
        try:
            yield _load(path)
        except (OSError, UnreadableFile) as error:
            yield Skipped(_shown(path), _reason(error))


def _load(path: Path) -> Document:
    # The kind of file is looked at before it is opened: opening a pipe would wait for ever.
    status = path.stat()
    reader = _reader_of(path, status.st_mode)
    source = os.path.realpath(path)
    if source != _shown(source):
        raise UnreadableFile("has a name that is not UTF-8")
    data = path.read_bytes()
    content = reader(data)
    if not content.text.strip():
        raise UnreadableFile("is empty")
    return Document(
        source=source,
        text=content.text,
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        date=content.date or _day_of(status.st_mtime),
    )


def _reader_of(path: Path, mode: int) -> Callable[[bytes], Content]:
    if not stat.S_ISREG(mode):
        raise UnreadableFile("is not a regular file")
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise UnreadableFile(f"is a {suffix} file, which cannot be read yet" if suffix else "has no suffix")
    return READERS[suffix]


def _shown(path: Path | str) -> str:
    """The path as text that can always be printed and stored, whatever bytes the file system holds."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _reason(error: OSError | UnreadableFile) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    return str(error)


def _day_of(timestamp: float) -> str | None:
    try:
        return datetime.fromtimestamp(timestamp, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _plain_text(data: bytes) -> Content:
    return Content(_decode(data))


def _markdown(data: bytes) -> Content:
    """The text as it stands, without YAML front matter and HTML comments."""
    text = _decode(data)
    written = None
    if front_matter := _FRONT_MATTER.match(text):
        text = text[front_matter.end() :]
        written = _written_date(front_matter[1])
    return Content(_without_comments(text), written)


# A first line of dashes is front matter only if a key follows; otherwise it is a rule, and the text stays.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DATE = re.compile(r"^date[ \t]*:[ \t]*([^\n#]+)", re.MULTILINE)


def _written_date(front_matter: str) -> str | None:
    found = _DATE.search(front_matter)
    value = found[1].strip().strip("\"'") if found else ""
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date().isoformat()
    except (ValueError, OverflowError):
        pass
    try:  # "2024-05-01 10:30:00 +0200", as static site generators write it: the day is certain enough
        return date.fromisoformat(value[:10]).isoformat()
    except ValueError:
        return None


def _without_comments(text: str) -> str:
    # Not a regular expression: on many unclosed comments one would take quadratic time.
    kept: list[str] = []
    position = 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        kept.append(text[position:start])
        position = end + 3
    return "".join([*kept, text[position:]])


def _decode(data: bytes) -> str:
    """UTF-8 with or without a byte order mark; else Windows-1252, which almost every older Western file is."""
    if b"\0" in data:
        raise UnreadableFile("looks binary")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        try:
            text = data.decode("cp1252")
        except UnicodeDecodeError:
            text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


READERS: dict[str, Callable[[bytes], Content]] = {".txt": _plain_text, ".md": _markdown}
