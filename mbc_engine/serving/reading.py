"""Files into chunks, ready to be encoded: in this process, or in others while the model is at work."""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from mbc_engine.bank import MemoryBank, Record
from mbc_engine.documents import Document, Skipped, read_file
from mbc_engine.errors import MBCError
from mbc_engine.model.chunker import Chunker

# Documents read ahead: enough for the model's next batch while it is busy with one.
_AHEAD: Final = 512


@dataclass(frozen=True)
class Chunked:
    """A document the bank does not have, or not so; `size` bytes of its file on the disk were read for it."""

    record: Record
    chunks: list[str]
    size: int


@dataclass(frozen=True)
class Unchanged:
    """A document the bank has just so; `size` bytes of its file were read for it."""

    size: int


@dataclass(frozen=True)
class FileRead:
    """A file has come to its end.

    Attributes:
        size: bytes of it that were not counted for its documents.
        lost: parts of it, with their source, that the bank has and the file has no more.
    """

    size: int
    lost: frozenset[tuple[str, str]]


Item = Chunked | Unchanged | Skipped | FileRead


def chunked(document: Document, bank: MemoryBank, chunker: Chunker, size: int = 0) -> Chunked | Unchanged | Skipped:
    """What a document, for which `size` bytes were read, is to a bank."""
    record = Record(document.source, document.part, document.digest, document.size, document.date)
    if bank.knows(record):
        return Unchanged(size)
    chunks = chunker(document.text)
    return Chunked(record, chunks, size) if chunks else Skipped(document.source, "is empty")


def read_chunks(path: Path, bank: MemoryBank, chunker: Chunker) -> Iterator[Item]:
    """What becomes of one file; `FileRead` comes last."""
    source, parts, is_whole, position = os.path.realpath(path), set[str](), True, 0
    for document in read_file(path):
        if isinstance(document, Skipped):
            is_whole = is_whole and document.source != source
            yield document
        else:
            parts.add(document.part)
            yield chunked(document, bank, chunker, document.position - position)
            position = document.position
    lost = bank.parts_of(source) - parts if is_whole else set()
    yield FileRead(max(0, bytes_at(path) - position), frozenset((source, part) for part in lost))


def bytes_at(path: Path) -> int:
    """The size of a file on the disk; 0 where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def read_all(
    paths: Sequence[Path], bank: MemoryBank, chunker: Chunker, *, workers: int = 0
) -> Generator[Item, None, None]:
    """What becomes of many files. Other processes read them if there are to be `workers` and the bank is a file."""
    if not workers or bank.path is None:
        for path in paths:
            yield from read_chunks(path, bank, chunker)
        return
    with Workers(paths, bank.path, chunker, min(workers, len(paths))) as items:
        yield from items


class Workers:
    """Processes that read files ahead of whoever iterates. Leaving the block ends them.

    A thread a process hands it one file after another and takes what it sends. A process that dies, of a file that
    takes all memory or brings a parser down, is replaced, and the file counts as skipped.

    Args:
        paths: the files.
        bank: the bank file, which the processes look into for what is unchanged.
        chunker: cuts the texts.
        number: how many processes, at least 1.
    """

    def __init__(self, paths: Sequence[Path], bank: Path, chunker: Chunker, number: int) -> None:
        self._waiting = iter(paths)
        self._taking = threading.Lock()
        self._task = bank, chunker
        self._items: queue.Queue[Item | BaseException | None] = queue.Queue(_AHEAD)
        self._is_closed = threading.Event()
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(number)]

    def __enter__(self) -> Iterator[Item]:
        for thread in self._threads:
            thread.start()
        return self._taken()

    def __exit__(self, *exception: object) -> None:
        self._is_closed.set()
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.join()

    def _taken(self) -> Iterator[Item]:
        running = len(self._threads)
        while running:
            item = self._items.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def _serve(self) -> None:
        try:
            connection = self._start()
            while not self._is_closed.is_set() and (path := self._next()) is not None:
                try:
                    connection.send(path)
                    while (item := connection.recv()) is not None:
                        if isinstance(item, MBCError):
                            raise item
                        self._put(item)
                except (EOFError, OSError):
                    if self._is_closed.is_set():
                        return
                    self._put(Skipped(os.fsdecode(path), "ended the process that read it"))
                    self._put(FileRead(bytes_at(path), frozenset()))
                    connection = self._start()
            connection.close()
        except BaseException as error:
            self._put(error)
        finally:
            self._put(None)

    def _next(self) -> Path | None:
        with self._taking:
            return next(self._waiting, None)

    def _put(self, item: Item | BaseException | None) -> None:
        while not self._is_closed.is_set():
            try:
                return self._items.put(item, timeout=0.1)
            except queue.Full:
                continue

    def _start(self) -> Connection:
        # Not forked: a fork of a process in which torch has threads may wait for ever for a lock of theirs.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self._task), daemon=True)
        process.start()
        self._processes.append(process)
        theirs.close()
        return ours


def _work(connection: Connection, path: Path, chunker: Chunker) -> None:
    """A process's life: files in, what becomes of them out, until the other end goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of a terminal; the first one decides
    with contextlib.suppress(EOFError, OSError):
        try:
            with MemoryBank.open(path, read_only=True) as bank:
                while True:
                    for item in read_chunks(connection.recv(), bank, chunker):
                        connection.send(item)
                    connection.send(None)
        except MBCError as error:
            connection.send(error)
