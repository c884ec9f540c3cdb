"""A bank brought to another model: its documents read again from where they came or as it keeps them, and encoded."""

import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from mbc_engine.bank import MemoryBank, decode_chunk, delete, replace_content
from mbc_engine.errors import BankError, ModelMismatch
from mbc_engine.events import Event, IngestStarted
from mbc_engine.ingestion.reading import Chunked, Item, bytes_at, read_all
from mbc_engine.ingestion.run import BATCH_CHUNKS, Run
from mbc_engine.lm.coding import open_bank
from mbc_engine.load import Model
from mbc_engine.text import Chunk, Document, Skipped, find_text_column, named_whole
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.decoding import split_suffixes
from mbc_engine.text.formats import SUFFIXES

Name = tuple[str, str]
# Documents that are taken from a bank at a time.
_LOOKED_UP: Final = 256


def reencode(
    model: Model, path: Path, *, drop_missing: bool = False, workers: int = 0, stop: threading.Event | None = None
) -> Iterator[Event]:
    """Make the bank at `path` one of `model`; events as of `ingest`.

    The new bank grows in a file beside the old one, which is replaced when all is done. Stopped or killed, the same
    call goes on with what is there. A file that has changed is memorised as it is now; what no file has any more is
    memorised from the text that the bank keeps, if it does.

    Args:
        model: the new model.
        path: the bank.
        drop_missing: let documents go that cannot be read any more; otherwise they keep the old bank in place.
        workers: as in `ingest`.
        stop: as in `ingest`.

    Raises:
        BankError: the bank keeps no origins, or some of its documents cannot be read any more.
    """
    wanted, keeps_text = _contents(path)
    sources = sorted({source for source, _ in wanted})
    files = [Path(source) for source in sources if Path(source).is_file()]
    yield IngestStarted(len(files), sum(map(bytes_at, files)))
    beside = path.with_name(path.name + ".reencoding")
    with _open_beside(model, beside, keeps_text=keeps_text) as new:
        run, chunker = Run(model, new, BATCH_CHUNKS, stop), model.chunker
        for source in sources:
            if not (keeps_text or Path(source).is_file()):
                yield run.skipped(Skipped(source, "is gone"))
        damaged: set[str] = set()
        items = _read_as_before(files, _text_columns(path, files), new, chunker, workers)
        yield from run.memorise(_only(items, wanted, damaged))
        if run.is_complete and keeps_text:
            yield from run.memorise(_from_texts(path, _missing(wanted, _names(new), damaged), chunker))
        finished = run.finished()
        if not finished.is_complete:
            yield finished
            return
        # What was removed from the old bank since an earlier, unfinished call.
        documents = {_whole(name) for name in wanted}
        new.remove({name for name in _names(new) if _whole(name) not in documents})
        if (missing := len(_missing(wanted, _names(new), damaged))) and not drop_missing:
            raise BankError(
                f"{missing} of {len(wanted)} documents cannot be read any more; {path} stays as it was.",
                hint="Bring their files back and run this again, or let them go with --drop-missing.",
            )
        finished = run.finished()

    def require_unchanged() -> None:
        if _contents(path)[0] != wanted:
            raise BankError(f"{path} was changed meanwhile.", hint="Run this again; what is done stays done.")

    replace_content(path, beside, check=require_unchanged)
    delete(beside)
    yield finished


def _contents(path: Path) -> tuple[set[Name], bool]:
    """Source and part of all that a bank holds, and whether it keeps the texts."""
    with MemoryBank.open(path, read_only=True) as bank:
        if not bank.header.keeps_origins:
            raise BankError(
                f"{path} does not know where its documents came from.", hint="Ingest them again, into another bank."
            )
        return _names(bank), bank.keeps_text


def _names(bank: MemoryBank) -> set[Name]:
    return {origin[:2] for origin in bank.origins()}


def _open_beside(model: Model, path: Path, *, keeps_text: bool) -> MemoryBank:
    """The new bank as far as it is, which keeps texts if the old one did; begun anew if of yet another model."""
    keeps = True if keeps_text else None
    try:
        return open_bank(model, path, keeps_text=keeps)
    except ModelMismatch:
        delete(path)
        return open_bank(model, path, keeps_text=keeps)


def _whole(name: Name) -> Name:
    """The document that a name is a piece of, or it itself: long ones come in pieces, of another size by now."""
    source, part = name
    return source, named_whole(part) if _has_rows(source) else ""


def _has_rows(source: str) -> bool:
    format = SUFFIXES.get(split_suffixes(source)[0])
    return format is not None and format.name == "row"


def _text_columns(path: Path, files: Sequence[Path]) -> dict[Path, str | None]:
    """With which `text_column` each file with rows was read for the bank at `path`, which does not keep that."""
    digests: dict[str, dict[str, str]] = {str(file): {} for file in files if _has_rows(str(file))}
    if not digests:
        return {}
    with MemoryBank.open(path, read_only=True) as old:
        for document in old.documents():
            for source, part in (origin[:2] for origin in document.origins):
                if source in digests:
                    digests[source][part] = document.digest
    return {Path(source): find_text_column(Path(source), own) for source, own in digests.items()}


def _read_as_before(
    files: Sequence[Path], columns: Mapping[Path, str | None], new: MemoryBank, chunker: Chunker, workers: int
) -> Generator[Item | None, None, None]:
    for column in dict.fromkeys(map(columns.get, files)):
        own = [file for file in files if columns.get(file) == column]
        yield from read_all(own, new, chunker, workers=workers, text_column=column)


def _missing(wanted: set[Name], had: set[Name], damaged: set[str]) -> list[Name]:
    """What is not there, not even in other pieces; of a file that is damaged, each piece counts."""
    documents = {_whole(name) for name in had if name[0] not in damaged}
    return sorted(name for name in wanted if name not in had and _whole(name) not in documents)


def _only(
    items: Generator[Item | None, None, None], wanted: set[Name], damaged: set[str]
) -> Generator[Item | None, None, None]:
    """Without documents that the old bank does not have: a file may hold more rows by now.

    Args:
        damaged: gets the sources that cannot be read, or not to their end.
    """
    documents = {_whole(name) for name in wanted}
    with closing(items):
        for item in items:
            if isinstance(item, Skipped):
                damaged.add(item.source)
            if not isinstance(item, Chunked) or _whole((item.document.source, item.document.part)) in documents:
                yield item


def _from_texts(path: Path, names: Sequence[Name], chunker: Chunker) -> Generator[Item, None, None]:
    """Documents that only the bank at `path` has, by the texts that it keeps."""
    with MemoryBank.open(path, read_only=True) as old:
        for start in range(0, len(names), _LOOKED_UP):
            wanted = set(names[start : start + _LOOKED_UP])
            for document in old.lookup(wanted, with_texts=True):
                texts = [decode_chunk(text) for text in document.texts or () if isinstance(text, bytes)]
                chunks = [part for chunk in texts for part in _fitting(chunk, chunker)]
                for origin in document.origins:
                    if origin[:2] in wanted:
                        read = Document(
                            origin.source, origin.part, "", document.digest, document.size or 0, origin.date
                        )
                        yield Chunked(read, chunks, 0)


def _fitting(chunk: Chunk, chunker: Chunker) -> list[Chunk]:
    """A chunk as it is, or cut where it is longer than the window of the new model."""
    if chunker.token_counts([chunk.text])[0] <= chunker.capacity:
        return [chunk]
    return [Chunk(own.text, chunk.start + own.start) for own in chunker.chunks(chunk.text)]
