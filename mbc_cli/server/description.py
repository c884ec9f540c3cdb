"""What the server says of itself in /openapi.json: made so that it is true."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from mbc_cli.server.errors import ErrorReply

_MEANINGS: Final = {
    400: "The request means nothing",
    401: "The token is missing or wrong",
    403: "Not allowed",
    404: "There is no such thing",
    408: "The body did not arrive in time",
    413: "The body is too long",
    429: "Too many requests wait; try again after the seconds in Retry-After",
    500: "Something went wrong here",
    503: "Not now; try again after the seconds in Retry-After",
}


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route says of the errors it may end with."""
    return {status: {"model": ErrorReply, "description": _MEANINGS[status]} for status in statuses}


def describe_truly(app: FastAPI, *, has_token: bool) -> None:
    """Let /openapi.json say what is so: errors have our shape and statuses, and a token is wanted where it is."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            schemas = found["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            for path, operations in found["paths"].items():
                for operation in operations.values():
                    _correct(operation, path, has_token)
            if has_token:
                found["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _correct(operation: dict[str, Any], path: str, has_token: bool) -> None:
    responses = operation["responses"]
    if "422" in responses:
        del responses["422"]
    if path == "/health":
        return
    reply = {"schema": {"$ref": "#/components/schemas/ErrorReply"}}
    status = 401 if has_token else 403
    responses[str(status)] = {"description": _MEANINGS[status], "content": {"application/json": reply}}
    if has_token:
        operation["security"] = [{"token": []}]
    for status in (429, 503):
        if str(status) in responses:
            responses[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
