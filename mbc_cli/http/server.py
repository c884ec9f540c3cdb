"""The server around the app: errors, access control, limits, listening and shutdown."""

import asyncio
import os
import re
import secrets
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from http import HTTPMethod
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import uvicorn
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mbc_cli.model_thread import ModelThreadClosed, QueueFull
from mbc_cli.render.terminal import notes, out, print_verbose
from mbc_cli.request_fields import as_fields
from mbc_engine.errors import BankBusy, BankError, ConfigError, DataError, MBCError, NothingToRead

TOKEN_VARIABLE: Final = "MBC_TOKEN"  # noqa: S105
GRACE_SECONDS: Final = 30  # for accepted requests to finish at shutdown
BODY_SECONDS: Final = 30
HEADER_SECONDS: Final = 10
# Of which one address may hold half: a proxy has one for all its clients.
_CONNECTIONS: Final = 256
CONNECTIONS_PER_ADDRESS: Final = 128
# How much of an overlong body to read and discard: a client that is still sending would not see the error.
_DISCARDED: Final = 16 << 20

_CLOSE, _RETRY = {"Connection": "close"}, {"Retry-After": "1"}
_HEADERS: Final = {401: {"WWW-Authenticate": "Bearer"}, 408: _CLOSE, 413: _CLOSE, 429: _RETRY, 503: _RETRY}
# With status 499, as proxies log it.
CLIENT_LEFT: Final = "The client has disconnected."
_ERROR_TYPES: Final = {401: "authentication_error", 429: "rate_limit_error"}
# The status and code of the engine's errors, the most specific first.
_ENGINE_ERRORS: Final = (
    (QueueFull, 429, "queue_full"),
    (ModelThreadClosed, 503, "unavailable"),
    (NothingToRead, 400, "nothing_to_read"),
    (BankBusy, 503, "bank_busy"),
    (BankError, 500, "bank_error"),
    ((ConfigError, DataError), 400, "invalid_value"),
    (MBCError, 500, "model_error"),
)


# A JSON object.
Json = dict[str, Any]


class ErrorReply(BaseModel):
    """An error in OpenAI's shape."""

    error: dict[Literal["message", "type", "param", "code"], str | None]


