"""What goes wrong with a request, in the shape that OpenAI's clients read.

Who may ask: whoever knows the token, or without one, programs on this machine.

Bodies of requests: whole, in time, and no longer than is allowed, before anything is made of them.

What is said of requests on the server's own terminal: a line for each with --verbose, and what nobody expected.
"""

import asyncio
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mbc_engine.errors import BankBusy, BankError, ConfigError, DataError, MBCError, NothingToRead

INVALID, SERVER = "invalid_request_error", "server_error"
# Options of `mbc ask` that a request has as fields, under names with underscores.
_OPTION: Final = re.compile(r"--(since|as-of|half-life|only|exclude|read|min-confidence)\b")
_RETRY: Final = {"Retry-After": "1"}


class ErrorDetail(BaseModel):
    """What is wrong, which kind of thing that is, the field it is about, and a word for programs."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorReply(BaseModel):
    """A reply to what could not be done."""

    error: ErrorDetail


class Refusal(Exception):
    """A request that is answered with an error.

    Args:
        status: of HTTP.
        message: one line, for a person.
        code: a word for programs.
        param: the field it is about.
        headers: to send with it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.headers = status, message, code, param, headers

    def detail(self) -> ErrorReply:
        """As it is sent."""
        kind = SERVER if self.status >= 500 else INVALID
        if self.status == 401:
            kind = "authentication_error"
        if self.status == 429:
            kind = "rate_limit_error"
        return ErrorReply(error=ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code))

    def response(self) -> JSONResponse:
        """As an answer."""
        return JSONResponse(self.detail().model_dump(), self.status, self.headers)


def refusal(error: MBCError) -> Refusal:
    """An error of the engine, with its way out."""
    message = " ".join([error.message, *([error.hint] if error.hint else [])])
    message = _OPTION.sub(lambda found: f"mbc.{found[1].replace('-', '_')}", message)
    if isinstance(error, NothingToRead):
        return Refusal(400, message, "nothing_to_read")
    if isinstance(error, ConfigError | DataError):
        return Refusal(400, message, "invalid_value")
    if isinstance(error, BankBusy):
        return Refusal(503, message, "bank_busy", headers=_RETRY)
    return Refusal(500, message, "bank_error" if isinstance(error, BankError) else "model_error")


def overloaded() -> Refusal:
    """Of a request that finds too many others waiting."""
    return Refusal(429, "Too many requests wait for the model; try again in a moment.", "queue_full", headers=_RETRY)


def ended() -> Refusal:
    """Of a request that comes when no more work is done, or is not done by then."""
    return Refusal(503, "The server is ending.", "unavailable", headers=_RETRY)


def unexpected() -> Refusal:
    """Of what nobody expected; more of it is told on the server's own terminal."""
    return Refusal(500, "Unexpected error; the server's terminal tells more.", "unexpected")


VARIABLE: Final = "MBC_TOKEN"
HEALTH: Final = "/health"
_SHORTEST: Final = 16


class Gate:
    """Lets requests through to an app, or refuses them.

    Args:
        app: what is guarded; its health is everybody's to see.
        token: what requests have to bring; None asks that they come from this machine's own programs.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = None if scope["path"] == HEALTH else self._refused(scope)
        await (refused.response() if refused else self._app)(scope, receive, send)

    def _refused(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        if self._token is not None:
            kind, _, given = headers.get("authorization", "").partition(" ")
            is_known = secrets.compare_digest(given.strip().encode(), self._token.encode())
            if is_known and kind.lower() == "bearer":
                return None
            return Refusal(
                401,
                "The token is missing or wrong: send it as `Authorization: Bearer TOKEN`.",
                "invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        host, origin = headers.get("host", ""), headers.get("origin")
        if is_loopback(_name(host)) and origin in (None, f"{scope['scheme']}://{host}"):
            return None
        return Refusal(
            403, "Without a token this server answers programs on its own machine, under its own address.", "not_local"
        )


def token_of(file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in a file, else in the environment; None where there is neither.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    if file is None and VARIABLE not in environment:
        return None
    try:
        token = environment[VARIABLE] if file is None else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token in {file} cannot be read.", hint="Check the path and its permissions.") from error
    token = token.strip()
    if len(token) < _SHORTEST or not token.isascii() or any(not " " < sign < "\x7f" for sign in token):
        raise ConfigError(
            f"The token in {VARIABLE if file is None else file} is no token.",
            hint=f"It has at least {_SHORTEST} letters, digits and signs without spaces, such as "
            "`openssl rand -hex 32` prints.",
        )
    return token


def require_token(host: str, token: str | None) -> None:
    """Make sure that a server which other machines can reach has a token.

    Raises:
        ConfigError: it has none.
    """
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"At {host} other machines can ask: that needs a token.",
            hint=f"Name a file with --token-file, or set {VARIABLE}.",
        )


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from its own machine alone, by what it is called."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


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


class Watched:
    """An app whose requests are told of.

    Args:
        app: what answers.
        line: is given a line for each request, which holds foreign text.
        crashed: is given what nobody expected; the client gets an error without it.
    """

    def __init__(self, app: ASGIApp, line: Callable[[str], object], crashed: Callable[[BaseException], object]) -> None:
        self._app, self._line, self._crashed = app, line, crashed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception as error:  # the outermost of a request
            self._crashed(error)
            if not status:
                raise
        finally:
            client = (scope.get("client") or ("?",))[0]
            milliseconds = 1000 * (time.perf_counter() - began)
            self._line(f"{client} {scope['method']} {scope['path']} {status or '-'} {milliseconds:.0f} ms")
