"""Reading files into a bank (paper, algorithm 2, lines 2 to 5): forward passes only, committed batch by batch."""

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.ingestion.reading import Chunked, Encoded, FileRead, Item, Unchanged, bytes_at, chunked, read_all
from mbc_engine.lm.coding import signature
from mbc_engine.load import Model
from mbc_engine.text import Found, Skipped, find_files, read_stream

# Chunks between two commits: what a kill may lose, and what is sorted by length to encode on a GPU.
BATCH_CHUNKS = 128
# On a CPU, so many chunks take longer than anybody wants to lose.
_COMMIT_SECONDS = 3.0
_REPORT_SECONDS = 0.5

_Step = tuple[Sequence[int], NDArray[np.integer[Any]]]


def ingest(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    prune: bool = False,
    workers: int = 0,
    text_column: str | None = None,
    batch_chunks: int = BATCH_CHUNKS,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Memorise files and folders. What the bank has unchanged is passed over, what has changed replaces its codes.

    Args:
        model: the bank's own model.
        bank: where the codes go; each commit is one transaction.
        paths: files and folders.
        ignore: patterns as in .gitignore, relative to each named folder.
        prune: forget in the end what the bank has from below the named folders and the walk did not meet.
        workers: processes that read and chunk files while the model is at work; 0 does it in between. As with all of
            `multiprocessing`, a script that asks for them needs `if __name__ == "__main__":`.
        text_column: the column or field that holds the text of a row in CSV and JSON Lines; see `read_file`. Rows that
            were read with another one are replaced.
        batch_chunks: a commit follows when so many chunks are encoded, or a few seconds after the last one; documents
            are not divided between commits.
        stop: set it to end within a step of the model. Documents that are whole by then are committed, and another
            ingest goes on from there.

    Raises:
        DataError: a path does not exist.
        BankError: the bank cannot be written.
        ModelMismatch: another model wrote the bank.
    """
    found = find_files(paths, ignore, stop=stop)
    gone = partial(vanished, bank, paths, found) if prune else None
    yield from ingest_found(
        model, bank, found, gone=gone, workers=workers, text_column=text_column, batch_chunks=batch_chunks, stop=stop
    )


def ingest_found(
    model: Model,
    bank: MemoryBank,
    found: Found,
    *,
    gone: Callable[[], Collection[tuple[str, str]]] | None = None,
    workers: int = 0,
    text_column: str | None = None,
    batch_chunks: int = BATCH_CHUNKS,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """`ingest` after the walk. What `gone` gives when all is read, origins by source and part, is forgotten."""
    bank.require(signature(model))
    run = Run(model, bank, batch_chunks, stop)
    items = read_all(found.files, bank, model.chunker, workers=workers, text_column=text_column)
    yield from run.over(found, items, gone)


def ingest_stream(
    model: Model, bank: MemoryBank, stream: BinaryIO, *, stop: threading.Event | None = None
) -> Iterator[Event]:
    """Memorise a text from a stream, such as standard input; events as of `ingest`.

    Args:
        model: the bank's own model.
        bank: where the codes go. The text's source is `stdin:` and how its digest begins.
        stream: plain text as bytes, for example `io.BytesIO(text.encode())`.
        stop: as in `ingest`.

    Raises:
        BankError: the bank cannot be written.
        ModelMismatch: another model wrote the bank.
    """
    bank.require(signature(model))
    yield IngestStarted(1, 0)
    run = Run(model, bank, BATCH_CHUNKS, stop)
    chunker = model.chunker
    yield from run.memorise(
        item if isinstance(item, Skipped) else chunked(item, bank, chunker) for item in read_stream(stream)
    )
    yield run.finished()


class Run:
    """One pass of items into a bank, and what is counted on the way.

    Attributes:
        is_complete: whether it has come to its end and was not stopped.
    """

    def __init__(self, model: Model, bank: MemoryBank, batch_chunks: int, stop: threading.Event | None) -> None:
        self._model, self._bank, self._batch_chunks, self._stop = model, bank, batch_chunks, stop
        self.is_complete = False
        self._began = self._committed = self._reported = time.monotonic()
        self._encoding = 0.0
        self._documents = self._chunks = self._unchanged = self._removed = self._skipped = 0
        self._chunks_encoded = self._size = 0
        self._source = ""
        self._waiting: list[Chunked | Encoded] = []
        self._under_way = 0  # documents that are being encoded
        self._encoded: list[Encoded] = []  # whole documents that are not committed yet
        self._lost: set[tuple[str, str]] = set()

    def over(
        self,
        found: Found,
        items: Generator[Item | Encoded | None, None, None],
        gone: Callable[[], Collection[tuple[str, str]]] | None,
    ) -> Iterator[Event]:
        """All events of an ingest of what a walk has found; see `ingest_found`."""
        yield IngestStarted(len(found.files), self._size_of(found.files))
        for skipped in found.skipped:
            if not self._bank.is_file(Path(skipped.source)):
                yield self.skipped(skipped)
        yield from self.memorise(items)
        if gone and self.is_complete:
            self.remove(gone())
        yield self.finished()

    def skipped(self, item: Skipped) -> FileSkipped:
        """Count what was not read."""
        self._skipped += 1
        self._source = item.source
        return FileSkipped(item.source, item.reason)

    def memorise(self, items: Generator[Item | Encoded | None, None, None]) -> Iterator[Event]:
        """Encode what is not encoded yet, and commit whole documents, every few seconds at least.

        A stop is noticed between two items, and between two steps of the model. What is whole by then is committed.
        """
        self.is_complete = False
        with closing(items):
            if self._is_stopped:
                return
            for item in items:
                if isinstance(item, Skipped):
                    yield self.skipped(item)
                elif item is not None:
                    self._take(item)
                if self._is_time_to_encode(is_idle=item is None):
                    yield from self._encode()
                yield from self._keep_up()
                if self._is_stopped:
                    break
            else:
                yield from self._encode()
                self.is_complete = not self._under_way
            self._commit()
            if self.is_complete:
                yield self._progress()

    def remove(self, origins: Collection[tuple[str, str]]) -> None:
        """Forget origins, given as source and part."""
        if origins:
            self._removed += self._bank.remove(origins)

    def finished(self) -> IngestFinished:
        """The last event."""
        self._bank.checkpoint()
        totals, sizes = self._bank.totals(), self._bank.sizes()
        return IngestFinished(
            documents=self._documents,
            chunks=self._chunks,
            unchanged=self._unchanged,
            removed=self._removed,
            skipped=self._skipped,
            seconds=self._seconds(),
            encoding=round(self._encoding, 3),
            is_complete=self.is_complete,
            bank_documents=totals.documents,
            bank_origins=totals.origins,
            bank_chunks=totals.chunks,
            code_bytes=sizes.codes,
            text_bytes=sizes.texts,
            codebook_bytes=sizes.codebook,
            file_bytes=sizes.file,
        )

    def encoded_elsewhere(self, seconds: float) -> None:
        """Count time that encoding took in other processes."""
        self._encoding += seconds

    @property
    def _is_stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    @property
    def _is_commit_overdue(self) -> bool:
        return time.monotonic() - self._committed >= _COMMIT_SECONDS

    def _size_of(self, files: Sequence[Path]) -> int:
        """Bytes of the files on the disk, as far as a stop lets them be looked at."""
        return sum(map(bytes_at, takewhile(lambda _: not self._is_stopped, files)))

    def _take(self, item: Chunked | Encoded | Unchanged | FileRead) -> None:
        match item:
            case Unchanged():
                self._unchanged += 1
                self._size += item.size
                self._source = item.source
            case FileRead():
                self._lost |= item.lost
                self._size += item.size
            case _:
                self._waiting.append(item)

    def _is_time_to_encode(self, *, is_idle: bool) -> bool:
        """Whether there is enough for a batch, or nothing more comes for now, or the last commit is long ago."""
        if not self._waiting:
            return False
        return is_idle or self._is_commit_overdue or _chunks_of(self._waiting) >= self._batch_chunks

    def _encode(self) -> Iterator[Event]:
        """Encode all that waits, but for contents the bank has under other names."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        new = [waiting[place] for place in self._bank.put([StoredDocument.of(item.document) for item in waiting])]
        self._documents += len(waiting) - len(new)
        self._size += sum(item.size for item in waiting) - sum(item.size for item in new)
        batch = _Batch([item for item in new if isinstance(item, Chunked)])
        self._under_way = len(batch.items)
        for item in new:
            if isinstance(item, Encoded):
                self._encoded.append(item)
                self._chunks_encoded += len(item.codes)
                self._size += item.size
                self._source = item.document.source
        with closing(self._model.memorise_stepwise(batch.texts)) as steps:
            for places, codes in self._timed(steps):
                whole = batch.take(places, codes)
                self._chunks_encoded += len(places)
                self._size += batch.size_at(places)
                self._source = batch.source_at(places)
                self._encoded += whole
                self._under_way -= len(whole)
                if self._is_stopped and self._under_way:
                    return
                yield from self._keep_up()

    def _timed(self, steps: Iterator[_Step]) -> Iterator[_Step]:
        """The model's steps, its time counted."""
        while True:
            began = time.monotonic()
            step = next(steps, None)
            self._encoding += time.monotonic() - began
            if step is None:
                return
            yield step

    def _keep_up(self) -> Iterator[Event]:
        """Commit and report, as far as that is due."""
        is_due = self._is_commit_overdue or _chunks_of(self._encoded) >= self._batch_chunks
        if (is_due and self._commit()) or time.monotonic() - self._reported >= _REPORT_SECONDS:
            yield self._progress()

    def _commit(self) -> bool:
        """Store the documents that are whole; whether there was anything to store."""
        # What a file has lost goes last: a content that only changes its name is never without one.
        lost = set() if self._waiting or self._under_way else self._lost
        if not self._encoded and not lost:
            return False
        with self._bank.changing():
            self._bank.put([StoredDocument.of(item.document, item.codes, item.chunks) for item in self._encoded])
            self.remove(lost)
        self._documents += len(self._encoded)
        self._chunks += _chunks_of(self._encoded)
        self._encoded, self._lost = [], self._lost - lost
        self._committed = time.monotonic()
        return True

    def _progress(self) -> DocumentsIngested:
        self._reported = time.monotonic()
        return DocumentsIngested(
            self._documents,
            self._chunks_encoded,
            self._unchanged,
            self._size,
            self._seconds(),
            self._source if self._bank.header.keeps_origins else "",
        )

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)


