"""Finds the files to read: the named ones and the readable ones in named folders, except ignored ones."""

import os
import re
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from unicodedata import normalize

from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import DataError
from mbc_engine.text.decoding import open_file, require_at
from mbc_engine.text.document import EmptyFile, Skipped, UnreadableFile, printable_path, reason
from mbc_engine.text.formats.sniff import identify, is_known

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


IGNORE_FILES = IGNORE_FILE, GIT_IGNORE_FILE = (".mbcignore", ".gitignore")
HIDDEN = "hidden"
_GIT_EXCLUDES = ".git/info/exclude"
_MOST_BYTES = 1 << 20

# What nobody wrote, by the name of a folder, or of a file in it, or by a file's own name.
_PROGRAMS, _CACHE, _SYSTEM = "installed software", "a cache", "files of the operating system"
_FOLDERS = {
    **dict.fromkeys(("node_modules", "bower_components", "site-packages", "venv", "virtualenv"), _PROGRAMS),
    **dict.fromkeys(("__pycache__", "__pypackages__"), _CACHE),
    **dict.fromkeys(("__MACOSX", "$RECYCLE.BIN", "System Volume Information", "lost+found"), _SYSTEM),
}
_MARKS = {"pyvenv.cfg": _PROGRAMS, "CACHEDIR.TAG": _CACHE}
_FILES = (
    (re.compile(r"~\$.+|#.+#|.+~|~WRL\d+\.tmp|.+\.(?:tmp|temp|swp|part|partial|crdownload|download|lck)", re.IGNORECASE),
     "an unfinished or temporary file"),
    (re.compile(r".+\.lock|.+[-.]lock\.(?:json|ya?ml)|npm-shrinkwrap\.json|bun\.lockb|go\.sum"), "a lock file"),
    (re.compile(r".+\.min\.(?:js|css|html)|.+\.(?:js|css)\.map"), "a packed program"),
    (re.compile(r"(?:eh)?thumbs\.db|desktop\.ini|icon\r", re.IGNORECASE), _SYSTEM),
)  # fmt: skip
# What a pattern cannot express: line ends and trailing blanks.
_UNWRITABLE = re.compile(r"[\n\r]|\s(?=\s*$)")


class Ignore(NamedTuple):
    """Patterns for everything below a folder."""

    folder: str  # with a separator at the end
    patterns: "GitIgnoreSpec"
    origin: str = ""  # what has them: a file's name, "" for the caller
    below: str = ""  # from the folder that they are relative to, to `folder`


def _parse_ignore(folder: str, patterns: Iterable[str], origin: str = "") -> Ignore:
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines(normalize("NFC", pattern) for pattern in patterns)
        return Ignore(os.path.join(folder, ""), spec, origin)
    except (ValueError, re.error) as error:  # re.error from a range such as [z-a]
        raise UnreadableFile(f"cannot be used: {error}") from error


def _read_ignore(folder: str, name: str = IGNORE_FILE, opened: str = "") -> Ignore | None:
    path = Path(opened or folder, name)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        written = os.fsdecode(file.read(_MOST_BYTES).removeprefix(b"\xef\xbb\xbf"))
    return _parse_ignore(folder, re.split("\r?\n", written), name)


def _outer_git_ignores(path: str, real: str) -> tuple[Ignore, ...]:
    """The patterns of the git repository around a folder, the inner ones first; none if they exclude the folder."""
    outers = [real, *map(str, Path(real).parents)]
    root = next((number for number, outer in enumerate(outers) if os.path.lexists(os.path.join(outer, ".git"))), None)
    if root is None:
        return ()
    named = [(outer, GIT_IGNORE_FILE) for outer in outers[1 : root + 1]] + [(outers[root], _GIT_EXCLUDES)]
    ignores, folder = list[Ignore](), os.path.join(path, "")
    for outer, name in named:
        with suppress(OSError, UnreadableFile):
            if ignore := _read_ignore(outer, name):
                below = os.path.join(os.path.relpath(real, outer), "") if root else ""
                ignores.append(ignore._replace(folder=folder, below=below))
    return () if root and _verdict(folder, ignores) else tuple(ignores)


def _verdict(path: str, ignores: Iterable[Ignore], *, is_folder: bool = False) -> Ignore | Literal[False] | None:
    """The patterns that exclude a path; False if they include it, None if none matches."""
    for ignore in ignores:
        # Names from macOS have their accents as characters of their own, patterns that were typed have not.
        name = normalize("NFC", ignore.below + path[len(ignore.folder) :] + "/" * is_folder)
        verdict = ignore.patterns.check_file(name).include
        if verdict is not None:
            return verdict and ignore
    return None


