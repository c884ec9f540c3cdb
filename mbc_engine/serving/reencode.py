"""A bank brought to another model: its documents read again from where they came, and encoded anew."""

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

from mbc_engine.bank import MemoryBank, delete, replace_content
from mbc_engine.documents import Skipped
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import Event, IngestStarted
from mbc_engine.model.checkpoint import open_bank
from mbc_engine.model.mbc import MBC
from mbc_engine.serving.ingest import BATCH_CHUNKS, Run
from mbc_engine.serving.reading import Chunked, Item, bytes_at, read_all


def reencode(
    model: MBC, path: Path, *, drop_missing: bool = False, workers: int = 0, stop: threading.Event | None = None
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
        items = read_all(files, new, model.documents.chunker, workers=workers)
        yield from run.memorise(_only(items, wanted))
        if run.is_stopped:
            yield run.finished()
            return
        missing = wanted - {origin[:2] for document in new.documents() for origin in document.origins}
        if missing and not drop_missing:
            raise BankError(
                f"{len(missing)} of {len(wanted)} documents cannot be read any more; {path} stays as it was.",
                hint="Bring their files back and run this again, or let them go with --drop-missing.",
            )
        yield run.finished()

    def require_no_others() -> None:
        if _origins(path) - wanted:
            raise BankError(f"{path} was given documents meanwhile.", hint="Run this again; what is done stays done.")

    replace_content(path, beside, check=require_no_others)
    delete(beside)


def _origins(path: Path) -> set[tuple[str, str]]:
    """Source and part of all that a bank holds."""
    with MemoryBank.open(path, read_only=True) as bank:
        if not bank.header.keeps_origins:
            raise BankError(
                f"{path} does not know where its documents came from.", hint="Ingest them again, into another bank."
            )
        return {origin[:2] for document in bank.documents() for origin in document.origins}


def _open_beside(model: MBC, path: Path) -> MemoryBank:
    """The new bank as far as it is; begun again if it was of yet another model."""
    try:
        return open_bank(model, path)
    except ModelMismatch:
        delete(path)
        return open_bank(model, path)


def _only(items: Generator[Item, None, None], wanted: set[tuple[str, str]]) -> Generator[Item, None, None]:
    """Without documents that the old bank does not have: a file may hold more rows by now."""
    with closing(items):
        for item in items:
            if not isinstance(item, Chunked) or (item.record.source, item.record.part) in wanted:
                yield item
