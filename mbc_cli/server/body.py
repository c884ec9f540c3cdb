"""Bodies of requests: whole, in time, and no longer than is allowed, before anything is made of them."""

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mbc_cli.server.errors import Refusal

SECONDS: Final = 30.0
# What is too long is read on a while and thrown away: a client that is still sending would not see the answer.
_DISCARDED: Final = 16 << 20


class WholeBody:
    """Hands an app bodies that are complete.

    Args:
        app: what takes them.
        most: the longest body, in bytes, counted as it arrives.
        seconds: how long one may take to arrive.
    """

    def __init__(self, app: ASGIApp, most: int, seconds: float = SECONDS) -> None:
        self._app, self._most, self._seconds = app, most, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(receive)
        except ClientDisconnect:
            return
        except TimeoutError:
            body = Refusal(408, f"The body did not arrive within {self._seconds:g} seconds.", "timeout")
        if isinstance(body, Refusal):
            body.headers = {"Connection": "close"}
            await body.response()(scope, receive, send)
            return
        await self._app(scope, _again(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | Refusal:
        parts: list[bytes] = []
        size, is_over = 0, False
        while not is_over and size <= self._most + _DISCARDED:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size, is_over = size + len(part), not message.get("more_body", False)
            if size <= self._most:
                parts.append(part)
            else:
                parts.clear()
        if size <= self._most:
            return b"".join(parts)
        return Refusal(413, f"The body is longer than {self._most:,} bytes (--max-body).", "body_too_long")


def _again(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read, and then what comes after it."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
