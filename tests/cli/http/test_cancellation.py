"""Requests that wait for the model: batched, limited in number, dropped when their clients leave."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.cli.http.conftest import Running, names
from tests.needs import PATIENCE


@asynccontextmanager
async def busy(running: Running) -> AsyncIterator[None]:
    """Keeps the model's thread busy, so that everything else waits."""
    started, may_end = threading.Event(), threading.Event()

    def answer(question: str) -> str:
        started.set()
        assert may_end.wait(PATIENCE)
        return "late"

    answer_before, running.memory.answer = running.memory.answer, answer
    first = asyncio.create_task(running.ask("First?", max_tokens=3))
    await asyncio.to_thread(started.wait, PATIENCE)
    try:
        yield
    finally:
        running.memory.answer = answer_before
        may_end.set()
        await first


async def until_waiting(running: Running, number: int) -> None:
    while sum(not job.future.cancelled() for job in running.service._waiting) != number:
        await asyncio.sleep(0)


async def test_what_waits_is_done_in_batches_and_too_much_is_refused(serving: Callable[..., Any]) -> None:
    running = serving(capacity=4)
    async with busy(running):
        asked = [asyncio.create_task(running.ask(f"Who {number}?")) for number in range(3)]
        added = asyncio.create_task(running.add({"text": "Ada moved."}))
        await until_waiting(running, 4)
        for response in (
            await running.ask(),
            await running.add({"text": "No."}),
            await running.client.delete("/v1/documents/a"),
        ):
            assert response.status_code == 429
            assert response.headers["retry-after"] == "1"
            assert response.json()["error"]["type"] == "rate_limit_error"
    replies = [await one for one in asked]
    assert [reply.json()["mbc"]["together"] for reply in replies] == [3, 3, 3]
    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == [
        f"to Who {number}?" for number in range(3)
    ]
    assert (await added).status_code == 201
    assert len(running.memory.batches) == 2


async def test_the_work_of_clients_that_left_is_dropped(serving: Callable[..., Any]) -> None:
    running = serving()
    async with busy(running):
        for body in ({"text": "Ada moved."}, {"text": "Bruno moved."}):
            messages = [
                {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False},
                {"type": "http.disconnect"},
            ]

            async def receive(messages: list[Any] = messages) -> Any:
                return messages.pop(0)

            async def send(message: Any) -> None: ...

            scope = {
                "type": "http",
                "method": "POST",
                "path": "/v1/documents",
                "query_string": b"",
                "headers": [(b"content-type", b"application/json")],
            }
            await running.app(scope, receive, send)
        await until_waiting(running, 0)
        stays = asyncio.create_task(running.add({"text": "Clara moved."}))
        await until_waiting(running, 1)
    assert (await stays).status_code == 201
    assert len(names()) == 1
