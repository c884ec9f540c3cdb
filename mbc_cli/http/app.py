"""What the server says of itself in /openapi.json: made so that it is true.

What is served, as every route knows it.

The server's routes: what comes in is checked, given to the thread that has the model, and put into its shape.

Whatever goes wrong in a route is told in one shape, and without what was sent.

The server as an ASGI app: its routes, its errors, and what it says of itself.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.http import documents as listing
from mbc_cli.http.chat import EVENTS, ChatRequest, Completion, Pieces, Writing, events
from mbc_cli.http.documents import (
    BRANCHES,
    LONGEST_NAME,
    DocumentFolder,
    DocumentRemoved,
    DocumentsAdded,
    Given,
    Health,
    Id,
    ModelList,
    ModelShape,
    PageWanted,
    Text,
)
from mbc_cli.http.queue import Adding, Answered, Asking, Ended, Gone, Removing, Turns, begun, while_there
from mbc_cli.http.security import ErrorReply, Refusal, ended, refusal, unexpected
from mbc_engine import __version__
from mbc_engine.errors import MBCError

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


@dataclass(frozen=True)
class Served:
    """A memory with its name.

    Attributes:
        name: the model's, as clients call it.
        banks: the files of the banks; documents go into the first.
        loading: seconds that loading the model took.
        folder: where clients' documents are.
        turns: the thread that has the model.
        has_token: whether requests bring one.
        since: when it was begun, in seconds of Unix time.
    """

    name: str
    banks: tuple[Path, ...]
    loading: float
    folder: DocumentFolder
    turns: Turns
    has_token: bool
    since: int = field(default_factory=lambda: int(time.time()))


async def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


# A route that takes it gets what its app serves.
ServedHere = Annotated[Served, Depends(_served)]


router = APIRouter()


@router.post(
    "/v1/chat/completions",
    response_model=Completion,
    responses={
        200: {"content": {EVENTS: {"schema": {"type": "string"}}}, "description": "The answer, or its stream"},
        **failures(400, 404, 408, 413, 429, 500, 503),
    },
    tags=["Ask"],
)
async def complete(asked: ChatRequest, request: Request, served: ServedHere) -> Response:
    """Answer the last question of a conversation from the memory."""
    _require_model(asked.model, served)
    question, options = asked.question(), asked.options()
    writing = Writing(served.name, served.banks, served.loading)
    if asked.stream:
        pieces = Pieces()
        answer = begun(served.turns, Asking(question, options, pieces.add))
        answer.add_done_callback(pieces.end)
        first = await while_there(request, asyncio.ensure_future(pieces.next()), answer)
        if answer.done():
            answer.result()  # what went wrong before anything was said is told with a status
        with_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        stream = events(first, pieces, answer, writing, with_usage=with_usage)
        return StreamingResponse(stream, media_type=EVENTS, headers={"Cache-Control": "no-cache"})
    answer = begun(served.turns, Asking(question, options))
    answered: Answered = await while_there(request, answer, answer)
    return JSONResponse(writing.whole(answered).model_dump())


@router.get("/v1/models", tags=["Look"])
async def list_models(served: ServedHere) -> ModelList:
    """The model that is served."""
    return ModelList(data=[_model(served)])


@router.get("/v1/models/{id}", responses=failures(404), tags=["Look"])
async def show_model(id: str, served: ServedHere) -> ModelShape:
    """The model that is served, if it is that one."""
    _require_model(id, served)
    return _model(served)


@router.get("/v1/bank", responses=failures(500, 503), tags=["Look"])
def show_bank(served: ServedHere) -> listing.BankShape:
    """What the memory holds and weighs."""
    return listing.figures(served.banks)


@router.post(
    "/v1/documents",
    status_code=201,
    response_model=listing.DocumentShape | DocumentsAdded,
    responses=failures(400, 408, 413, 429, 500, 503),
    tags=["Documents"],
)
async def add(given: Given, request: Request, served: ServedHere) -> Response:
    """Memorise a document, or several. Once this is answered, every question finds them, whatever happens."""
    several = given if isinstance(given, list) else [given]
    texts = tuple(Text.of(one.text, one.name, one.date) for one in several)
    future = begun(served.turns, Adding(texts))
    added: list[listing.DocumentShape] = await while_there(request, future, future)
    reply = DocumentsAdded(data=added) if isinstance(given, list) else added[0]
    return JSONResponse(reply.model_dump(), 201)


@router.get("/v1/documents", responses=failures(400, 500, 503), tags=["Documents"])
def list_documents(wanted: Annotated[PageWanted, Query()], served: ServedHere) -> listing.DocumentPage:
    """The documents of the memory, those of clients first."""
    return listing.page(served.banks[0], served.folder, wanted.limit, wanted.after)


@router.get("/v1/documents/{id}", responses=failures(400, 404, 500, 503), tags=["Documents"])
def show_document(id: Id, served: ServedHere) -> listing.WholeDocument:
    """A document, with its text if a client sent it."""
    found = listing.document(served.banks[0], served.folder, id)
    if found is None:
        raise _no_document()
    return found


@router.delete(
    "/v1/documents/{id}",
    response_model=DocumentRemoved,
    responses=failures(400, 403, 404, 429, 500, 503),
    tags=["Documents"],
)
async def remove(id: Id, request: Request, served: ServedHere) -> Response:
    """Forget a document that a client sent."""
    if id.startswith(listing.ELSEWHERE):
        raise Refusal(
            403,
            "Only documents that clients sent can be removed here; others with `mbc bank remove`.",
            "not_kept_here",
        )
    future = begun(served.turns, Removing(id))
    if not await while_there(request, future, future):
        raise _no_document()
    return JSONResponse(DocumentRemoved(id=id).model_dump())


@router.get("/health", responses={503: {"model": Health}}, tags=["Look"])
async def health(served: ServedHere) -> Response:
    """Whether questions are answered."""
    is_well = served.turns.is_alive
    return JSONResponse({"status": "ok" if is_well else "unavailable"}, 200 if is_well else 503)


def _model(served: Served) -> ModelShape:
    return ModelShape(id=served.name, created=served.since)


def _require_model(name: str, served: Served) -> None:
    if name != served.name:
        raise Refusal(
            404,
            f"There is no model {name[:LONGEST_NAME]!r} here; {served.name} is served.",
            "model_not_found",
            param="model",
        )


def _no_document() -> Refusal:
    return Refusal(404, "There is no such document.", "document_not_found", param="id")


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


def application(served: "Served") -> FastAPI:
    """The app that serves a memory."""
    app = FastAPI(
        title="mbc", version=__version__, summary="A compressed long-term memory", docs_url=None, redoc_url=None
    )
    app.state.served = served
    app.include_router(router)
    tell_errors(app)
    describe_truly(app, has_token=served.has_token)
    return app
