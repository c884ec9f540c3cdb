"""Searches over HTTP: whole passages, several requests in one batch, and what is refused."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.memory import Memory
from mbc_engine.paper.mbc import MBC
from tests.needs import PATIENCE


@pytest.fixture
async def running(serving: Callable[..., Any], tiny_model: MBC, home: Path) -> Any:
    """A server that has two documents."""
    started = serving(memory=Memory([home / "b.mbc"], tiny_model))
    texts = {"ada": "Ada moved to Aalen. The river rose.", "bruno": "Bruno moved to Bergen."}
    await started.add([{"name": name, "date": "2024-05-01", "text": text} for name, text in texts.items()])
    return started


async def test_passages_come_whole_and_best_first(running: Any) -> None:
    response = await running.client.post("/v1/search", json={"query": "Where did Ada move?", "top": 9})
    assert response.status_code == 200
    results = response.json()
    assert (results["object"], results["has_more"]) == ("list", False)
    assert [own["share"] for own in results["data"]] == sorted((own["share"] for own in results["data"]), reverse=True)
    (ada,) = [own for own in results["data"] if own["words"] == ["Ada"]]
    assert (ada["sentence"], ada["date"], ada["line"]) == ("Ada moved to Aalen.", "2024-05-01", 1)
    (one,) = (await running.client.post("/v1/search", json={"query": "Ada", "top": 1})).json()["data"]
    assert one["passage"]


async def test_only_the_documents_asked_for_are_searched(running: Any) -> None:
    response = await running.client.post("/v1/search", json={"query": "Who moved?", "since": "2025"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "nothing_to_read")
    assert "Widen since, as_of" in response.json()["error"]["message"]


async def test_searches_of_the_same_options_are_one_batch(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, started, resume = list[tuple[list[str], int]](), threading.Event(), threading.Event()

    def search(queries: list[str], _: object, *, top: int) -> list[tuple[()]]:
        started.set()
        assert resume.wait(PATIENCE)
        batches.append((list(queries), top))
        return [()] * len(queries)

    monkeypatch.setattr(running.memory, "search", search)
    asked = [("first", 5), ("a", 5), ("b", 5), ("c", 7)]
    calls = []
    for waiting, (query, top) in enumerate(asked):
        calls.append(asyncio.create_task(running.client.post("/v1/search", json={"query": query, "top": top})))
        while not started.is_set() or len(running.service._waiting) < waiting:
            await asyncio.sleep(0.005)
    resume.set()
    assert [(await call).json()["data"] for call in calls] == [[]] * 4
    assert batches == [(["first"], 5), (["a", "b"], 5), (["c"], 7)]


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({}, "query", "required"),
        ({"query": " "}, "query", "empty"),
        ({"query": "x" * 8001}, "query", "at most 8000"),
        ({"query": "x", "top": 21}, "top", "less than"),
        ({"query": "x", "since": "soon"}, None, "since 'soon' is not a date"),
        ({"query": "x", "read": "sideways"}, None, "no read"),
        ({"query": "x", "read": "routed:1001"}, "read", "at most"),
        ({"query": "x", "only": ["*a*a*a*b"]}, "only.0", "at most 3 places"),
        ({"query": "x", "only": ["a****b"]}, "only.0", "at most 3 places"),
        ({"query": "x", "exclude": ["**a**/b"]}, "exclude.0", "at most 3 places"),
        ({"query": "x", "sources": 3}, "sources", "not permitted"),
    ],
)
async def test_an_invalid_request_is_refused_in_a_line(
    serving: Callable[..., Any], fields: dict[str, Any], param: str | None, message: str
) -> None:
    running = serving(is_started=False)
    response = await running.client.post("/v1/search", json=fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert message in error["message"]
