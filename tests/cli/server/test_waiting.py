"""Requests that wait for the model: together, in bounds, for as long as their clients do."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.cli.server.conftest import names


async def test_what_waits_is_taken_together_and_too_much_is_refused(serving: Callable[..., Any]) -> None:
    running = serving(room=4, is_begun=False)
    running.turns._thread.is_alive = lambda: True  # it is not, yet: so that everything waits
    asked = [asyncio.create_task(running.ask(f"Who {number}?")) for number in range(3)]
    added = asyncio.create_task(running.add({"text": "Ada moved."}))
    while len(running.turns._waiting) < 4:
        await asyncio.sleep(0)
    for response in (
        await running.ask(),
        await running.add({"text": "No."}),
        await running.client.delete("/v1/documents/a"),
    ):
        assert response.status_code == 429
        assert response.headers["retry-after"] == "1"
        assert response.json()["error"]["type"] == "rate_limit_error"
    del running.turns._thread.is_alive
    running.turns.start()
    replies = [await one for one in asked]
    assert [reply.json()["mbc"]["together"] for reply in replies] == [3, 3, 3]
    assert [reply.json()["choices"][0]["message"]["content"] for reply in replies] == [
        f"to Who {number}?" for number in range(3)
    ]
    assert (await added).status_code == 201
    assert len(running.asker.batches) == 1
    assert running.turns.close(10)


async def test_who_leaves_before_the_turn_is_dropped(serving: Callable[..., Any]) -> None:
    running = serving(is_begun=False)
    running.turns._thread.is_alive = lambda: True
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
    stays = asyncio.create_task(running.add({"text": "Clara moved."}))
    while len(running.turns._waiting) < 3:
        await asyncio.sleep(0)
    del running.turns._thread.is_alive
    running.turns.start()
    assert (await stays).status_code == 201
    assert running.turns.close(10)
    assert len(names()) == 1
