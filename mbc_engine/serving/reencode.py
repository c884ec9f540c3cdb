"""A bank brought to another model: its documents read again from where they came, and encoded anew."""

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

from mbc_engine.bank import MemoryBank, delete, replace_content
from mbc_engine.documents import Skipped
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import Event, IngestStarted
from mbc_engine.load import Model
from mbc_engine.model.bank_binding import open_bank
from mbc_engine.serving.ingest import BATCH_CHUNKS, Run
from mbc_engine.serving.reading import Chunked, Item, bytes_at
from mbc_engine.serving.reading_ahead import read_all

Name = tuple[str, str]


def reencode(
    model: Model, path: Path, *, drop_missing: bool = False, workers: int = 0, stop: threading.Event | None = None
) -> Iterator[Event]:
    """Make the bank at `path` one of `model`; events as of `ingest`.

    The new bank grows in a file beside the old one, which is replaced when all is done. Stopped or killed, the same
    call goes on with what is there. A file that has changed is memorised as it is now.

    Args:
        model: the new model.
        path: the bank.
        drop_missing: let documents go that cannot be read any more; otherwise they keep the old bank in place.
        workers: as in `ingest`.
        stop: as in `ingest`.

    Raises:
        BankError: the bank keeps no origins, or some of its documents cannot be read any more.
    """
    wanted = _origins(path)
    sources = sorted({source for source, _ in wanted})
    files = [Path(source) for source in sources if Path(source).is_file()]
    yield IngestStarted(len(files), sum(map(bytes_at, files)))
    beside = path.with_name(path.name + ".reencoding")
    with _open_beside(model, beside) as new:
        run = Run(model, new, BATCH_CHUNKS, stop)
        for source in sources:
            if not Path(source).is_file():
                yield run.skipped(Skipped(source, "is gone"))
        items = read_all(files, new, model.chunker, workers=workers)
        yield from run.memorise(_only(items, wanted))
        finished = run.finished()
        if not finished.is_complete:
            yield finished
            return
        # What was removed from the old bank since an earlier, unfinished call.
        new.remove({name for name in _names(new) if not _is_wanted(name, wanted)})
        if (missing := _missing(wanted, _names(new))) and not drop_missing:
            raise BankError(
                f"{missing} of {len(wanted)} documents cannot be read any more; {path} stays as it was.",
                hint="Bring their files back and run this again, or let them go with --drop-missing.",
            )
        finished = run.finished()

    def require_unchanged() -> None:
        if _origins(path) != wanted:
            raise BankError(f"{path} was changed meanwhile.", hint="Run this again; what is done stays done.")

    replace_content(path, beside, check=require_unchanged)
    delete(beside)
    yield finished


def _origins(path: Path) -> set[Name]:
    """Source and part of all that a bank holds."""
    with MemoryBank.open(path, read_only=True) as bank:
        if not bank.header.keeps_origins:
            raise BankError(
                f"{path} does not know where its documents came from.", hint="Ingest them again, into another bank."
            )
        return _names(bank)


def _names(bank: MemoryBank) -> set[Name]:
    return {origin[:2] for origin in bank.origins()}


def _open_beside(model: Model, path: Path) -> MemoryBank:
    """The new bank as far as it is; begun anew if of yet another model."""
    try:
        return open_bank(model, path)
    except ModelMismatch:
        delete(path)
        return open_bank(model, path)


def _is_wanted(name: Name, wanted: set[Name]) -> bool:
    """Whether the old bank has it: itself, or the whole of a file that comes in parts by now."""
    return name in wanted or (name[0], "") in wanted


def _missing(wanted: set[Name], had: set[Name]) -> int:
    """How many are not there, as themselves or as parts of the file they were the whole of."""
    sources = {source for source, _ in had}
    return sum(name not in had and not (name[1] == "" and name[0] in sources) for name in wanted)


def _only(items: Generator[Item, None, None], wanted: set[Name]) -> Generator[Item, None, None]:
    """Without documents that the old bank does not have: a file may hold more rows by now."""
    with closing(items):
        for item in items:
            if not isinstance(item, Chunked) or _is_wanted((item.record.source, item.record.part), wanted):
                yield item
