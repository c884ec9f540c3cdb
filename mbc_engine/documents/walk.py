"""Finds the files a person means: the named ones, and what can be read below named folders."""

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mbc_engine.documents.document import Skipped
from mbc_engine.documents.formats import kind_of
from mbc_engine.documents.ignore import IGNORE_FILE, Ignore, is_ignored
from mbc_engine.documents.unreadable import UnreadableFile, reason, shown
from mbc_engine.errors import DataError


@dataclass(frozen=True)
class Found:
    """What a walk met: the files that can be read, in order and each once, and those left out."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _Place:
    """A file or folder that the walk has yet to look at.

    Attributes:
        path: as it was reached.
        real: with links resolved. It grows with the walk: resolving every path from the root would cost most of it.
        given: the patterns of whoever asked for the walk.
        written: those of the ignore files in the folders above, the inner ones first.
    """

    path: str
    real: str
    given: tuple[Ignore, ...]
    written: tuple[Ignore, ...]


def find_files(paths: Sequence[Path], ignore: Sequence[str] = (), *, stop: threading.Event | None = None) -> Found:
    """The readable files among `paths` and, for folders, below them, in sorted order.

    Hidden files and folders and what is to be ignored are left out unless named themselves. Symbolic links are
    followed; whatever is reached twice counts once. What cannot be entered or read is skipped with a reason.

    Args:
        paths: files and folders.
        ignore: patterns in the syntax of .gitignore, relative to each named folder. A folder may hold more of them in
            a file `.mbcignore`, for what is below it; these count where `ignore` says nothing, and those of outer
            folders where the inner ones say nothing.
        stop: once it is set, the walk ends with what it has met.

    Raises:
        DataError: one of `paths` does not exist or cannot be looked at, or one of `ignore` is no pattern.
    """
    require_paths(paths)
    met = list(_walk(paths, ignore, stop))
    return Found(
        tuple(item for item in met if isinstance(item, Path)), tuple(item for item in met if isinstance(item, Skipped))
    )


def is_empty(paths: Sequence[Path], ignore: Sequence[str] = ()) -> bool:
    """Whether `find_files` would give nothing at all, not even a file that is left out with a reason.

    Raises:
        DataError: as `find_files`.
    """
    require_paths(paths)
    return next(_walk(paths, ignore), None) is None


def _walk(
    paths: Sequence[Path], ignore: Sequence[str], stop: threading.Event | None = None
) -> Iterator[Path | Skipped]:
    waiting = [_named(path, ignore) for path in reversed(paths)]
    seen: set[str] = set()
    while waiting and not (stop is not None and stop.is_set()):
        place = waiting.pop()
        if place.real in seen:
            continue
        seen.add(place.real)
        try:
            mode = os.stat(place.path).st_mode
            if stat.S_ISDIR(mode):
                written, trouble = _written(place)
                yield from trouble
                waiting += reversed(_children(place, written))
                continue
            if not stat.S_ISREG(mode):
                raise UnreadableFile("is not a regular file")
            kind_of(place.path)
            yield Path(place.path)
        except (OSError, UnreadableFile) as error:
            yield Skipped(shown(place.path), reason(error))


def require_paths(paths: Sequence[Path], ignore: Sequence[str] = ()) -> None:
    """Make sure, without a walk, that named files and folders are there and that patterns are such.

    Raises:
        DataError: as `find_files`.
    """
    for path in paths:
        _require(path)
        _named(path, ignore)


def _require(path: Path) -> None:
    try:
        path.stat()
    except FileNotFoundError as error:
        raise DataError(f"{shown(path)} does not exist.", hint="Check the path.") from error
    except OSError as error:
        raise DataError(f"{shown(path)} {reason(error)}.", hint="Check the path and its permissions.") from error


def _named(path: Path, ignore: Sequence[str]) -> _Place:
    try:
        given = (Ignore.parse(os.fspath(path), ignore),) if ignore else ()
    except ValueError as error:
        raise DataError(f"{error}.", hint="Write patterns as in .gitignore.") from error
    return _Place(os.fspath(path), os.path.realpath(path), given, ())


def _written(folder: _Place) -> tuple[tuple[Ignore, ...], list[Skipped]]:
    """The ignore files that count in a folder, and its own if it cannot be used."""
    try:
        own = Ignore.read(folder.path)
    except (OSError, UnreadableFile) as error:
        return folder.written, [Skipped(shown(os.path.join(folder.path, IGNORE_FILE)), reason(error))]
    return (own, *folder.written) if own else folder.written, []


def _children(folder: _Place, written: tuple[Ignore, ...]) -> list[_Place]:
    """What is in a folder, sorted, without what is hidden or ignored."""
    ignores = (*folder.given, *written)
    children: list[_Place] = []
    with os.scandir(folder.path) as entries:
        for entry in sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda it: it.name):
            if ignores and is_ignored(
                entry.path, os.path.isdir(entry) if entry.is_symlink() else entry.is_dir(), ignores
            ):
                continue
            real = os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(folder.real, entry.name)
            children.append(_Place(entry.path, real, folder.given, written))
    return children
