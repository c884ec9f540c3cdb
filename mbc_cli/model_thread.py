"""The one thread that runs a memory and its model, and the queue of work for it; the engine needs no locks."""

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mbc_engine.errors import MBCError
from mbc_engine.memory import Memory

IDLE_SECONDS: Final = 600.0  # without work before the model is unloaded
SHUTTING_DOWN: Final = "The server is shutting down."
_Result = TypeVar("_Result")


class QueueFull(MBCError):
    """The queue is full."""


class ModelThreadClosed(MBCError):
    """The thread takes no more work."""


@dataclass(eq=False)
class _Job:
    key: Hashable
    run: Callable[[list[Any]], Sequence[Any]]
    item: Any = None
    size: float = 0.0
    future: "Future[Any]" = field(default_factory=Future)


class ModelThread:
    """Runs work in a thread of its own, oldest first; its futures can be cancelled until their turn.

    The thread starts with the first work or with `start`, unloads the model after a long time without work, and ends
    with `close`. The program need not wait for it.

    Args:
        memory: used only in the thread once it has started.
        capacity: how much work may wait; None for any.
        batch: how many items are processed together at most.
        on_unload: called in the thread when the model has been unloaded.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        capacity: int | None = None,
        batch: int = 1,
        on_unload: Callable[[], object] = lambda: None,
    ) -> None:
        self.memory = memory
        self._capacity, self._batch, self._on_unload = capacity, batch, on_unload
        self._waiting: list[_Job] = []
        self._closing: _Job | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="memory", daemon=True)

    @property
    def is_open(self) -> bool:
        return self._closing is None

    def start(self) -> None:
        """Start the thread if it has not started yet; the time until the model is unloaded counts from then."""
        with self._changed:
            if self._thread.ident is None:
                self._thread.start()

    def submit(self, work: Callable[[], _Result]) -> "Future[_Result]":
        """Queue work. Raises QueueFull or ModelThreadClosed."""
        return self._queue(_job(work))

    def submit_item(
        self, process: Callable[..., Sequence[Any]], *settings: Hashable, item: Any, size: float = 0.0
    ) -> "Future[Any]":
        """Queue an item for `process(*settings, items)`, which gets waiting items of the same settings together.

        Args:
            process: returns the result of each item, or an exception to raise.
            settings: hashable; items of other settings wait for another call.
            size: those of the items in a call add up to at most 1, unless it has a single one.

        Raises QueueFull or ModelThreadClosed.
        """
        return self._queue(_Job((process, *settings), lambda items: process(*settings, items), item, size))

    def close(self) -> "Future[None]":
        """Accept no more work; the memory is closed after what is waiting. The future raises what closing it raises."""
        with self._changed:
            if self._closing is None:
                self._closing = _job(self.memory.close)
                self._changed.notify()
        self.start()
        return self._closing.future

    def _queue(self, job: _Job) -> "Future[Any]":
        with self._changed:
            if self._closing is not None:
                raise ModelThreadClosed(SHUTTING_DOWN)
            self._waiting = [waiting for waiting in self._waiting if not waiting.future.cancelled()]
            if self._capacity is not None and len(self._waiting) >= self._capacity:
                raise QueueFull("Too many requests are waiting for the model; try again.")
            self._waiting.append(job)
            self._changed.notify()
        self.start()
        return job.future

    def _serve(self) -> None:
        is_idle = False
        while True:
            with self._changed:
                patience = None if is_idle else IDLE_SECONDS
                is_due = self._changed.wait_for(lambda: self._waiting or self._closing, patience)
                batch = self._next_batch()
            if batch:
                _run(batch)
                is_idle = False
            elif not is_due:
                _run([_job(self._unload)])
                is_idle = True
            elif self._closing is not None:
                _run([self._closing])
                return

    def _unload(self) -> None:
        self.memory.unload()
        self._on_unload()

    def _next_batch(self) -> list[_Job]:
        """The oldest job and later ones of its key, in order, while they fit."""
        batch: list[_Job] = []
        for job in [job for job in self._waiting if not job.future.cancelled()]:
            if batch and job.key != batch[0].key:
                continue
            if batch and (len(batch) == self._batch or sum(other.size for other in (*batch, job)) > 1):
                break
            if job.future.set_running_or_notify_cancel():
                batch.append(job)
        self._waiting = [job for job in self._waiting if not (job.future.running() or job.future.done())]
        return batch


def _job(work: Callable[[], object]) -> _Job:
    return _Job(object(), lambda _: [work()])


def _run(batch: list[_Job]) -> None:
    try:
        results = batch[0].run([job.item for job in batch])
    except BaseException as error:  # noqa: BLE001  # raised where each result is awaited
        results = [error] * len(batch)
    for job, result in zip(batch, results, strict=True):
        if isinstance(result, BaseException):
            job.future.set_exception(result)
        else:
            job.future.set_result(result)
