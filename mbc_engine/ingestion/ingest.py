"""Reading files into a bank (paper, algorithm 2, lines 2 to 5): forward passes only, committed batch by batch."""

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain, islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mbc_engine.bank import MemoryBank, OpenTextModel, StoredDocument, origin_name
from mbc_engine.bank.exchange import remove_undoably
from mbc_engine.errors import BankBusy, BankError, DataError, MBCError, ModelError
from mbc_engine.events import (
    ContentLost,
    DocumentsIngested,
    Event,
    FileSkipped,
    FilesLeftOut,
    IngestFinished,
    IngestStarted,
    TextsRecoded,
)
from mbc_engine.ingestion.workers import ChunkedDocument, FileRead, Item, chunked, file_size, read_all
from mbc_engine.model import Model, signature
from mbc_engine.text import (
    IGNORE_FILES,
    Skipped,
    WalkResult,
    find_files,
    printable_path,
    read_stream,
    require_paths,
    without_piece_number,
)
from mbc_engine.text.language import seems_english

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from watchfiles import Change

    from mbc_engine.ingestion.ray import Actors

# Chunks per commit: the most that a killed process loses, and what is sorted by length for encoding on a GPU.
BATCH_CHUNKS = 128
# On a CPU, that many chunks take longer than anyone wants to lose.
_COMMIT_SECONDS = 3.0
_REPORT_SECONDS = 0.5
# Digests of recently encoded contents, which were not in the bank yet when files were read ahead.
_RECENT = 1 << 16
# Chunks used to detect a document's language; most sources named at the end, and in a report.
_LANGUAGE_CHUNKS, _NAMED_SOURCES, _REPORTED_SOURCES = 4, 20, 50
_TOO_MANY = (
    "recoding all {:,} with the language model, which saves more than half the space, would take over five minutes. Run "
    "`mbc bank compact --codec lm` for it."
)
# How long a stop may go unnoticed while nothing changes.
_STOP_MILLISECONDS = 300


