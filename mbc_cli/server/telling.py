"""Whatever goes wrong in a route is told in one shape, and without what was sent."""

from typing import Final

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


def tell_errors(app: FastAPI) -> None:
    """Let every error be told in one shape."""

    @app.exception_handler(Refusal)
    async def refuse(request: Request, error: Refusal) -> Response:
        return error.response()

    @app.exception_handler(MBCError)
    async def tell(request: Request, error: MBCError) -> Response:
        return refusal(error).response()

    @app.exception_handler(Ended)
    async def end(request: Request, error: Ended) -> Response:
        return ended().response()

    @app.exception_handler(Gone)
    async def leave(request: Request, error: Gone) -> Response:
        return Response(status_code=_GONE)

    @app.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> Response:
        return _invalid(error).response()

    @app.exception_handler(HTTPException)
    async def pass_on(request: Request, error: HTTPException) -> Response:
        return Refusal(error.status_code, f"{error.detail}.", headers=error.headers).response()

    @app.exception_handler(Exception)
    async def surprise(request: Request, error: Exception) -> Response:
        return unexpected().response()


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
