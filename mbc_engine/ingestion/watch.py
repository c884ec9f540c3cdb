"""Files and folders followed: what changes in them is memorised as it changes."""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path

from watchfiles import Change
from watchfiles import watch as changes

from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankBusy, DataError
from mbc_engine.events import Event
from mbc_engine.ingestion.run import ingest, ingest_found, inside, vanished
from mbc_engine.load import Model
from mbc_engine.text import IGNORE_FILE, Found, find_files, require_paths

# How long a stop may go unnoticed.
_STOP_MILLISECONDS = 300


def watch(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    prune: bool = False,
    workers: int = 0,
    text_column: str | None = None,
    stop: threading.Event,
) -> Iterator[Event]:
    """Ingest files and folders, and again what changes in them, until `stop` is set.

    Each ingest gives its own events, `IngestFinished` last; only the first is done by `workers`. A path that goes is
    waited for. While another process writes to the bank, changes wait.

    Args:
        model: the bank's own model.
        bank: where the codes go.
        paths: files and folders.
        ignore: as in `ingest`.
        prune: as in `ingest`, each time that something has gone.
        workers: as in `ingest`.
        text_column: as in `ingest`.
        stop: set it to end.

    Raises:
        DataError: a path does not exist when it begins, or cannot be watched.
        BankError: as `ingest`.
        ModelMismatch: as `ingest`.
    """
    require_paths(paths, ignore)
    coming = _changes(paths, stop)
    try:
        next(coming, None)  # the watch begins before the first walk, so that nothing falls between the two
        yield from ingest(
            model, bank, paths, ignore=ignore, prune=prune, workers=workers, text_column=text_column, stop=stop
        )
        waiting: set[tuple[Change, str]] = set()
        for changed in coming:
            waiting |= changed
            try:
                if waiting:
                    yield from _again(
                        model, bank, paths, waiting, ignore=ignore, prune=prune, text_column=text_column, stop=stop
                    )
            except BankBusy:
                continue
            waiting = set()
    except OSError as error:
        raise DataError(f"The folders cannot be watched: {error}.", hint="Ingest them now and then instead.") from error


def _changes(paths: Sequence[Path], stop: threading.Event) -> Iterator[set[tuple[Change, str]]]:
    """What changes at the paths, as it changes; nothing now and then."""
    # A named file is watched by its folder: saving often puts another file in its place.
    folders = {path if path.is_dir() else path.absolute().parent for path in paths}
    return changes(
        *sorted(folders),
        watch_filter=None,
        stop_event=stop,
        rust_timeout=_STOP_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )


def _again(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    changed: set[tuple[Change, str]],
    *,
    ignore: Sequence[str],
    prune: bool,
    text_column: str | None,
    stop: threading.Event,
) -> Iterator[Event]:
    """Ingest what has changed."""
    there = [path for path in paths if path.exists()]
    found = find_files(there, ignore, stop=stop)
    touched = _touched(found, {_place(path) for _, path in changed})
    has_lost = prune and any(change == Change.deleted or _is_rule(path) for change, path in changed)
    if touched.files or touched.skipped or has_lost:
        gone = partial(vanished, bank, there, found) if has_lost else None
        yield from ingest_found(model, bank, touched, gone=gone, text_column=text_column, stop=stop)


def _is_rule(path: str) -> bool:
    """Whether this file says what is to be ignored."""
    return Path(path).name == IGNORE_FILE


def _place(path: str) -> str:
    """What a changed path stands for: itself or, if it says what is to be ignored, its folder."""
    return os.path.realpath(Path(path).parent if _is_rule(path) else path)


def _touched(found: Found, places: Collection[str]) -> Found:
    """What was found at these places, or in folders that are."""
    folders = tuple(map(inside, places))

    def is_touched(path: Path | str) -> bool:
        real = os.path.realpath(path)
        return real in places or real.startswith(folders)

    return Found(
        tuple(path for path in found.files if is_touched(path)),
        tuple(skipped for skipped in found.skipped if is_touched(skipped.source)),
    )