def ingest(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path] | WalkResult,
    *,
    ignore: Sequence[str] = (),
    is_choosy: bool = True,
    follow_links: bool = True,
    prune: bool = False,
    find_deleted: Callable[[], Collection[tuple[str, str]]] | None = None,
    workers: int = 0,
    text_column: str | None = None,
    batch_chunks: int = BATCH_CHUNKS,
    actors: "Actors | None" = None,
    open_model: OpenTextModel | None = None,
    most_recoded: int | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Memorise files and folders. Unchanged files are skipped, changed ones replace their codes.

    The bank can be queried from the first `TextsRecoded` on, if there is any: after it, texts are only recoded.

    Args:
        paths: files and folders, or the result of a walk.
        ignore: patterns as in .gitignore, relative to each named folder.
        is_choosy: leave out what `find_files` leaves out by itself.
        follow_links: if false, only files whose real paths are given or found are read, by this process.
        prune: at the end, remove what the bank has from the named folders that the walk did not find, so that
            `bank.exchange.undo_removal` can put it back. A named file or folder may be gone, if the bank has something
            from it.
        find_deleted: called at the end, returns more origins to remove, by source and part.
        workers: processes that read files ahead; a script needs `if __name__ == "__main__":` for them.
        text_column: the column or field that a row must have a text in to be memorised.
        batch_chunks: encoded chunks between two commits, which are a few seconds apart at most.
        actors: processes on Ray that read and encode instead, see `mbc_engine.ingestion.ray`; the bank is the same.
        open_model: opens the language model that texts are recoded with at the end; None leaves them in zstd.
        most_recoded: leave them in zstd if there are more of them; None recodes any number.
        stop: set it to stop within one step of the model. Whole documents are committed; another ingest continues.

    Raises:
        DataError: a path does not exist.
        BankError: the bank cannot be written.
        ModelMismatch: another model wrote the bank.
    """
    bank.require(signature(model), model.code_shape)
    if isinstance(paths, WalkResult):
        walk = paths
    else:
        existing = [path for path in paths if os.path.lexists(path) or not (prune and holds_below(bank, [path]))]
        walk = find_files(existing, ignore, is_choosy=is_choosy, stop=stop)
        find_deleted = partial(deleted_origins, bank, paths, walk) if prune else find_deleted
    walk = replace(walk, files=tuple(path for path in walk.files if not bank.is_file(path)))
    run = Run(model, bank, batch_chunks, stop)
    if actors is None:
        chunker = model.chunker.leaving(bank.header.context_tokens)
        items = read_all(walk.files, bank, chunker, workers=workers, text_column=text_column, follow_links=follow_links)
    else:
        from mbc_engine.ingestion.ray import encode_files

        items = encode_files(model, bank, walk.files, text_column, actors, run.add_encoding_seconds)
    sizes = map(file_size, takewhile(lambda _: not run.is_stopped, walk.files))
    yield IngestStarted(len(walk.files), sum(sizes))
    for skipped in walk.skipped:
        if not bank.is_file(Path(skipped.source)):
            yield run.skipped(skipped)
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for item in walk.left_out:
        by_reason[item.reason].append(item.path)
    for reason, left_out in by_reason.items():
        yield FilesLeftOut(reason, len(left_out), tuple(left_out[:_NAMED_SOURCES]))
    yield from run.memorise(items)
    if find_deleted and run.is_complete:
        run.prune(find_deleted())
    elif run.is_complete and not isinstance(paths, WalkResult):
        deleted = {source for source, _ in deleted_origins(bank, paths, walk)}
        run.gone = sorted(source for source in deleted if not os.path.lexists(source))
    yield from run.finish(open_model, most_recoded)


def ingest_stream(
    model: Model,
    bank: MemoryBank,
    stream: BinaryIO,
    *,
    open_model: OpenTextModel | None = None,
    most_recoded: int | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """As `ingest`, for a stream that is read as a file; its source is `stdin:` and the first digits of its digest."""
    bank.require(signature(model), model.code_shape)
    yield IngestStarted(1, 0)
    run, chunker = Run(model, bank, BATCH_CHUNKS, stop), model.chunker.leaving(bank.header.context_tokens)
    yield from run.memorise(
        item if isinstance(item, Skipped) else chunked(item, bank, chunker) for item in read_stream(stream)
    )
    yield from run.finish(open_model, most_recoded)


def recode(
    bank: MemoryBank, open_model: OpenTextModel | None, most: int | None, stop: threading.Event | None, *, added: int
) -> Iterator[TextsRecoded]:
    """Recode the texts that a bank keeps with a language model, unless there are more than `most`; the last event has a
    `problem` if it fails, or if it is since the last chunks were `added` that there are too many, which is news once."""
    event = TextsRecoded(0, 0, 0, 0, 0.0, "lm")
    if open_model is None or not bank.header.keeps_text:
        return
    try:
        for event in bank.recode_texts(open_model, to_lm=True, stop=stop):
            if most is not None and event.chunks > most:
                if event.chunks - added <= most:
                    yield replace(event, problem=_TOO_MANY.format(event.chunks))
                return
            yield event
    except (ModelError, BankError) as error:
        yield replace(event, problem=" ".join(filter(None, [error.message, error.hint])))


class Run:
    """One pass of documents into a bank, with counts; `is_complete` at the end unless stopped."""

    def __init__(self, model: Model, bank: MemoryBank, batch_chunks: int, stop: threading.Event | None) -> None:
        self._model, self._bank, self._batch_chunks, self._stop = model, bank, batch_chunks, stop
        self.is_complete = False
        self.gone: list[str] = []  # sources of the named folders
        self._began = self._committed = self._reported = time.monotonic()
        self._encoding_seconds = self._size = 0.0
        self._documents = self._chunks = self._unchanged = self._removed = self._skipped = self._chunks_encoded = 0
        self._pruned = 0
        self._sources: deque[str] = deque(maxlen=_REPORTED_SOURCES)  # since the last report
        self._files_read, self._being_read, self._current = 0, dict[Path, None](), ""
        self._not_english = 0
        self._named: dict[str, dict[str, None]] = {"not_english": {}, "memorised": {}, "removed": {}}
        self._waiting: list[ChunkedDocument] = []
        self._under_way = 0  # documents that are being encoded
        self._ready: list[ChunkedDocument] = []  # to be committed
        self._recent: set[str] = set()
        self._lost: set[tuple[str, str]] = set()

    @property
    def is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def skipped(self, item: Skipped) -> FileSkipped:
        self._skipped += 1
        self._sources.append(item.source)
        return FileSkipped(item.source, item.reason)

    def memorise(self, items: Generator[Item | None, None, None]) -> Iterator[Event]:
        """Encode what is not encoded yet, and commit whole documents, at least every few seconds."""
        self.is_complete = False
        with closing(items):
            if self.is_stopped:
                return
            try:
                yield from self._memorise(items)
            except MBCError:
                self._lost.clear()  # these may have moved to what is not read
                self._commit()
                raise
            self._commit()
            if self.is_complete:
                yield self._progress()

    def _memorise(self, items: Iterator[Item | None]) -> Iterator[Event]:
        for item in items:
            if isinstance(item, Skipped):
                yield self.skipped(item)
            elif item is not None:
                self._add_item(item)
                if isinstance(item, ChunkedDocument) and item.chunks and item.document.losses:
                    part = without_piece_number(item.document.part)
                    name = origin_name(item.document.source, "" if part.isdecimal() else part)
                    yield ContentLost(name, item.document.losses)
            if item is None or self._is_commit_overdue or _chunks_of(self._waiting) >= self._batch_chunks:
                yield from self._encode()
            yield from self._keep_up()
            if self.is_stopped:
                return
        yield from self._encode()
        if not self._under_way:
            self._commit()
            yield from self._encode()  # known content that was removed before it was stored again
        self.is_complete = not self._under_way

    def prune(self, origins: Collection[tuple[str, str]]) -> None:
        """Remove origins whose files are gone, so that it can be undone if the disk has room for that."""
        if origins and self._bank.path:
            with suppress(BankError):
                self._pruned = remove_undoably(self._bank, origins)
        if origins:
            self._count_removed(self._pruned or self._bank.remove(origins), origins)

    def _count_removed(self, removed: int, origins: Collection[tuple[str, str]]) -> None:
        self._removed += removed
        for source, part in sorted(origins):
            self._name("removed", origin_name(source, part))

    def finish(self, open_model: OpenTextModel | None, most_recoded: int | None) -> Iterator[Event]:
        """Recode the texts if everything is memorised, and yield `IngestFinished`."""
        seconds, is_recoded = self._seconds(), True
        recoding = recode(self._bank, open_model, most_recoded, self._stop, added=self._chunks)
        for event in recoding if self.is_complete else ():
            is_recoded = bool(event.problem) or event.done == event.chunks
            yield event
        self.is_complete = self.is_complete and (is_recoded or not self.is_stopped)
        yield replace(self.summary(), seconds=seconds)

    def summary(self) -> IngestFinished:
        self._bank.checkpoint()
        totals, sizes = self._bank.totals(), self._bank.sizes()
        return IngestFinished(
            documents=self._documents,
            chunks=self._chunks,
            unchanged=self._unchanged,
            removed=self._removed,
            skipped=self._skipped,
            seconds=self._seconds(),
            encoding=round(self._encoding_seconds, 3),
            is_complete=self.is_complete,
            bank_documents=totals.documents,
            bank_origins=totals.origins,
            bank_chunks=totals.chunks,
            code_bytes=sizes.codes,
            text_bytes=sizes.texts,
            word_bytes=sizes.words,
            codebook_bytes=sizes.codebook,
            file_bytes=sizes.file,
            not_english=self._not_english,
            pruned=self._pruned,
            gone=len(self.gone),
            gone_sources=tuple(self.gone[:_NAMED_SOURCES]) if self._bank.header.keeps_origins else (),
            **{f"{kind}_sources": tuple(names) for kind, names in self._named.items()},
        )

    def add_encoding_seconds(self, seconds: float) -> None:
        self._encoding_seconds += seconds

    @property
    def _is_commit_overdue(self) -> bool:
        return time.monotonic() - self._committed >= _COMMIT_SECONDS

    def _add_item(self, item: Path | ChunkedDocument | FileRead) -> None:
        if isinstance(item, Path):
            self._being_read[item] = None
            self._current = printable_path(item)
            return
        if isinstance(item, FileRead):
            self._being_read.pop(item.path, None)
            self._current = printable_path(next(iter(self._being_read), ""))
            self._files_read += 1
            self._lost |= item.lost
            self._size += item.size
            return
        if not seems_english("\n".join(chunk.text for chunk in item.chunks[:_LANGUAGE_CHUNKS])):
            self._not_english += 1
            self._name("not_english", item.document.source)
        if item.codes is None and not item.is_known and item.document.digest not in self._recent:
            self._waiting.append(item)
            return
        self._sources.append(item.document.source)
        if item.chunks:
            self._ready.append(item)
            self._chunks_encoded += 0 if item.codes is None else len(item.codes)
        else:
            self._unchanged += 1
        self._size += item.size

    def _encode(self) -> Iterator[Event]:
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, []
        owners = [number for number, item in enumerate(batch) for _ in item.chunks]  # of each text
        texts, contexts = zip(*(pair for item in batch for pair in item.inputs), strict=True)
        missing = [len(item.chunks) for item in batch]
        starts = [0, *accumulate(missing)]
        codes: dict[int, NDArray[np.integer[Any]]] = {}
        self._under_way = len(batch)
        with closing(self._model.memorise_stepwise(texts, contexts)) as steps:
            while True:
                began = time.monotonic()
                step = next(steps, None)
                self._encoding_seconds += time.monotonic() - began
                if step is None:
                    return
                codes |= zip(*step, strict=True)
                numbers = [owners[index] for index in step[0]]
                for number in numbers:
                    missing[number] -= 1
                    self._size += batch[number].size / len(batch[number].chunks)
                for number in sorted({*numbers}):
                    if not missing[number]:
                        rows = np.stack([codes.pop(index) for index in range(starts[number], starts[number + 1])])
                        self._ready.append(replace(batch[number], codes=rows))
                        self._recent.add(batch[number].document.digest)
                        self._under_way -= 1
                        self._sources.append(batch[number].document.source)
                self._chunks_encoded += len(numbers)
                self._current = batch[numbers[-1]].document.source
                if self.is_stopped and self._under_way:
                    return
                yield from self._keep_up()

    def _keep_up(self) -> Iterator[Event]:
        is_due = self._is_commit_overdue or _chunks_of(self._ready) >= self._batch_chunks
        if (is_due and self._commit()) or time.monotonic() - self._reported >= _REPORT_SECONDS:
            yield self._progress()

    def _commit(self) -> bool:
        """Store whole documents in one transaction; returns whether there were any."""
        is_last = not self._waiting and not self._under_way
        if not self._ready and not (is_last and self._lost):
            return False
        ready, self._ready = self._ready, []
        with self._bank.changing():
            absent = self._bank.put([StoredDocument.of(item.document, item.codes, item.chunks) for item in ready])
            self._waiting += [replace(ready[index], size=0) for index in absent]
            if is_last and not absent:  # so that content that has only moved always has an origin
                self._count_removed(self._bank.remove(self._lost), self._lost)
                self._lost = set()
        self._documents += len(ready) - len(absent)
        for item in ready:
            self._name("memorised", item.document.source)
        self._chunks += sum(len(item.chunks) for item in ready if item.codes is not None)
        if len(self._recent) > _RECENT:
            self._recent.clear()
        self._committed = time.monotonic()
        return True

    def _progress(self) -> DocumentsIngested:
        self._reported = time.monotonic()
        sources, current = (tuple(self._sources), self._current) if self._bank.header.keeps_origins else ((), "")
        self._sources.clear()
        done = self._documents, self._chunks_encoded, self._unchanged
        return DocumentsIngested(*done, round(self._size), self._seconds(), sources, self._files_read, current)

    def _name(self, kind: str, source: str) -> None:
        names = self._named[kind]
        if len(names) < _NAMED_SOURCES and self._bank.header.keeps_origins:
            names[source] = None

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)


def _chunks_of(items: Iterable[ChunkedDocument]) -> int:
    return sum(len(item.chunks) for item in items)


def holds_below(bank: MemoryBank, paths: Sequence[Path]) -> bool:
    """Whether the bank has something from these files or folders, which may be gone."""
    is_below = _below(paths)
    return any(is_below(origin.source) for origin in bank.origins())


def _below(paths: Iterable[Path]) -> Callable[[str], bool]:
    """Whether a real path is one of these files, or in one of these folders."""
    roots = {os.path.realpath(path) for path in paths}
    folders = tuple(root.rstrip(os.sep) + os.sep for root in roots)
    return lambda real: real in roots or real.startswith(folders)


def deleted_origins(bank: MemoryBank, paths: Sequence[Path], walk: WalkResult) -> set[tuple[str, str]]:
    """The origins the bank has from the named folders, except for files found and what could not be accessed.

    Of a path that is gone, it is unknown whether it was a folder.
    """
    is_below = _below(path for path in paths if path.is_dir() or not os.path.lexists(path))
    files = {os.path.realpath(path) for path in walk.files}
    unknown = {os.path.realpath(skipped.source) for skipped in walk.skipped}

    def is_deleted(source: str) -> bool:
        is_missing = source not in files and is_below(source)
        return is_missing and unknown.isdisjoint([source, *map(str, Path(source).parents)])

    return {origin[:2] for origin in bank.origins() if is_deleted(origin.source)}


def watch(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    is_choosy: bool = True,
    prune: bool = False,
    workers: int = 0,
    text_column: str | None = None,
    open_model: OpenTextModel | None = None,
    most_recoded: int | None = None,
    stop: threading.Event,
) -> Iterator[Event]:
    """As `ingest`, then again for whatever changes in the files and folders, until `stop` is set.

    Each ingest yields its own events, `IngestFinished` last; only the first uses `workers`. Texts are recoded while
    nothing changes. A path may disappear and come back. While another process writes to the bank, changes wait. Raises
    DataError if paths cannot be watched.
    """
    from watchfiles import Change

    require_paths(paths, ignore)
    changes = _changes(paths, stop)
    ingest_here = partial(ingest, model, bank, text_column=text_column, stop=stop)
    try:
        next(changes, None)  # start watching before the first walk, so that no change is missed
        first = ingest_here(paths, ignore=ignore, is_choosy=is_choosy, prune=prune, workers=workers)
        added: int | None = yield from _counted(first)
        waiting: set[tuple[Change, str]] = set()
        recoding: Iterator[Event] = iter(())
        for changed in changes:
            waiting |= changed
            if not waiting:
                if added is not None:
                    recoding = chain(recoding, recode(bank, open_model, most_recoded, stop, added=added))
                    added = None
                yield from islice(recoding, 1)
                continue
            existing = [path for path in paths if path.exists()]
            walk = find_files(existing, ignore, is_choosy=is_choosy, stop=stop)
            touched = _touched(walk, [Path(path) for _, path in waiting])
            may_be_deleted = any(
                change == Change.deleted or Path(path).name in IGNORE_FILES for change, path in waiting
            )
            find_deleted = partial(deleted_origins, bank, paths, walk) if prune and may_be_deleted else None
            try:
                if touched.files or touched.skipped or find_deleted:
                    added = (added or 0) + (yield from _counted(ingest_here(touched, find_deleted=find_deleted)))
            except BankBusy:
                continue
            waiting = set()
        yield from recoding  # saves what it has done
    except OSError as error:
        raise DataError(
            f"The folders cannot be watched: {error}.", hint="Run the ingest from time to time instead."
        ) from error


def _counted(events: Iterable[Event]) -> Generator[Event, None, int]:
    """Pass on the events of an ingest; returns the number of chunks that it memorised."""
    for event in events:
        yield event
    assert isinstance(event, IngestFinished), "it is the last event"
    return event.chunks


def _changes(paths: Sequence[Path], stop: threading.Event) -> Iterator[set[tuple["Change", str]]]:
    """Sets of changes at the paths, as they happen; empty ones in between.

    The system watches a folder, not its name, so one that is gone or replaced counts as changed, and all are watched anew.
    """
    from watchfiles import Change
    from watchfiles import watch as changes

    # A named file is watched through its folder, as saving often replaces the file.
    folders = sorted({path.absolute() if path.is_dir() else path.absolute().parent for path in paths})
    renewed = set[tuple[Change, str]]()
    while True:
        watched = {folder: _identity(folder) for folder in folders}
        with suppress(FileNotFoundError):  # one was removed just now
            for changed in changes(
                *(folder for folder in folders if watched[folder]),
                watch_filter=None,
                stop_event=stop,
                rust_timeout=_STOP_MILLISECONDS,
                yield_on_timeout=True,
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                yield changed | renewed
                # A new folder often gets the number of a removed one, whose removal is reported.
                renewed = {
                    gone
                    for folder in folders
                    if (gone := (Change.deleted, str(folder))) in changed or _identity(folder) != watched[folder]
                }
                if renewed:
                    break
            else:
                return


def _identity(folder: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        status = folder.stat()
        return status.st_dev, status.st_ino
    return None


def _touched(walk: WalkResult, changed: Iterable[Path]) -> WalkResult:
    """What was found at changed paths or below them, or in the folder of a changed ignore file."""
    is_touched = _below(path.parent if path.name in IGNORE_FILES else path for path in changed)
    return WalkResult(
        tuple(path for path in walk.files if is_touched(os.path.realpath(path))),
        tuple(skipped for skipped in walk.skipped if is_touched(os.path.realpath(skipped.source))),
    )
