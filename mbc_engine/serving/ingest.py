"""Reading files into a bank (paper, algorithm 2, lines 2 to 5): forward passes only, committed batch by batch."""

import os
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import MemoryBank
from mbc_engine.documents import Found, Skipped, find_files, read_stream
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.load import Model
from mbc_engine.model.bank_binding import signature
from mbc_engine.serving.reading import Chunked, Encoded, FileRead, Item, Unchanged, bytes_at, chunked
from mbc_engine.serving.reading_ahead import read_all

# Chunks between two commits: what a kill may lose, and what is sorted by length to encode.
BATCH_CHUNKS = 128
_REPORT_SECONDS = 0.5


def ingest(
    model: Model,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    ignore: Sequence[str] = (),
    prune: bool = False,
    workers: int = 0,
    batch_chunks: int = BATCH_CHUNKS,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Memorise files and folders. What the bank has unchanged is passed over, what has changed replaces its codes.

    Args:
        model: the bank's own model.
        bank: where the codes go; each batch is one transaction.
        paths: files and folders.
        ignore: patterns as in .gitignore, relative to each named folder.
        prune: forget in the end what the bank has from below the named folders and the walk did not meet.
        workers: processes that read and chunk files while the model is at work; 0 does it in between. As with all of
            `multiprocessing`, a script that asks for them needs `if __name__ == "__main__":`.
        batch_chunks: a commit follows when this many chunks wait; documents are not divided between commits.
        stop: set it to end after the batch in progress; what is committed stays, and another ingest goes on from there.

    Raises:
        DataError: a path does not exist.
        BankError: the bank cannot be written.
        ModelMismatch: another model wrote the bank.
    """
    found = find_files(paths, ignore)
    gone = partial(vanished, bank, paths, found) if prune else None
    yield from ingest_found(model, bank, found, gone=gone, workers=workers, batch_chunks=batch_chunks, stop=stop)


def ingest_found(
    model: Model,
    bank: MemoryBank,
    found: Found,
    *,
    gone: Callable[[], Collection[tuple[str, str]]] | None = None,
    workers: int = 0,
    batch_chunks: int = BATCH_CHUNKS,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """`ingest` after the walk. What `gone` gives when all is read, origins by source and part, is forgotten."""
    bank.require(signature(model))
    run = Run(model, bank, batch_chunks, stop)
    yield from run.over(found, read_all(found.files, bank, model.chunker, workers=workers), gone)


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
        self._began = time.monotonic()
        self._encoding = 0.0
        self._documents = self._chunks = self._unchanged = self._removed = self._skipped = 0
        self._size = 0
        self._source = ""
        self._waiting: list[Chunked | Encoded] = []
        self._lost: set[tuple[str, str]] = set()

    def over(
        self,
        found: Found,
        items: Generator[Item | Encoded, None, None],
        gone: Callable[[], Collection[tuple[str, str]]] | None,
    ) -> Iterator[Event]:
        """All events of an ingest of what a walk has found; see `ingest_found`."""
        yield IngestStarted(len(found.files), sum(map(bytes_at, found.files)))
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

    def memorise(self, items: Generator[Item | Encoded, None, None]) -> Iterator[Event]:
        """Encode what is not encoded yet, and commit items, batch by batch."""
        waiting_chunks, reported = 0, time.monotonic()
        with closing(items):
            for item in items:
                if self._stop is not None and self._stop.is_set():
                    return
                match item:
                    case Skipped():
                        yield self.skipped(item)
                    case Unchanged():
                        self._unchanged += 1
                        self._size += item.size
                        self._source = item.source
                    case FileRead():
                        self._lost |= item.lost
                        self._size += item.size
                    case Chunked() | Encoded():
                        self._waiting.append(item)
                        self._source = item.record.source
                        waiting_chunks += len(item.chunks if isinstance(item, Chunked) else item.codes)
                        self._size += item.size
                if waiting_chunks >= self._batch_chunks:
                    self._commit()
                    waiting_chunks = 0
                elif time.monotonic() - reported < _REPORT_SECONDS:
                    continue
                reported = time.monotonic()
                yield self._progress()
            self._commit()
            self.is_complete = True
            yield self._progress()

    def remove(self, origins: Collection[tuple[str, str]]) -> None:
        """Forget origins, given as source and part."""
        if origins:
            self._removed += self._bank.remove(origins)

    def finished(self) -> IngestFinished:
        """The last event."""
        self._bank.settle()
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

    def _commit(self) -> None:
        """Encode together all that waits, but for contents the bank has under other names, and store it."""
        if not self._waiting and not self._lost:
            return
        records = [item.record for item in self._waiting]
        new = [self._waiting[place] for place in self._bank.adopt(records)] if records else []
        codes = self._codes(new)
        with self._bank.changing():
            self._bank.add([(item.record, own, item.chunks) for item, own in zip(new, codes, strict=True)])
            self.remove(self._lost)
        self._documents += len(records)
        self._chunks += sum(map(len, codes))
        self._waiting, self._lost = [], set()

    def _codes(self, items: Sequence[Chunked | Encoded]) -> list[NDArray[np.integer[Any]]]:
        """The codes of each, [chunks, tokens, levels]."""
        began = time.monotonic()
        texts = [item.chunks for item in items if isinstance(item, Chunked)]
        codes = self._model.memorise([chunk.text for chunks in texts for chunk in chunks])
        made = iter(np.split(codes, np.cumsum(list(map(len, texts)))[:-1]))
        self._encoding += time.monotonic() - began
        return [next(made) if isinstance(item, Chunked) else item.codes for item in items]

    def _progress(self) -> DocumentsIngested:
        return DocumentsIngested(
            self._documents,
            self._chunks,
            self._unchanged,
            self._size,
            self._seconds(),
            self._source if self._bank.header.keeps_origins else "",
        )

    def _seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)


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
