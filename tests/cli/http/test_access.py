"""Who has access, how much of a request is read, and requests that wait for the model: batched, limited, dropped with their clients."""

import asyncio
import json
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from unittest.mock import AsyncMock

import pytest
import uvicorn
from uvicorn.server import ServerState

from mbc_cli.http import server
from mbc_cli.http.server import read_token
from mbc_engine.errors import ConfigError
from tests.cli.http.conftest import TOKEN, names
from tests.needs import PATIENCE

ROUTES = (
    *(("POST", f"/v1/{name}") for name in ("chat/completions", "search", "documents")),
    *(("GET", f"/v1/{name}") for name in ("models", "models/tiny", "bank", "documents", "documents/x")),
    *(("DELETE", "/v1/documents/x"), ("GET", "/openapi.json"), ("GET", "/nothing")),
)


@pytest.mark.parametrize("authorization", [None, "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \xfc"])
async def test_only_health_needs_no_token(serving, authorization):
    running = serving(token=TOKEN)
    headers = {} if authorization is None else {"Authorization": authorization.encode("latin-1")}
    for method, path in ROUTES:
        response = await running.client.request(method, path, headers=headers)
        assert response.status_code == 401, path
        assert response.json()["error"]["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    assert (await running.client.get("/health", headers=headers)).json() == {"status": "ok"}
    checked = await running.client.head("/health", headers=headers)
    assert (checked.status_code, checked.content) == (200, b"")


async def test_the_token_gives_access_under_any_host(serving):
    headers = {"Authorization": f"bearer {TOKEN}", "Host": "memory.example", "Origin": "https://memory.example"}
    assert (await serving(token=TOKEN).client.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "is_allowed"),
    [
        ("127.0.0.1:8377", None, True),
        ("LOCALHOST:1", "http://LOCALHOST:1", True),
        ("[::1]:8377", "http://[::1]:8377", True),
        ("127.0.0.1:8377", "http://127.0.0.1:8377", True),
        ("127.0.0.1:8377", "http://127.0.0.1:9999", False),
        ("127.0.0.1:8377", "https://127.0.0.1:8377", False),
        ("127.0.0.1:8377", "null", False),
        ("evil.example:8377", "http://evil.example:8377", False),
        ("0.0.0.0", None, False),
        ("127.0.0.1.evil.example", None, False),
        ("localhost@evil.example", None, False),
        ("", None, False),
        ("[", None, False),
    ],
)
async def test_local_access_without_a_token(serving, host, origin, is_allowed):
    running = serving()
    headers = {"Host": host} | ({} if origin is None else {"Origin": origin})
    response = await running.client.get("/v1/models", headers=headers)
    assert response.status_code == (200 if is_allowed else 403)
    assert "access-control-allow-origin" not in response.headers
    assert (await running.client.get("/health", headers=headers)).status_code == 200


async def test_pages_of_an_allowed_origin_have_access(serving):
    running, page = serving(origins=["http://localhost:3000"]), {"Origin": "http://localhost:3000"}
    asked = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for method, headers in (("OPTIONS", asked), ("GET", page)):
        response = await running.client.request(method, "/v1/models", headers=headers)
        assert (response.status_code, response.headers["access-control-allow-origin"]) == (200, page["Origin"])
    assert (await running.client.get("/v1/models", headers={"Origin": "http://localhost:3001"})).status_code == 403


def test_a_token_comes_from_file_or_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(None, "127.0.0.1", {}) is None
    assert read_token(None, "::", {"MBC_TOKEN": TOKEN}) == TOKEN
    assert read_token(file, "::", {"MBC_TOKEN": "another token entirely"}) == TOKEN


@pytest.mark.parametrize("content", ["", "short", "has a space in it all", "h\xfclle-und-f\xfclle-0"])
def test_an_invalid_token_is_not_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_text(content)
    for arguments in ((file, "::", {}), (None, "::", {"MBC_TOKEN": content})):
        with pytest.raises(ConfigError, match="is not valid") as caught:
            read_token(*arguments)
        assert content == "" or content not in caught.value.message
    with pytest.raises(ConfigError, match="cannot be read"):
        read_token(tmp_path / "missing", "::", {})


async def _parts(number, size):
    for _ in range(number):
        yield b" " * size


async def test_a_body_is_counted_as_it_arrives(serving):
    running = serving(max_body=1000)
    question = '{"model": "tiny", "messages": [{"role": "user", "content": "Who?"}]}'
    for content, status in (
        (question.ljust(1000), 200),
        (question.ljust(1001), 413),
        (_parts(1 << 30, 1 << 20), 413),  # it is not read for ever
    ):
        headers = {"Content-Type": "application/json"}
        response = await running.client.post("/v1/chat/completions", content=content, headers=headers)
        assert response.status_code == status
    assert response.json()["error"]["code"] == "body_too_long"


async def test_a_body_that_does_not_arrive_times_out(serving, monkeypatch):
    monkeypatch.setattr(server, "BODY_SECONDS", 0.01)

    async def stalled():
        yield b"{"
        await asyncio.Event().wait()

    response = await serving().client.post("/v1/documents", content=stalled())
    assert (response.status_code, response.json()["error"]["code"]) == (408, "timeout")


async def test_connections_without_headers_are_dropped(monkeypatch):
    monkeypatch.setattr(server, "CONNECTIONS_PER_ADDRESS", 3)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config, state = uvicorn.Config(app, http=server.Connection, lifespan="off", log_config=None), ServerState()
    config.load()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: server.Connection(config, state, {}), "127.0.0.1", 0)
    async with listening, AsyncExitStack() as stack:

        async def closed(writer):
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

        async def opened(seconds):
            monkeypatch.setattr(server, "HEADER_SECONDS", seconds)
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
            stack.push_async_callback(closed, writer)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            return reader, writer

        async def is_closed(reader):
            try:
                return await reader.read() == b""
            except ConnectionResetError:  # what was sent was not read any more
                return True

        assert all([await is_closed(reader) for reader, _ in [await opened(0.01) for _ in range(3)]])
        (reader, writer), *_ = [await opened(1000) for _ in range(3)]
        assert await is_closed((await opened(1000))[0])  # one too many from this address
        writer.write(b"\r\n")
        assert await reader.readuntil(b"\r\n\r\n")
        monkeypatch.setattr(server, "HEADER_SECONDS", 0.01)
        writer.write(b"GET / HTTP/1.1\r\n")  # a further request on the same connection
        assert await is_closed(reader)


@asynccontextmanager
async def busy(running):
    """Keeps the model's thread busy, so that everything else waits."""
    started, may_end = threading.Event(), threading.Event()

    def work():
        started.set()
        assert may_end.wait(PATIENCE)

    running.model_thread.submit(work)
    await asyncio.to_thread(started.wait, PATIENCE)
    try:
        yield
    finally:
        may_end.set()


async def until_waiting(running, number):
    while sum(not job.future.cancelled() for job in running.model_thread._waiting) != number:
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
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/v1/documents", "query_string": b"", "headers": headers}
        await running.app(scope, AsyncMock(side_effect=messages), AsyncMock())
        await until_waiting(running, 0)
        stays = asyncio.create_task(running.add({"text": "Clara moved.", "name": "clara"}))
        await until_waiting(running, 1)
    assert (await stays).status_code == 201
    assert names() == ["clara"]
