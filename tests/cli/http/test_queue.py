"""Work for one thread: bounded, in batches, dropped when it is cancelled."""

import asyncio
import threading
import time
from collections.abc import Hashable
from typing import Any

import pytest

from mbc_cli.http.queue import BatchQueue
from mbc_cli.http.server import ApiError
from mbc_engine.errors import DataError
from tests.needs import PATIENCE


class Worker:
    """Processes work once `may_begin` is set, and records its batches."""

    def __init__(self) -> None:
        self.batches: list[str] = []
        self.may_begin = threading.Event()

    def process(self, key: Hashable, works: list[str]) -> list[Any]:
        assert self.may_begin.wait(PATIENCE)
        self.batches.append("".join(works))
        if works == ["!"]:
            raise DataError("No.")
        if works == ["?"]:
            raise ZeroDivisionError
        return [DataError("Not this.") if work == "-" else work.upper() for work in works]

    def queue(self) -> BatchQueue:
        """A queue whose thread is busy, so that what is submitted waits."""
        queue = BatchQueue(self.process, batch=3, capacity=8)
        queue.submit("first", "0")
        while queue._waiting:
            time.sleep(0.001)
        return queue


@pytest.fixture
def worker() -> Worker:
    return Worker()


def nothing() -> None: ...


async def test_what_waits_is_done_oldest_first_with_what_is_alike(worker: Worker) -> None:
    queue = worker.queue()
    futures = [queue.submit(key, work) for work, key in ("pa", "qb", "ra", "sb", "ta", "ua")]
    worker.may_begin.set()
    assert await queue.close(lambda: worker.batches.append("closed"), PATIENCE)
    assert worker.batches == ["0", "prt", "qs", "u", "closed"]
    assert await asyncio.gather(*futures) == ["P", "Q", "R", "S", "T", "U"]


async def test_sizes_limit_a_batch_and_nothing_overtakes_its_own_key(worker: Worker) -> None:
    queue = worker.queue()
    for work, size in (("p", 0.6), ("q", 0.6), ("r", 0.3), ("s", 7.0), ("t", 0.1)):
        queue.submit("a", work, size)
    worker.may_begin.set()
    await queue.close(nothing, PATIENCE)
    assert worker.batches == ["0", "p", "qr", "s", "t"]


async def test_cancelled_work_is_not_done_and_leaves_its_place(worker: Worker) -> None:
    queue = worker.queue()
    futures = [queue.submit("a", work) for work in "pqrstuvw"]
    with pytest.raises(ApiError) as full:
        queue.submit("a", "x")
    assert full.value.status == 429
    assert futures[0].cancel() and futures[4].cancel()
    await asyncio.sleep(0)
    queue.submit("a", "x")
    worker.may_begin.set()
    await queue.close(nothing, PATIENCE)
    assert worker.batches == ["0", "qrs", "uvw", "x"]


async def test_an_error_is_that_of_its_work_alone(worker: Worker) -> None:
    queue = worker.queue()
    worker.may_begin.set()
    failed, one, other = queue.submit("b", "!"), queue.submit("a", "-"), queue.submit("a", "p")
    with pytest.raises(DataError, match="No"):
        await failed
    with pytest.raises(DataError, match="Not this"):
        await one
    assert await other == "P"
    with pytest.raises(ZeroDivisionError):
        await queue.submit("a", "?")
    assert await queue.submit("a", "q") == "Q"
    await queue.close(nothing, PATIENCE)


async def test_closing_takes_no_more_and_does_not_wait_for_ever(worker: Worker) -> None:
    queue = worker.queue()
    queue.submit("a", "p")
    assert not await queue.close(nothing, 0.01)
    assert not queue.is_open
    with pytest.raises(ApiError) as ended:
        queue.submit("a", "q")
    assert ended.value.status == 503
    worker.may_begin.set()


async def test_what_goes_wrong_while_closing_is_raised(worker: Worker) -> None:
    queue = worker.queue()
    worker.may_begin.set()
    with pytest.raises(ZeroDivisionError):
        await queue.close(lambda: 1 // 0, PATIENCE)


async def test_idleness_is_noticed_in_the_thread_and_again_after_more_work(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_cli.http.queue.IDLE_SECONDS", 0.01)
    worker.may_begin.set()
    loop, idle = asyncio.get_running_loop(), asyncio.Event()

    def on_idle() -> None:
        worker.batches.append(f"idle in {threading.current_thread().name}")
        loop.call_soon_threadsafe(idle.set)

    queue = BatchQueue(worker.process, batch=3, capacity=8, on_idle=on_idle)
    for work in "pq":
        idle.clear()
        assert await queue.submit("key", work) == work.upper()
        await asyncio.wait_for(idle.wait(), PATIENCE)
    assert worker.batches == ["p", "idle in model_0", "q", "idle in model_0"]
    assert await queue.close(nothing, PATIENCE)
