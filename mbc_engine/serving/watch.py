"""A folder followed: what changes in it is memorised as it changes."""

import os
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from watchfiles import watch as changes

from mbc_engine.bank import MemoryBank
from mbc_engine.documents import Found, find_files
from mbc_engine.events import Event
from mbc_engine.model.mbc import MBC
from mbc_engine.serving.ingest import ingest_found, inside

_STOP_MILLISECONDS = 300


def watch(
    model: MBC,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    prune: bool = False,
    workers: int = 0,
    stop: threading.Event,
) -> Iterator[Event]:
    """Ingest files and folders, and again what changes in them, until `stop` is set.

    Each ingest gives its own events, `IngestFinished` last; only the first is done by `workers`. Arguments and errors
    are otherwise those of `ingest`.
    """
    coming = changes(
        *paths,
        watch_filter=None,
        stop_event=stop,
        rust_timeout=_STOP_MILLISECONDS,
        yield_on_timeout=True,
        raise_interrupt=False,
    )
    next(coming)  # the watch begins before the first walk, so that nothing falls between the two
    found = find_files(paths, ignore)
    yield from ingest_found(model, bank, paths, found, found.files, prune=prune, workers=workers, stop=stop)
    for changed in coming:
        if changed:
            found = find_files(paths, ignore)
            touched = _at_or_below(found, {os.path.realpath(path) for _, path in changed})
            yield from ingest_found(model, bank, paths, found, touched, prune=prune, stop=stop)


def _at_or_below(found: Found, places: Collection[str]) -> list[Path]:
    """The files found at these places, or in folders that are."""
    folders = tuple(map(inside, places))
    return [path for path in found.files if (real := os.path.realpath(path)) in places or real.startswith(folders)]
