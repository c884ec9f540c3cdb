"""Which files a walk leaves out: patterns in the syntax of .gitignore, given or in files named `.mbcignore`."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_engine.documents.unreadable import UnreadableFile

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".mbcignore"
_MOST_BYTES = 1 << 20


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
            lines = os.fsdecode(file.read(_MOST_BYTES).removeprefix(b"\xef\xbb\xbf")).splitlines()
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
