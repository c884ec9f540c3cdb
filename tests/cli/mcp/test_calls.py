"""Calls that wait for each other, are cancelled, or fail unexpectedly."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.mcp import MemoryServer
from mbc_engine.answer import Source
from mbc_engine.events import DocumentsIngested, Event, IngestFinished, IngestStarted
from mbc_engine.memory import Memory
from tests.cli.mcp.conftest import Serving, text_of
from tests.needs import PATIENCE


class Slow(Memory):
    """A memory whose work waits for `resume`, and which records what was asked."""

    def __init__(self, bank: Path) -> None:
        bank.touch()
        super().__init__([bank], "none")
        self.resume, self.started, self.asked = threading.Event(), threading.Event(), list[str]()

    def open(self, *_: object) -> Any: ...

    def search(self, queries: Any, *_: object, **options: Any) -> list[tuple[Source, ...]]:
        (query,) = queries
        self.asked.append(query)
        self.started.set()
        if query == "worse":
            raise RuntimeError("a\x1bsecret")
        if query == "first":
            assert self.resume.wait(PATIENCE)
        return [()]

    def add(self, paths: Any, *, stop: threading.Event, **options: Any) -> Iterator[Event]:
        yield IngestStarted(2, 20)
        yield DocumentsIngested(1, 1, 0, 10, 0.0, ())
        assert stop.wait(PATIENCE)
        self.asked.append("stopped")
        yield IngestFinished(*[0] * 5, 0.0, 0.0, False, *[0] * 6)


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_calls_run_in_order_and_one_that_is_cancelled_before_its_turn_is_dropped(
    serving: Serving, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, queued, run = Slow(home / "b.mbc"), list[object](), MemoryServer._run
    monkeypatch.setattr(MemoryServer, "_run", lambda server, work: queued.append(work) or run(server, work))
    async with serving(memory=memory) as client:
        calls = []
        for query in ("first", "dropped", "last"):
            calls.append(asyncio.create_task(client.call_tool("search", {"query": query})))
            await until(lambda: memory.started.is_set() and len(queued) == len(calls))
        calls[1].cancel()
        await asyncio.wait([calls[1]])
        memory.resume.set()
        assert not (await calls[2]).is_error and not (await calls[0]).is_error
    assert memory.asked == ["first", "last"]


async def test_an_ingest_that_is_cancelled_stops_after_its_batch(serving: Serving, notes: Path, home: Path) -> None:
    memory, steps = Slow(home / "b.mbc"), list[float]()

    async def note(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    async with serving(notes, memory=memory) as client:
        call = asyncio.create_task(client.call_tool("ingest", {"paths": ["."]}, progress_callback=note))
        await until(lambda: steps == [10])
        call.cancel()
        await until(lambda: memory.asked == ["stopped"])
        assert not (await client.call_tool("search", {"query": "after"})).is_error


async def test_an_unexpected_error_is_reported_without_its_traceback(
    serving: Serving, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(memory=Slow(home / "b.mbc")) as client:
        failed = await client.call_tool("search", {"query": "worse"})
        assert failed.is_error and text_of(failed) == "Error executing tool search"
        assert not (await client.call_tool("search", {"query": "better"})).is_error
    assert capfd.readouterr() == ("", "")
