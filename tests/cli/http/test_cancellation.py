"""Requests that wait for the model: batched, limited in number, dropped when their clients leave."""

import asyncio
import json
import threading
from contextlib import asynccontextmanager

from tests.cli.http.conftest import names
from tests.needs import PATIENCE


@asynccontextmanager
async def busy(running):
    """Keeps the model's thread busy, so that everything else waits."""
    started, may_end = threading.Event(), threading.Event()

    def work():
        started.set()
        assert may_end.wait(PATIENCE)

    running.service.submit(work)
    await asyncio.to_thread(started.wait, PATIENCE)
    try:
        yield
    finally:
        may_end.set()


async def until_waiting(running, number):
    while sum(not job.future.cancelled() for job in running.service._waiting) != number:
        await asyncio.sleep(0)


async def test_waiting_requests_are_batched_and_limited(serving):
    running = serving(capacity=5)
    async with busy(running):
        asked = [asyncio.create_task(running.ask(f"Who {number}?")) for number in range(3)]
        searches = [running.client.post("/v1/search", json={"query": "Ada", "top": top}) for top in (5, 7)]
        searched = [asyncio.create_task(search) for search in searches]
        await until_waiting(running, 5)
        for response in (
            await running.ask(),
            await running.add({"text": "No."}),
            await running.client.delete("/v1/documents/a"),
        ):
            assert (response.status_code, response.headers["retry-after"]) == (429, "1")
            assert response.json()["error"]["type"] == "rate_limit_error"
    assert [(await reply).json()["mbc"]["together"] for reply in asked] == [3, 3, 3]
    assert [(await reply).status_code for reply in searched] == [200, 200]
    ((questions, _),) = running.memory.batches
    assert sorted(questions) == ["Who 0?", "Who 1?", "Who 2?"]
    assert sorted(top for _, _, top in running.memory.queries) == [5, 7]


async def test_work_of_clients_that_left_is_dropped(serving, real_memory):
    running = serving(real_memory)
    async with busy(running):
        body = json.dumps({"text": "Ada moved."}).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}, {"type": "http.disconnect"}]

        async def receive():
            return messages.pop(0)

        async def send(message): ...

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/documents", "query_string": b"", "headers": headers}
        await running.app(scope, receive, send)
        await until_waiting(running, 0)
        stays = asyncio.create_task(running.add({"text": "Clara moved.", "name": "clara"}))
        await until_waiting(running, 1)
    assert (await stays).status_code == 201
    assert names() == ["clara"]
