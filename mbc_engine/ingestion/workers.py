"""Reads files and cuts them into chunks for a bank, in this process on demand or ahead of it in others."""

import multiprocessing
import os
import queue
import signal
import threading
from collections import defaultdict
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import BankHeader, MemoryBank
from mbc_engine.errors import MBCError
from mbc_engine.text import Chunk, Document, Skipped, printable_path, read_file
from mbc_engine.text.chunks import Chunker
from mbc_engine.text.context import encoded_parts

# Documents read ahead, enough for the model's next batches.
_READ_AHEAD: Final = 256
# Seconds without an item after which the iterator yields None.
_PATIENCE: Final = 0.1
# Processor time in which a document is read, where it is read by a process of its own.
_MOST_SECONDS: Final = 300.0
_OVERTIME: Final = getattr(signal, "SIGPROF", 0)  # none on Windows


@dataclass(frozen=True)
class KnownDocuments:
    """What a bank knows of a file's documents, with the methods of `MemoryBank`, for a process without the bank."""

    header: BankHeader
    digests: Mapping[str, str]  # of each part, as far as the bank keeps them
    contents: frozenset[bytes]  # in a bank without origins, the digests of all documents

    def knows(self, document: Document) -> bool:
        if not self.header.keeps_origins:
            return not self.contents.isdisjoint(self.header.shortened([document.digest]))
        known = self.digests.get(document.part)
        return known is not None and document.digest.startswith(known)

    def parts_of(self, _source: str) -> set[str]:
        return {*self.digests}


@dataclass(frozen=True)
class ChunkedDocument:
    """A document, without its text, on its way into a bank."""

    document: Document
    size: int  # bytes of its file on the disk that were read for it
    chunks: tuple[Chunk, ...] = ()  # empty if the document is unchanged
    contexts: tuple[str, ...] = ()  # of each chunk, as far as they are encoded
    is_known: bool = False  # the bank has the content, perhaps under another name, so that it need not be encoded
    codes: NDArray[np.integer[Any]] | None = None  # [chunks, tokens, levels], once it is encoded

    @property
    def inputs(self) -> list[tuple[str, str]]:
        """Text and context of each chunk."""
        return [(chunk.text, context) for chunk, context in zip(self.chunks, self.contexts, strict=True)]


@dataclass(frozen=True)
class FileRead:
    """The end of a file."""

    path: Path
    size: int  # bytes of it that were not counted for its documents
    lost: frozenset[tuple[str, str]] = frozenset()  # sources and parts that the bank has but the file no longer does


# A path is the beginning of a file, in processes of this machine.
Item = Path | ChunkedDocument | FileRead | Skipped


def chunked(
    document: Document, known: MemoryBank | KnownDocuments, chunker: Chunker, size: int = 0
) -> ChunkedDocument | Skipped:
    """A document that was read from `size` bytes, cut into chunks unless it is unchanged."""
    bare = replace(document, text="", sections=())
    if known.knows(document):
        return ChunkedDocument(bare, size, is_known=True)
    chunks = tuple(chunker.chunks(document.text, document.sections))
    if not chunks:
        return Skipped(document.source, "is empty")
    # In a bank without origins, `knows` has checked for the content; a Ray actor cannot.
    keeps_origins = known.header.keeps_origins
    is_known = isinstance(known, MemoryBank) and keeps_origins and known.has_content(document.digest)
    # A bank without origins must not know names, and codes are made from the context.
    source = document.source if keeps_origins else ""
    contexts = chunker.contexts(source, document.title, chunks, encoded_parts)
    return ChunkedDocument(bare, size, chunks, tuple(contexts), is_known)


def read_chunks(
    path: Path,
    known: MemoryBank | KnownDocuments,
    chunker: Chunker,
    text_column: str | None = None,
    *,
    follow_links: bool = True,
) -> Iterator[Item]:
    """The documents of one file, read as by `read_file`; `FileRead` comes last."""
    source = printable_path(os.path.realpath(path) if follow_links else path)
    parts, is_complete, position = set[str](), True, 0
    for document in read_file(path, text_column, follow_links=follow_links):
        if isinstance(document, Skipped):
            is_complete = is_complete and (document.is_empty_file or document.source != source)
            yield document
        else:
            parts.add(document.part)
            yield chunked(document, known, chunker, document.position - position)
            position = document.position
    lost = known.parts_of(source) - parts if is_complete else set()
    yield FileRead(path, max(0, file_size(path) - position), frozenset((source, part) for part in lost))


def file_size(path: Path) -> int:
    """The size of a file in bytes; 0 if it cannot be accessed."""
    with suppress(OSError):
        return path.stat().st_size
    return 0


def digests_by_source(bank: MemoryBank, sources: Collection[str] | None = None) -> dict[str, dict[str, str]]:
    """A bank's digests for these sources, or for all, by source and part."""
    digests: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for document in bank.documents():
        for origin in document.origins:
            if sources is None or origin.source in sources:
                digests[origin.source][origin.part] = document.digest
    return digests


