"""Whatever goes wrong in a route is told in one shape, and without what was sent."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mbc_cli.server.errors import Refusal, ended, refusal, unexpected
from mbc_cli.server.shapes import BRANCHES
from mbc_cli.server.turns import Ended
from mbc_cli.server.waiting import Gone
from mbc_engine.errors import MBCError

# A client that is gone reads no answer; servers say this where they say anything.
_GONE: Final = 499
# A field of any name may be wrong: in that it is there.
_LONGEST_PLACE: Final = 200

_REPLIES: Final[dict[type[Exception], Callable[[Any], Response]]] = {
    Refusal: lambda error: error.response(),
    MBCError: lambda error: refusal(error).response(),
    Ended: lambda _: ended().response(),
    Gone: lambda _: Response(status_code=_GONE),
    RequestValidationError: lambda error: _invalid(error).response(),
    HTTPException: lambda error: Refusal(error.status_code, f"{error.detail}.", headers=error.headers).response(),
    Exception: lambda _: unexpected().response(),
}


def tell_errors(app: FastAPI) -> None:
    """Let every error be told in one shape."""
    for kind, reply in _REPLIES.items():
        app.add_exception_handler(kind, _handler(reply))


def _handler(reply: Callable[[Any], Response]) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(_: Request, error: Exception) -> Response:
        return reply(error)

    return handle


def _invalid(error: RequestValidationError) -> Refusal:
    """The first thing that is wrong with a request, without repeating what was sent."""
    first = error.errors()[0]
    if isinstance(error.body, bytes):
        return Refusal(400, "Send JSON, with `Content-Type: application/json`.", "invalid_json")
    if first["type"] == "json_invalid":
        return Refusal(400, "The body is not JSON.", "invalid_json")
    parts = (part for part in first["loc"][1:] if isinstance(part, int) or part.isidentifier())
    place = ".".join(str(part) for part in parts if part not in BRANCHES)[:_LONGEST_PLACE]
    message = first["msg"].removeprefix("Value error, ")
    return Refusal(400, f"{place or 'The body'}: {message}.", "invalid_value", param=place or None)