class ApiError(Exception):
    """An error response: a message, a machine-readable code and the field it is about."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        kind = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.status, self.body = status, {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.response = JSONResponse(self.body, status, _HEADERS.get(status))


def api_error(error: Exception) -> ApiError:
    """Any error as clients see it; an unexpected one reveals no details."""
    match error:
        case ApiError():
            return error
        case MBCError():
            message = as_fields(" ".join(filter(None, (error.message, error.hint))))
            status, code = next((status, code) for kind, status, code in _ENGINE_ERRORS if isinstance(error, kind))
            return ApiError(status, message, code)
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            reply = ApiError(error.status_code, f"{error.detail}.")
            reply.response.headers.update(error.headers or {})
            return reply
    return ApiError(500, "Unexpected error; see the server's terminal.", "unexpected")


async def _respond(request: Request, error: Exception) -> Response:
    def is_allowed(method: str) -> bool:
        return any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in request.app.routes)

    response = api_error(error).response
    if response.status_code == 405:  # the error names the methods of one route of the path
        response.headers["Allow"] = ", ".join(filter(is_allowed, HTTPMethod))
    return response


EXCEPTION_HANDLERS: Final[dict[Any, Any]] = dict.fromkeys(
    (ApiError, MBCError, RequestValidationError, HTTPException, Exception), _respond
)


def _invalid(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    if isinstance(error.body, bytes):
        return ApiError(400, "Send JSON, with `Content-Type: application/json`.", "invalid_json")
    if first["type"] == "json_invalid":
        return ApiError(400, "The body is not JSON.", "invalid_json")
    # Drop the names that pydantic adds for union members.
    parts = (str(part) for part in first["loc"][1:] if isinstance(part, int) or part.isidentifier())
    param = ".".join(part for part in parts if part not in ("one", "list", "str"))[:200]
    message = first["msg"].removeprefix("Value error, ")
    return ApiError(400, f"{param or 'The body'}: {message}.", "invalid_value", param or None)


def read_token(file: Path | None, host: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The token in a file or the environment. Raises ConfigError if it is missing but required, or not valid."""
    if file is None and TOKEN_VARIABLE not in environment:
        if is_loopback(host):
            return None
        hint = f"Name a file with --token-file, or set {TOKEN_VARIABLE}."
        raise ConfigError(f"A server at {host} can be reached from other machines, which requires a token.", hint=hint)
    try:
        token = (environment[TOKEN_VARIABLE] if file is None else file.read_text("utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The token in {file} cannot be read.", hint="Check the path and its permissions.") from error
    if not re.fullmatch("[!-~]{16,}", token):
        hint = "A token has at least 16 letters, digits and punctuation marks, such as from `openssl rand -hex 32`."
        raise ConfigError(f"The token in {file or TOKEN_VARIABLE} is not valid.", hint=hint)
    return token


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return host.lower() == "localhost" or ip_address(host).is_loopback
    return False


def _require_access(scope: Scope, token: str | None, origins: Collection[str]) -> None:
    """Require the token; if there is none, refuse other machines and web pages but those of these origins."""
    headers = Headers(scope=scope)
    if token is not None:
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if not secrets.compare_digest(sent.strip().encode(), token.encode()) or scheme.lower() != "bearer":
            message = "The token is missing or wrong: send it as `Authorization: Bearer TOKEN`."
            raise ApiError(401, message, "invalid_api_key")
        return
    host, origin, name = headers.get("host", ""), headers.get("origin"), ""
    with suppress(ValueError):
        name = urlsplit(f"//{host}").hostname or ""
    if not is_loopback(name) or origin not in (None, f"{scope['scheme']}://{host}", *origins):
        message = "Without a token, only programs on the server's own machine have access, at its loopback address."
        raise ApiError(403, message, "not_local")


async def _read_body(receive: Receive, max_size: int) -> bytes:
    """A request's whole body; raises ApiError if it is too long or too slow."""
    body, size, is_over = bytearray(), 0, False
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while not is_over and size <= max_size + _DISCARDED:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise ApiError(499, CLIENT_LEFT)
                part = event.get("body", b"")
                size, is_over = size + len(part), not event.get("more_body", False)
                if size <= max_size:
                    body += part
    except TimeoutError as error:
        message = f"The body did not arrive within {BODY_SECONDS:g} seconds."
        raise ApiError(408, message, "timeout") from error
    if size > max_size:
        raise ApiError(413, f"The body is longer than {max_size:,} bytes (--max-body).", "body_too_long")
    return bytes(body)


def with_access_control(
    app: ASGIApp,
    token: str | None,
    max_body: int,
    *,
    on_crash: Callable[[BaseException], object],
    origins: Collection[str] = (),
) -> ASGIApp:
    """An app behind access control (except /health), body limits and an access log; `on_crash` gets unexpected errors.

    Without a token, only programs on this machine have access. Web pages of `origins` may use the app too.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] != "/health":
                _require_access(scope, token, origins)
            body = await _read_body(receive, max_body)
            unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def replay() -> Message:
                return unread.pop() if unread else await receive()

            await app(scope, replay, send_and_note)
        except ApiError as error:
            await error.response(scope, receive, send_and_note)
        except Exception as error:  # a request's outermost handler
            on_crash(error)
            if not status:
                raise
        finally:
            client, milliseconds = (scope.get("client") or ("?",))[0], 1000 * (time.perf_counter() - began)
            print_verbose(f"{client} {scope['method']} {scope['path']} {status or '-'} {milliseconds:.0f} ms")

    return CORSMiddleware(serve, origins, allow_methods=["*"], allow_headers=["*"]) if origins else serve


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; clients that connect while the model is being loaded wait."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        hint = "Choose another with --port or --host; --port 0 picks a free one."
        raise ConfigError(f"{host} port {port} cannot be used: {error.strerror or error}.", hint=hint) from error


class Connection(H11Protocol):
    """A connection that is closed unless the headers of each request arrive in time, counted from when it begins."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = (self.client or ("",))[0]
        addresses = ((other.client or ("",))[0] for other in self.connections if isinstance(other, Connection))
        if list(addresses).count(address) > CONNECTIONS_PER_ADDRESS:
            transport.close()
        self._deadline = self.loop.call_later(HEADER_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._drop_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._drop_deadline()
        super().connection_lost(exc)

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Serves until SIGINT or SIGTERM, then finishes accepted requests; a second SIGINT ends the process at once."""

    def __init__(self, app: ASGIApp) -> None:
        kinds: Any = {"loop": "asyncio", "http": Connection, "ws": "none", "lifespan": "on", "interface": "asgi3"}
        logs: Any = {"log_config": None, "log_level": "critical", "access_log": False}  # the app reports errors
        headers: Any = {"server_header": False, "proxy_headers": False}
        times: Any = {"timeout_keep_alive": 30, "timeout_graceful_shutdown": GRACE_SECONDS}
        super().__init__(uvicorn.Config(app, limit_concurrency=_CONNECTIONS, **kinds, **logs, **headers, **times))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            out.print(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1")
        notes.print("Programs can ask the memory at this address. Ctrl-C stops the server.")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; a running model can only be interrupted by ending the process."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(128 + sig)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        notes.print("Shutting down: finishing accepted requests. Ctrl-C again stops at once.")
        await super().shutdown(sockets)
