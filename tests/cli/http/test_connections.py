"""Connections, without a process: who says nothing is not waited for."""

import asyncio
from typing import Any

import pytest
import uvicorn

from mbc_cli.http import server
from mbc_cli.http.server import Connection


async def _answering(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def _served(application: Any = _answering) -> Any:
    config = uvicorn.Config(application, http=Connection, ws="none", lifespan="off", log_config=None)
    config.load()
    state = uvicorn.server.ServerState()
    return await asyncio.get_running_loop().create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_head_that_does_not_arrive_is_given_up(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, is_second: bool
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.05)
    async with await _served() as listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        if is_second:
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"ok")
        writer.write(sent or b"\r\n")
        async with asyncio.timeout(5):
            rest = await reader.read()
        assert b"200" not in rest
        writer.close()


async def test_a_request_may_take_longer_than_its_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.01)
    passed = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        asyncio.get_running_loop().call_later(0.05, passed.set)
        await passed.wait()
        await _answering(scope, receive, send)

    async with await _served(slow) as listener:
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in await reader.readuntil(b"ok")
        writer.close()
