"""Files read one after the other as the model asks for them, or ahead of it by other processes."""

import multiprocessing
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty
from typing import Final

from mbc_engine.bank import MemoryBank
from mbc_engine.documents import Skipped, shown
from mbc_engine.errors import MBCError
from mbc_engine.model.chunker import Chunker
from mbc_engine.serving.reading import Chunked, FileRead, Item, bytes_at, read_chunks

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
