"""The HTTP server around the app: where it listens, its limits, and how it ends."""

import asyncio
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from mbc_engine.errors import ConfigError

# A request that was accepted has so long to be answered once the server is to end.
GRACE_SECONDS: Final = 30
_KEEP_ALIVE_SECONDS: Final = 30
# How long the head of a request may take to arrive; for the body see `WholeBody`.
HEAD_SECONDS: Final = 30
# How long a client may take nothing of what waits for it.
TAKE_SECONDS: Final = 30
# Further ones are closed: each takes memory, and that of a body.
MOST_CONNECTIONS: Final = 256
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Certificate:
    """Files of a TLS certificate and its key, which may be in the same file."""

    file: Path
    key: Path | None

    def require(self) -> None:
        """Make sure that they can be used.

        Raises:
            ConfigError: they cannot.
        """
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.file, self.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The certificate {self.file} cannot be used with its key.",
                hint="--tls-cert and --tls-key are PEM files; the key has no passphrase.",
            ) from error


def certificate_of(file: Path | None, key: Path | None) -> Certificate | None:
    """The certificate that options name; None for none.

    Raises:
        ConfigError: it cannot be used.
    """
    if file is None:
        if key is not None:
            raise ConfigError("--tls-key needs the certificate it belongs to.", hint="Name it with --tls-cert.")
        return None
    certificate = Certificate(file, key)
    certificate.require()
    return certificate


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address. Who connects before there is a server waits for it.

    Raises:
        ConfigError: there is no such address here, or somebody else has it.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen()  # else another server could take the port while the model is loaded
        except BaseException:
            found.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"{host} port {port} cannot be used: {error.strerror or error}.",
            hint="Choose another with --port or --host; --port 0 takes a free one.",
        ) from error
    return found


def address(listener: socket.socket, certificate: Certificate | None) -> str:
    """What clients take as the base of all addresses."""
    host, port = listener.getsockname()[:2]
    scheme = "http" if certificate is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/v1"


class Connection(H11Protocol):
    """A connection that is closed if the head of a request does not arrive in time, if what is sent is not taken, or if
    there are too many."""

    _waiting: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.close()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, or of several."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        self._stop_sending()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._await_taking()

    def resume_writing(self) -> None:
        """Send on: most of it was taken."""
        self._stop_sending()
        super().resume_writing()

    def _await_head(self) -> None:
        if not self._is_between():
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _is_between(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._is_between():
            self.timeout_keep_alive_handler()

    def _await_taking(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._sending = self.loop.call_later(TAKE_SECONDS, self._look_at_taking, left)

    def _look_at_taking(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._await_taking()
        else:
            self.transport.abort()  # closing would wait for the client

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None


class Server(uvicorn.Server):
    """Serves an app until SIGINT or SIGTERM, then finishes what was accepted; a second SIGINT ends it at once.

    Args:
        app: what answers.
        certificate: for TLS; None for none.
        opened: is called once clients can connect.
        ending: is called when no more clients can.
    """

    def __init__(
        self,
        app: ASGIApp,
        certificate: Certificate | None,
        *,
        opened: Callable[[], object],
        ending: Callable[[], object],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=Connection,
                ws="none",
                lifespan="off",
                interface="asgi3",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_certfile=None if certificate is None else certificate.file,
                ssl_keyfile=None if certificate is None else certificate.key,
            )
        )
        self._opened, self._ending = opened, ending

    def serve_at(self, listener: socket.socket) -> None:
        """Serve there until a signal."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # errors are told by the app
        asyncio.run(self.serve([listener]))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self._opened()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Lets signals end the server and no more, where uvicorn would end the process as they do."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _signalled(self, number: int) -> None:
        if not self.should_exit:
            self.should_exit = True
            self._ending()
        elif number == signal.SIGINT:
            os._exit(128 + number)  # a model that is at work cannot be broken off