def read_all(
    paths: Sequence[Path],
    bank: MemoryBank,
    chunker: Chunker,
    *,
    workers: int = 0,
    text_column: str | None = None,
    follow_links: bool = True,
) -> Generator[Item | None, None, None]:
    """The documents of many files, read by `workers` if the bank is a file; None while waiting for the next.

    If links are not to be followed, by this process.
    """
    if not workers or bank.path is None or not follow_links:
        for path in paths:
            yield path
            yield from read_chunks(path, bank, chunker, text_column, follow_links=follow_links)
        return
    with Workers(paths, bank.path, chunker, min(workers, len(paths)), text_column) as items:
        yield from items


class Workers:
    """Processes that read files ahead of the consumer, until the context exits.

    Each has a thread that sends it files and receives its documents. A process that dies, because a file takes all
    memory or time or crashes a parser, is replaced, and the file skipped. Iterating raises MBCError if processes cannot start,
    or cannot read the bank.
    """

    def __init__(
        self, paths: Sequence[Path], bank: Path, chunker: Chunker, number: int, text_column: str | None = None
    ) -> None:
        self._waiting = iter(paths)
        self._lock = threading.Lock()
        self._task = bank, chunker, text_column, _MOST_SECONDS
        self._items: queue.Queue[Item | BaseException | None] = queue.Queue(_READ_AHEAD)
        self._is_closed = threading.Event()
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(number)]

    def __enter__(self) -> Generator[Item | None, None, None]:
        for thread in self._threads:
            thread.start()
        return self._received_items()

    def __exit__(self, *exception: object) -> None:
        self._is_closed.set()
        with self._lock:  # a process that starts later is killed by its thread
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.join()

    def _received_items(self) -> Generator[Item | None, None, None]:
        running = len(self._threads)
        while running:
            try:
                item = self._items.get(timeout=_PATIENCE)
            except queue.Empty:
                yield None
                continue
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def _serve(self) -> None:
        try:
            connection, process = self._start()
            while not self._is_closed.is_set() and (path := self._next()) is not None:
                self._put(path)
                try:
                    connection.send(path)
                    while (item := _received(connection)) is not None:
                        self._put(item)
                except (EOFError, ConnectionError):
                    if not self._is_closed.is_set():
                        process.join()
                        is_slow = _OVERTIME and process.exitcode == -_OVERTIME
                        reason = "takes too long to read" if is_slow else "crashed the process that read it"
                        self._put(Skipped(printable_path(path), reason))
                        self._put(FileRead(path, file_size(path)))
                        connection, process = self._start()
            connection.close()
        except BaseException as error:  # noqa: BLE001 - of a thread: `_received_items` raises it
            self._put(error)
        finally:
            self._put(None)

    def _put(self, item: Item | BaseException | None) -> None:
        while not self._is_closed.is_set():
            with suppress(queue.Full):
                self._items.put(item, timeout=_PATIENCE)
                return

    def _next(self) -> Path | None:
        with self._lock:
            return next(self._waiting, None)

    def _start(self) -> tuple[Connection, multiprocessing.process.BaseProcess]:
        # Forking a process in which torch has threads may deadlock on one of their locks.
        context = multiprocessing.get_context("spawn")
        connection, child_end = context.Pipe()
        process = context.Process(target=_work, args=(child_end,), daemon=True)
        with _interrupts_held():
            process.start()
        child_end.close()
        with self._lock:
            self._processes.append(process)
            if self._is_closed.is_set():
                process.kill()
        try:
            connection.send(self._task)  # not as arguments: writing these to a dead process blocks forever
            _received(connection)
        except (EOFError, ConnectionError) as error:
            raise MBCError(
                "The processes that read files cannot start.",
                hint='Use --workers 0. In a script, start the work under `if __name__ == "__main__":`.',
            ) from error
        return connection, process


def _received(connection: Connection) -> Item | None:
    item: Item | BaseException | None = connection.recv()
    if isinstance(item, BaseException):
        raise item
    return item


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C, which goes to all processes of a terminal, in a process that starts, until it ignores it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started along with the first process, it would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_after(seconds: float) -> None:
    """End this process when it has worked so long, unless this is called again."""
    if _OVERTIME:
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _work(connection: Connection) -> None:
    """The worker process: receives files and sends their documents, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):
        try:
            path, chunker, text_column, most_seconds = connection.recv()
            with MemoryBank.open(path, read_only=True) as bank:
                connection.send(None)  # ready
                while True:
                    path = connection.recv()
                    _end_after(most_seconds)
                    for item in read_chunks(path, bank, chunker, text_column):
                        connection.send(item)
                        _end_after(most_seconds)
                    connection.send(None)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - of a process: `_received` raises it
            connection.send(error)
