"""Which files a walk leaves out: patterns in the syntax of .gitignore, given or in files named `.mbcignore`."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_engine.documents.unreadable import UnreadableFile, reason, shown
from mbc_engine.errors import DataError
from mbc_engine.whole_file import whole_file

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".mbcignore"
_MOST_BYTES = 1 << 20
# What a pattern cannot hold, or would mean otherwise there: line ends, and blanks at its end.
_UNWRITABLE = re.compile(r"[\n\r]|\s(?=\s*$)")


@dataclass(frozen=True)
class Ignore:
    """The patterns of one folder, for everything below it."""

    folder: str
    patterns: "GitIgnoreSpec"

    @classmethod
    def parse(cls, folder: str, patterns: Iterable[str]) -> "Ignore":
        """Patterns for a folder.

        Raises:
            ValueError: one of them is none.
        """
        from pathspec import GitIgnoreSpec

        try:
            return cls(os.path.join(folder, ""), GitIgnoreSpec.from_lines(patterns))
        except re.error as error:  # of a range such as [z-a]
            raise ValueError(f"A pattern cannot be used: {error}") from error

    @classmethod
    def read(cls, folder: str) -> "Ignore | None":
        """The patterns in a folder's `.mbcignore`, or None if it has none.

        Raises:
            OSError: it cannot be read.
            UnreadableFile: it holds something else.
        """
        path = Path(folder, IGNORE_FILE)
        if not path.is_file():
            return None
        with path.open("rb") as file:
            lines = re.split("\r?\n", os.fsdecode(file.read(_MOST_BYTES).removeprefix(b"\xef\xbb\xbf")))
        try:
            return cls.parse(folder, lines)
        except ValueError as error:
            raise UnreadableFile(f"cannot be used: {error}") from error

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True if a path below the folder is to be left out, False if it is to be kept, None if nothing is said."""
        return self.patterns.check_file(path[len(self.folder) :] + "/" * is_folder).include


def is_ignored(path: str, is_folder: bool, ignores: Sequence[Ignore]) -> bool:
    """Whether a path is left out by the first of `ignores`, the strongest first, that says something about it."""
    verdicts = (ignore.verdict(path, is_folder) for ignore in ignores)
    return next((verdict for verdict in verdicts if verdict is not None), False)


@dataclass(frozen=True)
class Rule:
    """A rule that leaves a file out of every walk.

    Attributes:
        path: the file that it is for.
        ignore_file: the `.mbcignore` that holds it.
        pattern: how it is written; None if other rules of that file leave the file out already.
    """

    path: Path
    ignore_file: Path
    pattern: str | None


def ignore_path(path: Path) -> Rule:
    """See to it that walks leave a file out, by a rule in the `.mbcignore` of its folder.

    Args:
        path: the file, absolute. A file that is named to an ingest is read nevertheless.

    Raises:
        DataError: the `.mbcignore` cannot be read, used or written.
    """
    file = Path(os.path.realpath(path.parent / IGNORE_FILE))
    try:
        ignore = Ignore.read(os.fspath(path.parent))
        if ignore and ignore.verdict(os.fspath(path), is_folder=False):
            return Rule(path, path.parent / IGNORE_FILE, None)
        before = file.read_bytes() if file.exists() else b""
        pattern = "/" + _UNWRITABLE.sub("?", re.sub(r"([\\*?\[])", r"\\\1", path.name))
        after = before + b"\n" * (before[-1:] not in (b"", b"\n")) + os.fsencode(pattern) + b"\n"
        if len(after) > _MOST_BYTES:
            raise UnreadableFile("is too large")
        with whole_file(file) as written:
            written.write(after)
    except (OSError, UnreadableFile) as error:
        raise DataError(
            f"{shown(path.parent / IGNORE_FILE)} {reason(error).replace('be read', 'be changed')}.",
            hint=f"{shown(path)} can be left out with `mbc ingest --ignore` instead.",
        ) from error
    return Rule(path, path.parent / IGNORE_FILE, pattern)
