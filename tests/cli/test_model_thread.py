"""The thread that runs a memory: in batches, bounded, dropping cancelled work, unloading when idle."""

import threading
import time
from concurrent.futures import CancelledError, wait
from pathlib import Path

import pytest

from mbc_cli.model_thread import ModelThread, ModelThreadClosed, QueueFull
from mbc_engine.errors import DataError
from tests.cli.stub_memory import StubMemory
from tests.needs import PATIENCE


class Worker:
    """Processes items once `may_begin` is set, and records its batches."""

    def __init__(self):
        self.batches: list[str] = []
        self.may_begin = threading.Event()
        self.memory = StubMemory(Path("b.mbc"))
        self.thread = ModelThread(self.memory, batch=3, capacity=8)

    def process(self, key, items):
        assert self.may_begin.wait(PATIENCE)
        self.batches.append("".join(items))
        if items == ["!"]:
            raise DataError("No.")
        return [DataError("Not this.") if item == "-" else item.upper() for item in items]

    def submit(self, key, item, size=0.0):
        return self.thread.submit_item(self.process, key, item=item, size=size)

    def occupy(self):
        """Keep the thread busy, so that what is submitted waits."""
        self.submit("first", "0")
        while self.thread._waiting:
            time.sleep(0.001)

    def finish(self):
        self.may_begin.set()
        self.thread.close().result(PATIENCE)
        return self.batches


@pytest.fixture
def worker():
    worker = Worker()
    yield worker
    worker.finish()


def test_batches_share_settings(worker):
    worker.occupy()
    futures = [worker.submit(key, item) for item, key in ("pa", "qb", "ra", "sb", "ta", "ua")]
    assert worker.finish() == ["0", "prt", "qs", "u"]
    assert [future.result() for future in futures] == ["P", "Q", "R", "S", "T", "U"]


def test_sizes_limit_a_batch_and_order_is_kept(worker):
    worker.occupy()
    for item, size in (("p", 0.6), ("q", 0.6), ("r", 0.3), ("s", 7.0), ("t", 0.1)):
        worker.submit("a", item, size)
    assert worker.finish() == ["0", "p", "qr", "s", "t"]


def test_cancelled_work_is_dropped(worker):
    worker.occupy()
    futures = [worker.submit("a", item) for item in "pqrstuvw"]
    with pytest.raises(QueueFull):
        worker.submit("a", "x")
    assert futures[0].cancel() and futures[4].cancel()
    worker.submit("a", "x")
    assert worker.finish() == ["0", "qrs", "uvw", "x"]
    with pytest.raises(CancelledError):
        futures[0].result()


def test_an_error_is_that_of_its_work_alone(worker):
    worker.may_begin.set()
    failed, one, other = worker.submit("b", "!"), worker.submit("a", "-"), worker.submit("a", "p")
    with pytest.raises(DataError, match="No"):
        failed.result()
    with pytest.raises(DataError, match="Not this"):
        one.result()
    assert other.result() == "P"


def test_closing_finishes_waiting_work(worker):
    worker.occupy()
    waiting, opened = worker.submit("a", "p"), worker.thread.submit(worker.memory.open)
    closed = worker.thread.close()
    assert not worker.thread.is_open and not wait([closed], 0.01).done
    with pytest.raises(ModelThreadClosed):
        worker.submit("a", "q")
    worker.finish()
    assert (waiting.result(), opened.result(), worker.memory.is_open) == ("P", worker.memory, False)


def test_idle_model_is_unloaded(monkeypatch):
    monkeypatch.setattr("mbc_cli.model_thread.IDLE_SECONDS", 0.01)
    memory, unloaded, threads = StubMemory(Path("b.mbc")), threading.Event(), set[str]()

    def on_unload():
        threads.add(threading.current_thread().name)
        assert not memory.is_loaded
        unloaded.set()

    thread = ModelThread(memory, on_unload=on_unload)
    for _ in range(2):
        thread.submit(lambda: memory.model).result(PATIENCE)
        assert unloaded.wait(PATIENCE)
        unloaded.clear()
    thread.close().result(PATIENCE)
    assert threads == {"memory"}
