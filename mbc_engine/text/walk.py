"""Finds the files to read: the named ones and the readable ones in named folders, except ignored ones."""

import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import DataError
from mbc_engine.text.document import Skipped, UnreadableFile, printable_path, reason
from mbc_engine.text.formats.sniff import identify, is_known

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


IGNORE_FILE = ".mbcignore"
_MOST_BYTES = 1 << 20
# What a pattern cannot express: line ends and trailing blanks.
_UNWRITABLE = re.compile(r"[\n\r]|\s(?=\s*$)")

# A folder, with a separator at the end, and the patterns for everything below it.
Ignore = tuple[str, "GitIgnoreSpec"]


def _parse_ignore(folder: str, patterns: Iterable[str]) -> Ignore:
    from pathspec import GitIgnoreSpec

    try:
        return os.path.join(folder, ""), GitIgnoreSpec.from_lines(patterns)
    except (ValueError, re.error) as error:  # re.error from a range such as [z-a]
        raise UnreadableFile(f"cannot be used: {error}") from error


def _read_ignore(folder: str) -> Ignore | None:
    path = Path(folder, IGNORE_FILE)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        written = os.fsdecode(file.read(_MOST_BYTES).removeprefix(b"\xef\xbb\xbf"))
    return _parse_ignore(folder, re.split("\r?\n", written))


def _is_ignored(path: str, is_folder: bool, ignores: Iterable[Ignore]) -> bool:
    for folder, patterns in ignores:
        verdict = patterns.check_file(path[len(folder) :] + "/" * is_folder).include
        if verdict is not None:
            return verdict
    return False


def ignore_path(path: Path) -> tuple[Path, str | None]:
    """Make walks ignore a file, by a rule in the `.mbcignore` of its folder.

    Returns the `.mbcignore` and the pattern that was added to it, None if it already ignores the file. Raises DataError
    if the `.mbcignore` cannot be read, used or written.
    """
    named = path.parent / IGNORE_FILE
    file = Path(os.path.realpath(named))
    try:
        ignore = _read_ignore(os.fspath(path.parent))
        if ignore and _is_ignored(os.fspath(path), is_folder=False, ignores=[ignore]):
            return named, None
        before = file.read_bytes() if file.exists() else b""
        pattern = "/" + _UNWRITABLE.sub("?", re.sub(r"([\\*?\[])", r"\\\1", path.name))
        after = before + b"\n" * (before[-1:] not in (b"", b"\n")) + os.fsencode(pattern) + b"\n"
        if len(after) > _MOST_BYTES:
            raise UnreadableFile("is too large")
        with atomic_write(file) as written:
            written.write(after)
    except (OSError, UnreadableFile) as error:
        raise DataError(
            f"{printable_path(named)} {reason(error).replace('be read', 'be changed')}.",
            hint=f"Leave {printable_path(path)} out with `mbc ingest --ignore` instead.",
        ) from error
    return named, pattern


@dataclass(frozen=True)
class WalkResult:
    """The result of a walk: the files that can be read, in order and each once, and those left out."""

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True)
class _Unvisited:
    path: str  # as it was reached
    real: str  # with links resolved, one by one: resolving every path from the root would take most of a walk's time
    given: tuple[Ignore, ...]  # the caller's patterns
    written: tuple[Ignore, ...] = ()  # those of the ignore files in the folders above, the inner ones first


def find_files(paths: Sequence[Path], ignore: Sequence[str] = (), *, stop: threading.Event | None = None) -> WalkResult:
    """The readable files among `paths` and, for folders, below them, in sorted order.

    Hidden and ignored files and folders are left out unless named themselves. Symbolic links are followed; whatever is
    reached twice counts once. What cannot be entered or read is skipped with a reason. Setting `stop` ends the walk
    with what has been found.

    Patterns are in the syntax of .gitignore, relative to each named folder; those in a folder's `.mbcignore` apply to
    what `ignore` does not match, and those of outer folders to what the inner ones do not match. Raises DataError if
    one of `paths` does not exist or cannot be accessed, or a pattern is invalid.
    """
    require_paths(paths)
    met = list(_walk(paths, ignore, stop))
    files = tuple(item for item in met if isinstance(item, Path))
    return WalkResult(files, tuple(item for item in met if isinstance(item, Skipped)))


def is_empty(paths: Sequence[Path], ignore: Sequence[str] = ()) -> bool:
    """Whether `find_files` would find nothing at all, not even a file that is left out with a reason."""
    require_paths(paths)
    return next(_walk(paths, ignore), None) is None


def require_paths(paths: Sequence[Path], ignore: Sequence[str] = ()) -> None:
    """Raises DataError, without a walk, if a named file or folder does not exist, or a pattern is invalid."""
    for path in paths:
        try:
            path.stat()
        except FileNotFoundError as error:
            raise DataError(f"{printable_path(path)} does not exist.", hint="Check the path.") from error
        except OSError as error:
            message = f"{printable_path(path)} {reason(error)}."
            raise DataError(message, hint="Check the path and its permissions.") from error
        _named(path, ignore)


def _named(path: Path, ignore: Sequence[str]) -> _Unvisited:
    try:
        given = (_parse_ignore(os.fspath(path), ignore),) if ignore else ()
    except UnreadableFile as error:
        raise DataError(f"The patterns to ignore {error}.", hint="Write patterns as in .gitignore.") from error
    return _Unvisited(os.fspath(path), os.path.realpath(path), given)


def _walk(
    paths: Sequence[Path], ignore: Sequence[str], stop: threading.Event | None = None
) -> Iterator[Path | Skipped]:
    waiting = [_named(path, ignore) for path in reversed(paths)]
    seen: set[str] = set()
    while waiting and not (stop is not None and stop.is_set()):
        current = waiting.pop()
        if current.real in seen:
            continue
        seen.add(current.real)
        try:
            mode = os.stat(current.path).st_mode
            if stat.S_ISDIR(mode):
                written = current.written
                try:
                    inner = _read_ignore(current.path)
                    written = (inner, *written) if inner else written
                except (OSError, UnreadableFile) as error:
                    yield Skipped(printable_path(os.path.join(current.path, IGNORE_FILE)), reason(error))
                waiting += reversed(_children(current, written))
                continue
            if not stat.S_ISREG(mode):
                raise UnreadableFile("is not a regular file")
            path = Path(current.path)
            if not is_known(path.name):  # only then, as opening every file would take most of a walk's time
                identify(path)
            yield path
        except (OSError, UnreadableFile) as error:
            yield Skipped(printable_path(current.path), reason(error))


def _children(folder: _Unvisited, written: tuple[Ignore, ...]) -> list[_Unvisited]:
    ignores = (*folder.given, *written)
    children: list[_Unvisited] = []
    with os.scandir(folder.path) as entries:
        for entry in sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda it: it.name):
            is_link = entry.is_symlink()
            is_folder = os.path.isdir(entry) if is_link else entry.is_dir()
            if ignores and _is_ignored(entry.path, is_folder, ignores):
                continue
            real = os.path.realpath(entry.path) if is_link else os.path.join(folder.real, entry.name)
            children.append(_Unvisited(entry.path, real, folder.given, written))
    return children
