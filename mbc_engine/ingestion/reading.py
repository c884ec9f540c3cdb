"""What becomes of a file on its way into a bank: chunks ready to be encoded, or why there are none.

Files read one after the other as the model asks for them, or ahead of it by other processes.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import MemoryBank
from mbc_engine.errors import MBCError
from mbc_engine.text import Chunk, Document, Skipped, read_file, shown
from mbc_engine.text.chunks import Chunker


class Known(Protocol):
    """What is memorised already: a bank, or what was looked up in it beforehand."""

    def knows(self, document: Document) -> bool:
        """See `MemoryBank.knows`."""

    def parts_of(self, source: str) -> set[str]:
        """See `MemoryBank.parts_of`."""


@dataclass(frozen=True)
class Chunked:
    """A document the bank does not have, or not so, its text cut into chunks.

    `size` bytes of its file on the disk were read for it.
    """

    document: Document
    chunks: list[Chunk]
    size: int


@dataclass(frozen=True)
class Encoded:
    """What was `Chunked` and has its codes, [chunks, tokens, levels]."""

    document: Document
    chunks: list[Chunk]
    codes: NDArray[np.integer[Any]]
    size: int


@dataclass(frozen=True)
class Unchanged:
    """A document the bank has just so; `size` bytes of its file were read for it."""

    source: str
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


def chunked(document: Document, known: Known, chunker: Chunker, size: int = 0) -> Chunked | Unchanged | Skipped:
    """What a document, for which `size` bytes were read, is to what is known."""
    if known.knows(document):
        return Unchanged(document.source, size)
    chunks = chunker.chunks(document.text)
    return Chunked(replace(document, text=""), chunks, size) if chunks else Skipped(document.source, "is empty")


def read_chunks(path: Path, known: Known, chunker: Chunker, text_column: str | None = None) -> Iterator[Item]:
    """What becomes of one file, read as by `read_file`; `FileRead` comes last."""
    source, parts, is_whole, position = shown(os.path.realpath(path)), set[str](), True, 0
    for document in read_file(path, text_column):
        if isinstance(document, Skipped):
            is_whole = is_whole and (document.is_whole or document.source != source)
            yield document
        else:
            parts.add(document.part)
            yield chunked(document, known, chunker, document.position - position)
            position = document.position
    lost = known.parts_of(source) - parts if is_whole else set()
    yield FileRead(max(0, bytes_at(path) - position), frozenset((source, part) for part in lost))


def bytes_at(path: Path) -> int:
    """The size of a file on the disk; 0 where it cannot be looked at."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


# Chunks read ahead: enough for the model's next batches while it is busy with one.
_AHEAD: Final = 1024
# How long whoever iterates is kept waiting for an item.
_PATIENCE: Final = 0.1


def read_all(
    paths: Sequence[Path], bank: MemoryBank, chunker: Chunker, *, workers: int = 0, text_column: str | None = None
) -> Generator[Item | None, None, None]:
    """What becomes of many files, and None as often as nothing has come for a moment.

    Other processes read the files if there are to be `workers` and the bank is a file.
    """
    if not workers or bank.path is None:
        for path in paths:
            yield from read_chunks(path, bank, chunker, text_column)
        return
    with Workers(paths, bank.path, chunker, min(workers, len(paths)), text_column) as items:
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
        text_column: as of `read_file`.

    Raises:
        MBCError: from the iteration, if the processes cannot start or the bank cannot be read.
    """

    def __init__(
        self, paths: Sequence[Path], bank: Path, chunker: Chunker, number: int, text_column: str | None = None
    ) -> None:
        self._waiting = iter(paths)
        self._taking = threading.Lock()
        self._task = bank, chunker, text_column
        self._items = _Ahead()
        self._is_closed = threading.Event()
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(number)]

    def __enter__(self) -> Iterator[Item | None]:
        for thread in self._threads:
            thread.start()
        return self._taken()

    def __exit__(self, *exception: object) -> None:
        self._is_closed.set()
        self._items.close()
        with self._taking:  # one that starts later ends itself
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.join()

    def _taken(self) -> Iterator[Item | None]:
        running = len(self._threads)
        while running:
            try:
                item = self._items.take(_PATIENCE)
            except Empty:
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
            connection = self._start()
            while not self._is_closed.is_set() and (path := self._next()) is not None:
                try:
                    connection.send(path)
                    while (item := _received(connection)) is not None:
                        self._items.put(item)
                except (EOFError, ConnectionError):
                    if not self._is_closed.is_set():
                        self._items.put(Skipped(shown(path), "ended the process that read it"))
                        self._items.put(FileRead(bytes_at(path), frozenset()))
                        connection = self._start()
            connection.close()
        except BaseException as error:  # noqa: BLE001 - a thread's end: who takes from it raises it
            self._items.put(error)
        finally:
            self._items.put(None)

    def _next(self) -> Path | None:
        with self._taking:
            return next(self._waiting, None)

    def _start(self) -> Connection:
        # Not forked: a fork of a process in which torch has threads may wait for ever for a lock of theirs.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _interrupts_held():
            process.start()
        theirs.close()
        with self._taking:
            self._processes.append(process)
            if self._is_closed.is_set():
                process.kill()
        try:
            ours.send(self._task)  # not among the arguments: writing these to a process that is dead waits for ever
            _received(ours)
        except (EOFError, ConnectionError) as error:
            raise MBCError(
                "The processes that read files cannot start.",
                hint='Use none (--workers 0); a script has to begin its work below `if __name__ == "__main__":`.',
            ) from error
        return ours


class _Ahead:
    """What was read ahead of its use. Who puts waits while there is enough."""

    def __init__(self) -> None:
        self._items: deque[Item | BaseException | None] = deque()
        self._weight = 0
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, item: Item | BaseException | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._weight < _AHEAD or self._is_closed)
            self._items.append(item)
            self._weight += _weight(item)
            self._changed.notify_all()

    def take(self, patience: float) -> Item | BaseException | None:
        """The next thing; raises `Empty` if there is none for so many seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._items, patience):
                raise Empty
            item = self._items.popleft()
            self._weight -= _weight(item)
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


def _weight(item: Item | BaseException | None) -> int:
    return len(item.chunks) if isinstance(item, Chunked) else 1


def _received(connection: Connection) -> Item | None:
    """The next thing a process sends; raises what it could not do."""
    item: Item | BaseException | None = connection.recv()
    if isinstance(item, BaseException):
        raise item
    return item


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process started inside begins with Ctrl-C blocked: it goes to all processes of a terminal, and would end one
    that does not ignore it yet."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its own start, with that of the first process, would unblock it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection) -> None:
    """A process's life: files in, what becomes of them out, until the other end goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, ConnectionError):
        try:
            path, chunker, text_column = connection.recv()
            with MemoryBank.open(path, read_only=True) as bank:
                connection.send(None)  # ready
                while True:
                    for item in read_chunks(connection.recv(), bank, chunker, text_column):
                        connection.send(item)
                    connection.send(None)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - a process's end: the one that asked raises it
            connection.send(error)
