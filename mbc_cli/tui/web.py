"""The dashboard in a browser: textual-serve, restricted to this machine and the user who started it.

Anyone who reaches the dashboard can remove documents and start training runs. So the server listens on loopback and
requires a key, which is in the printed address and then in a cookie. Requests with another Host or Origin are refused.
"""

import secrets
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from textual_serve.server import Server

from mbc_cli.render.terminal import notes, out
from mbc_engine.errors import ConfigError

_HOST: Final = "127.0.0.1"
_COOKIE: Final = "mbc-key"
# Keeps textual-serve's page from loading a font from elsewhere.
_POLICY: Final = "default-src 'self' 'unsafe-inline' data:; connect-src 'self' ws://{host}; frame-ancestors 'none'; form-action 'none'"


class DashboardServer(Server):
    """Serves the dashboard of `mbc ARGUMENTS`, in one process per page, and prints the address."""

    def __init__(self, arguments: Sequence[str], port: int) -> None:
        super().__init__("exec " + shlex.join([sys.executable, "-m", "mbc_cli", *arguments]), _HOST, port, "mbc")
        self._key = secrets.token_urlsafe(16)

    def serve(self, debug: bool = False) -> None:
        """Serve until SIGINT or SIGTERM. Raises ConfigError if the port cannot be used."""
        try:
            listener = socket.create_server((_HOST, self.port))
        except OSError as error:
            hint = "Choose another with --port."
            raise ConfigError(f"Port {self.port} cannot be used: {error.strerror or error}.", hint=hint) from error
        self._address = f"{_HOST}:{listener.getsockname()[1]}"
        self.public_url = f"http://{self._address}"
        web.run_app(self._make_app(), sock=listener, print=None, shutdown_timeout=1)

    async def on_startup(self, app: web.Application) -> None:
        """Print the address; from here on, signals end the server."""
        out.print(f"{self.public_url}/?key={self._key}")
        notes.print("Open this address in a browser on this machine. Ctrl-C stops the server.")

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.host != self._address or request.headers.get("Origin") not in (None, self.public_url):
            raise web.HTTPForbidden(text="This dashboard only answers at its own address.")
        typed, cookie = request.query.get("key", ""), request.cookies.get(_COOKIE, "")
        if not any(secrets.compare_digest(key.encode(), self._key.encode()) for key in (typed, cookie)):
            raise web.HTTPForbidden(text="Open the address that `mbc tui --web` printed.")
        if typed:
            # Keep the key out of the address bar and of links copied from it.
            page = web.HTTPFound("/")
            page.set_cookie(_COOKIE, self._key, httponly=True, samesite="Strict")
            raise page
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = _POLICY.format(host=self._address)
        return response
