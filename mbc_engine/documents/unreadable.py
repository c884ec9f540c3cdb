"""Why something cannot be read and what it is called, in words that can always be printed and stored."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UnreadableFile(Exception):
    """Raised while a file is read. Its message is the reason, worded to follow the file's name."""


class EmptyFile(UnreadableFile):
    """The file was read to its end, and there is no text in it."""

    def __init__(self) -> None:
        super().__init__("is empty")


def reason(error: OSError | UnreadableFile) -> str:
    """What to tell after the file's name."""
    if isinstance(error, OSError):
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    return str(error)


def shown(path: Path | str) -> str:
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