class _Batch:
    """Documents whose chunks are encoded together, and get their codes in any order.

    Attributes:
        texts: those of all chunks.
    """

    def __init__(self, items: Sequence[Chunked]) -> None:
        self.items = items
        self.texts = [chunk.text for item in items for chunk in item.chunks]
        lengths = [len(item.chunks) for item in items]
        self._owners = [owner for owner, length in enumerate(lengths) for _ in range(length)]
        self._starts = [0, *accumulate(lengths)]
        self._missing = lengths
        self._codes: dict[int, NDArray[np.integer[Any]]] = {}

    def take(self, places: Sequence[int], codes: NDArray[np.integer[Any]]) -> list[Encoded]:
        """Take codes of some texts, [n, tokens, levels]; the documents that are whole by them."""
        self._codes |= zip(places, codes, strict=True)
        owners = [self._owners[place] for place in places]
        for owner in owners:
            self._missing[owner] -= 1
        return [self._encoded(owner) for owner in sorted({*owners}) if not self._missing[owner]]

    def size_at(self, places: Sequence[int]) -> int:
        """What of the documents' sizes falls to some texts; that of all texts is all of it."""
        return sum(self._share(self._owners[place], place - self._starts[self._owners[place]]) for place in places)

    def source_at(self, places: Sequence[int]) -> str:
        """The source of the last of some texts."""
        return self.items[self._owners[places[-1]]].document.source

    def _share(self, owner: int, ordinal: int) -> int:
        size, count = self.items[owner].size, len(self.items[owner].chunks)
        return size * (ordinal + 1) // count - size * ordinal // count

    def _encoded(self, owner: int) -> Encoded:
        item = self.items[owner]
        codes = np.stack([self._codes.pop(place) for place in range(self._starts[owner], self._starts[owner + 1])])
        return Encoded(item.document, item.chunks, codes, item.size)


def _chunks_of(items: Iterable[Chunked | Encoded]) -> int:
    return sum(len(item.chunks) for item in items)


def vanished(bank: MemoryBank, paths: Sequence[Path], found: Found) -> set[tuple[str, str]]:
    """What the bank has from below the named folders, but for the files found and what could not be looked at."""
    roots = tuple(inside(os.path.realpath(path)) for path in paths if path.is_dir())
    met = {os.path.realpath(path) for path in found.files}
    unknown = {os.path.realpath(skipped.source) for skipped in found.skipped}

    def is_gone(source: str) -> bool:
        if not source.startswith(roots) or source in met:
            return False
        return unknown.isdisjoint([source, *map(str, Path(source).parents)])

    return {origin[:2] for origin in bank.origins() if is_gone(origin.source)}


def inside(folder: str) -> str:
    """How the paths of everything in a folder begin."""
    return folder.rstrip(os.sep) + os.sep
