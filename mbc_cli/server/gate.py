"""Who may ask: whoever knows the token, or without one, programs on this machine.

Without a token a page in the browser must not get in either: neither under another host's name that leads here, nor
from its own origin.
"""

import os
import secrets
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mbc_cli.server.errors import Refusal
from mbc_engine.errors import ConfigError

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