def ignore_path(path: Path) -> tuple[Path, str | None]:
    """Make walks ignore a file, by a rule in the `.mbcignore` of its folder.

    Returns the `.mbcignore` and the pattern that was added to it, None if it already ignores the file. Raises DataError
    if the `.mbcignore` cannot be read, used or written.
    """
    named = path.parent / IGNORE_FILE
    file = Path(os.path.realpath(named))
    try:
        ignore = _read_ignore(os.fspath(path.parent))
        if ignore and _verdict(os.fspath(path), [ignore]):
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


class LeftOut(NamedTuple):
    """A file or folder that is not looked at, and why: a file with patterns, or what it is."""

    path: str  # printable; a folder's ends with a separator
    reason: str


@dataclass(frozen=True)
class WalkResult:
    """The result of a walk: the files that can be read, in order and each once, and those that cannot.

    `left_out` are the files and whole folders that patterns or habit exclude, each with the pattern's file or what it
    is; not those that the caller excludes, nor hidden ones but those at the top of a git repository, where somebody
    wrote them.
    """

    files: tuple[Path, ...]
    skipped: tuple[Skipped, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class _Unvisited:
    path: str  # as it was reached
    real: str  # with links resolved, one by one: resolving every path from the root would take most of a walk's time
    given: tuple[Ignore, ...]  # the caller's patterns
    is_choosy: bool
    follow_links: bool
    # Those of the ignore files in the folders above, the inner ones first.
    written: tuple[Ignore, ...] = ()
    of_git: tuple[Ignore, ...] = ()
    is_named: bool = False


def find_files(
    paths: Sequence[Path],
    ignore: Sequence[str] = (),
    *,
    is_choosy: bool = True,
    follow_links: bool = True,
    stop: threading.Event | None = None,
) -> WalkResult:
    """The readable files among `paths` and, for folders, below them, in sorted order, by their absolute paths.

    Hidden and ignored files and folders are left out unless named themselves. Symbolic links are followed; whatever is
    reached twice counts once. What cannot be entered or read is skipped with a reason. Setting `stop` ends the walk
    with what has been found. If links are not to be followed, `paths` have to be real ones, and nothing that is reached
    by a link is opened or named, even one that takes the place of a folder during the walk; links are skipped.

    Patterns are in the syntax of .gitignore, relative to each named folder; those in a folder's `.mbcignore` apply to
    what `ignore` does not match, and those of outer folders to what the inner ones do not match. If the walk
    `is_choosy`, the same holds for `.gitignore` after them, those above a named folder of a repository included; and
    what nobody wrote is left out at last: installed software, caches, temporary and lock files. Raises DataError if
    one of `paths` does not exist or cannot be accessed, or a pattern is invalid.
    """
    require_paths(paths)
    met = list(_walk([_named(path, ignore, is_choosy, follow_links) for path in paths], stop))
    named = {printable_path(path.absolute()) for path in paths}
    return WalkResult(
        tuple(item for item in met if isinstance(item, Path)),
        tuple(item for item in met if isinstance(item, Skipped)),
        tuple(item for item in met if isinstance(item, LeftOut) and item.path.rstrip(os.sep) not in named),
    )


def is_empty(paths: Sequence[Path], ignore: Sequence[str] = (), *, is_choosy: bool = True) -> bool:
    """Whether `find_files` would find nothing at all, not even a file that cannot be read."""
    require_paths(paths)
    return all(isinstance(item, LeftOut) for item in _walk([_named(path, ignore, is_choosy) for path in paths]))


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


def _named(path: Path, ignore: Sequence[str], is_choosy: bool = True, follow_links: bool = True) -> _Unvisited:
    path = path.absolute()
    try:
        given = (_parse_ignore(os.fspath(path), ignore),) if ignore else ()
    except UnreadableFile as error:
        raise DataError(f"The patterns to ignore {error}.", hint="Write patterns as in .gitignore.") from error
    real = os.path.realpath(path) if follow_links else os.fspath(path)
    return _Unvisited(os.fspath(path), real, given, is_choosy, follow_links, is_named=True)


def _walk(named: Sequence[_Unvisited], stop: threading.Event | None = None) -> Iterator[Path | Skipped | LeftOut]:
    waiting = list(reversed(named))
    seen: set[str] = set()
    while waiting and not (stop is not None and stop.is_set()):
        current = waiting.pop()
        if current.real in seen:
            continue
        seen.add(current.real)
        try:
            mode = os.stat(current.path, follow_symlinks=current.follow_links).st_mode
            if stat.S_ISLNK(mode):
                raise UnreadableFile("is a link, which is not followed")
            if stat.S_ISDIR(mode):
                with _opened(current) as opened:
                    met = list(_within(current, opened))
                yield from (item for item in met if not isinstance(item, _Unvisited))
                waiting += (item for item in reversed(met) if isinstance(item, _Unvisited))
                continue
            if not stat.S_ISREG(mode):
                raise UnreadableFile("is not a regular file")
            path = Path(current.path)
            if not is_known(path.name):  # only then, as opening every file would take most of a walk's time
                with suppress(EmptyFile), open_file(path) as file:
                    if not current.follow_links:
                        require_at(file.fileno(), path)
                    identify(file, path.name)
            yield path
        except (OSError, UnreadableFile) as error:
            yield Skipped(printable_path(current.path), reason(error))


@contextmanager
def _opened(folder: _Unvisited) -> Iterator[str]:
    """The path by which to read a folder: without links the folder that is open, whatever takes its place."""
    if folder.follow_links:
        yield folder.path
        return
    descriptor = os.open(folder.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        require_at(descriptor, folder.real)
        link = f"/proc/self/fd/{descriptor}"
        yield link if os.path.isdir(link) else folder.path
    finally:
        os.close(descriptor)


def _hidden(
    folder: _Unvisited, entries: Iterable["os.DirEntry[str]"], ignores: tuple[Ignore, ...]
) -> Iterator[LeftOut]:
    """The hidden files and folders beside that of git, except those that patterns exclude, and the files of patterns."""
    for entry in entries:
        path, is_folder = os.path.join(folder.path, entry.name), entry.is_dir(follow_symlinks=False)
        is_hidden = entry.name.startswith(".") and entry.name not in (".git", *IGNORE_FILES)
        if is_hidden and not _verdict(path, ignores, is_folder=is_folder):
            yield LeftOut(printable_path(os.path.join(path, "") if is_folder else path), HIDDEN)


def _within(folder: _Unvisited, opened: str) -> Iterator[_Unvisited | LeftOut | Skipped]:
    own: dict[str, tuple[Ignore, ...]] = dict.fromkeys(IGNORE_FILES, ())
    for name in IGNORE_FILES[: 1 + folder.is_choosy]:
        try:
            own[name] = tuple(filter(None, [_read_ignore(folder.path, name, opened)]))
        except (OSError, UnreadableFile) as error:
            yield Skipped(printable_path(os.path.join(folder.path, name)), reason(error))
    is_top = folder.is_choosy and folder.is_named
    outer = _outer_git_ignores(folder.path, folder.real) if is_top else folder.of_git
    written, of_git = (*own[IGNORE_FILE], *folder.written), (*own[GIT_IGNORE_FILE], *outer)
    with os.scandir(opened) as scanned:
        found = sorted(scanned, key=lambda it: it.name)
    entries = [entry for entry in found if not entry.name.startswith(".")]
    if folder.is_choosy and any(entry.name == ".git" for entry in found):
        yield from _hidden(folder, found, (*folder.given, *written, *of_git))
    if folder.is_choosy and not folder.is_named:
        for mark in _MARKS.keys() & {entry.name for entry in entries}:
            yield LeftOut(os.path.join(printable_path(folder.path), ""), _MARKS[mark])
            return
    for entry in entries:
        path, is_link = os.path.join(folder.path, entry.name), entry.is_symlink()
        is_folder = os.path.isdir(entry) if is_link else entry.is_dir()
        verdict = _verdict(path, (*folder.given, *written, *of_git), is_folder=is_folder)
        by_name = ""  # why it is left out unless patterns include it
        if folder.is_choosy and verdict is None:
            by_file = (kind for names, kind in _FILES if names.fullmatch(entry.name))
            by_name = _FOLDERS.get(entry.name, "") if is_folder else next(by_file, "")
        if verdict or by_name:
            if why := by_name or (verdict and verdict.origin):
                yield LeftOut(printable_path(os.path.join(path, "") if is_folder else path), why)
            continue
        real = os.path.realpath(path) if is_link and folder.follow_links else os.path.join(folder.real, entry.name)
        yield replace(folder, path=path, real=real, written=written, of_git=of_git, is_named=False)
