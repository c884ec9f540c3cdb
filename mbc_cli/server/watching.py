"""What is said of requests on the server's own terminal: a line for each with --verbose, and what nobody expected."""

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send


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
