"""The server's routes: what comes in is checked, given to the thread that has the model, and put into its shape."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.server import listing
from mbc_cli.server.chat import ChatRequest, Completion, Writing
from mbc_cli.server.document_folder import LONGEST_NAME, DocumentFolder, Text
from mbc_cli.server.errors import ErrorReply, Refusal, ended, overloaded, refusal, unexpected
from mbc_cli.server.memory import Adding, Answered, Asking, Removing
from mbc_cli.server.turns import Ended, QueueFull, Turns, Work
from mbc_engine import __version__
from mbc_engine.errors import MBCError

MOST_DOCUMENTS: Final = 100
_PAGE: Final = 20
_MOST_SHOWN: Final = 100
_EVENTS: Final = "text/event-stream"
# A client that is gone reads no answer; servers say this where they say anything.
_GONE: Final = 499


@dataclass(frozen=True)
class Served:
    """What is served.

    Attributes:
        name: the model's, as clients call it.
        banks: the files of the banks; documents go into the first.
        loading: seconds that loading the model took.
        folder: where clients' documents are.
        turns: the thread that has the model.
        has_token: whether requests bring one.
    """

    name: str
    banks: tuple[FilePath, ...]
    loading: float
    folder: DocumentFolder
    turns: Turns
    has_token: bool


class DocumentGiven(BaseModel):
    """A document to memorise; the same name again takes its place."""

    model_config = ConfigDict(strict=True, extra="forbid")

    text: str = Field(min_length=1, description="What to memorise.", json_schema_extra={"pattern": r"\S"})
    name: str | None = Field(None, min_length=1, max_length=LONGEST_NAME, description="What it is called.")
    date: Annotated[str, Field(max_length=100, json_schema_extra={"format": "date"})] | None = Field(
        None, description="The day it was written, such as 2024-05-31."
    )


class PageWanted(BaseModel):
    """Which documents to list."""

    model_config = ConfigDict(extra="forbid")

    limit: int = Field(_PAGE, ge=1, le=_MOST_SHOWN)
    after: str = Field("", max_length=LONGEST_NAME, description="The last id of the page before.")


class DocumentsAdded(BaseModel):
    """Documents that the bank has, in the order in which they were sent."""

    object: Literal["list"] = "list"
    data: list[listing.DocumentShape]


class DocumentRemoved(BaseModel):
    """A document that is gone."""

    id: str
    object: Literal["document.deleted"] = "document.deleted"
    deleted: Literal[True] = True


class ModelShape(BaseModel):
    """The model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["mbc"] = "mbc"


class ModelList(BaseModel):
    """All models that are served: one."""

    object: Literal["list"] = "list"
    data: list[ModelShape]


class Health(BaseModel):
    """Whether questions are answered."""

    status: Literal["ok", "unavailable"]


# Told apart by their shape, so that what is wrong is told of the one that is meant.
_ONE, _SEVERAL = "one", "several"
_Given = Annotated[
    Annotated[DocumentGiven, Tag(_ONE)]
    | Annotated[list[DocumentGiven], Field(min_length=1, max_length=MOST_DOCUMENTS), Tag(_SEVERAL)],
    Discriminator(lambda given: _SEVERAL if isinstance(given, list) else _ONE),
]
# What pydantic adds to the place of a mistake, and nobody has sent.
_BRANCHES: Final = (_ONE, _SEVERAL, "str")
_Id = Annotated[str, Path(max_length=LONGEST_NAME)]


def application(served: Served) -> FastAPI:
    """The server's routes as an ASGI app."""
    app = FastAPI(
        title="mbc", version=__version__, summary="A compressed long-term memory", docs_url=None, redoc_url=None
    )
    created = int(time.time())
    model = ModelShape(id=served.name, created=created)

    @app.post(
        "/v1/chat/completions",
        response_model=Completion,
        responses={
            200: {"content": {_EVENTS: {"schema": {"type": "string"}}}, "description": "The answer, or its stream"},
            **_errors(400, 404, 408, 413, 429, 500, 503),
        },
        tags=["Ask"],
    )
    async def complete(asked: ChatRequest, request: Request) -> Response:
        """Answer the last question of a conversation from the memory."""
        if asked.model != served.name:
            raise _no_model(asked.model, served.name)
        question, manner = asked.question(), asked.manner()
        writing = Writing(served.name, served.banks, served.loading)
        if asked.stream:
            options = asked.stream_options
            with_usage = options is not None and bool(options.include_usage)
            pieces: asyncio.Queue[str | None] = asyncio.Queue()
            loop = asyncio.get_running_loop()

            def said(piece: str) -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody listens
                    loop.call_soon_threadsafe(pieces.put_nowait, piece)

            answer = _begun(served.turns, Asking(question, manner, said))
            answer.add_done_callback(lambda _: pieces.put_nowait(None))
            first = asyncio.ensure_future(pieces.get())
            await _while_there(request, first, answer)
            if answer.done():
                answer.result()  # what went wrong before anything was said is told with a status
            events = _events(first.result(), pieces, answer, writing, manner.least, with_usage)
            return StreamingResponse(events, media_type=_EVENTS, headers={"Cache-Control": "no-cache"})
        answer = _begun(served.turns, Asking(question, manner))
        answered: Answered = await _while_there(request, answer, answer)
        return JSONResponse(writing.whole(answered, manner.least).model_dump())

    @app.get("/v1/models", tags=["Look"])
    async def list_models() -> ModelList:
        """The model that is served."""
        return ModelList(data=[model])

    @app.get("/v1/models/{id}", responses=_errors(404), tags=["Look"])
    async def show_model(id: str) -> ModelShape:
        """The model that is served, if it is that one."""
        if id != served.name:
            raise _no_model(id, served.name)
        return model

    @app.get("/v1/bank", responses=_errors(500, 503), tags=["Look"])
    def show_bank() -> listing.BankShape:
        """What the memory holds and weighs."""
        return listing.figures(served.banks)

    @app.post(
        "/v1/documents",
        status_code=201,
        response_model=listing.DocumentShape | DocumentsAdded,
        responses=_errors(400, 408, 413, 429, 500, 503),
        tags=["Documents"],
    )
    async def add(given: _Given, request: Request) -> Response:
        """Memorise a document, or several. Once this is answered, every question finds them, whatever happens."""
        several = given if isinstance(given, list) else [given]
        texts = tuple(Text.of(one.text, one.name, one.date) for one in several)
        future = _begun(served.turns, Adding(texts))
        added: list[listing.DocumentShape] = await _while_there(request, future, future)
        reply = DocumentsAdded(data=added) if isinstance(given, list) else added[0]
        return JSONResponse(reply.model_dump(), 201)

    @app.get("/v1/documents", responses=_errors(400, 500, 503), tags=["Documents"])
    def list_documents(wanted: Annotated[PageWanted, Query()]) -> listing.DocumentPage:
        """The documents of the memory, those of clients first."""
        return listing.page(served.banks[0], served.folder, wanted.limit, wanted.after)

    @app.get("/v1/documents/{id}", responses=_errors(400, 404, 500, 503), tags=["Documents"])
    def show_document(id: _Id) -> listing.WholeDocument:
        """A document, with its text if a client sent it."""
        found = listing.document(served.banks[0], served.folder, id)
        if found is None:
            raise _no_document()
        return found

    @app.delete(
        "/v1/documents/{id}",
        response_model=DocumentRemoved,
        responses=_errors(400, 403, 404, 429, 500, 503),
        tags=["Documents"],
    )
    async def remove(id: _Id, request: Request) -> Response:
        """Forget a document that a client sent."""
        if id.startswith(listing.ELSEWHERE):
            raise Refusal(
                403,
                "Only documents that clients sent can be removed here; others with `mbc bank remove`.",
                "not_kept_here",
            )
        future = _begun(served.turns, Removing(id))
        if not await _while_there(request, future, future):
            raise _no_document()
        return JSONResponse(DocumentRemoved(id=id).model_dump())

    @app.get("/health", responses={503: {"model": Health}}, tags=["Look"])
    async def health() -> Response:
        """Whether questions are answered."""
        is_well = served.turns.is_alive
        return JSONResponse({"status": "ok" if is_well else "unavailable"}, 200 if is_well else 503)

    _tell_errors(app)
    _describe(app, has_token=served.has_token)
    return app


def _begun(turns: Turns, work: Work) -> "asyncio.Future[Any]":
    try:
        future: Future[Any] = turns.submit(work)
    except QueueFull as error:
        raise overloaded() from error
    except Ended as error:
        raise ended() from error
    return asyncio.wrap_future(future)


class _Gone(Exception):
    """The client does not wait any more."""


async def _while_there(request: Request, wanted: "asyncio.Future[Any]", work: "asyncio.Future[Any]") -> Any:
    """What is waited for, as long as the client is there; else work that has not begun is dropped."""
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise _Gone
        return wanted.result()
    except asyncio.CancelledError:
        raise Ended from None  # the server waits no longer for what is still at work
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(
    piece: str | None,
    pieces: "asyncio.Queue[str | None]",
    answer: "asyncio.Future[Answered]",
    writing: Writing,
    least: float | None,
    with_usage: bool,
) -> AsyncIterator[str]:
    """An answer as server-sent events, piece by piece if it comes so."""
    yield _event(writing.piece(role="assistant", content=""))
    said = held = ""
    while piece is not None:
        # White space at the end of what is said is no part of the answer.
        text = held + (piece if said else piece.lstrip())
        held = text[len(text.rstrip()) :]
        if text := text.rstrip():
            said += text
            yield _event(writing.piece(content=text))
        piece = await pieces.get()
    try:
        answered = await answer
    except (MBCError, Ended) as error:
        yield _event((refusal(error) if isinstance(error, MBCError) else ended()).detail().model_dump())
        return
    except Exception:
        yield _event(unexpected().detail().model_dump())
        return
    if not said:
        yield _event(writing.piece(content=answered.content))
    yield _event(writing.last(answered, least))
    if with_usage:
        yield _event(writing.usage(answered))
    yield "data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _no_model(asked: str, name: str) -> Refusal:
    return Refusal(
        404, f"There is no model {asked[:LONGEST_NAME]!r} here; {name} is served.", "model_not_found", param="model"
    )


def _no_document() -> Refusal:
    return Refusal(404, "There is no such document.", "document_not_found", param="id")


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorReply, "description": _MEANINGS[status]} for status in statuses}


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


def _tell_errors(app: FastAPI) -> None:
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

    @app.exception_handler(_Gone)
    async def leave(request: Request, error: _Gone) -> Response:
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
    place = ".".join(str(part) for part in parts if part not in _BRANCHES)
    message = first["msg"].removeprefix("Value error, ")
    return Refusal(400, f"{place or 'The body'}: {message}.", "invalid_value", param=place or None)


def _describe(app: FastAPI, *, has_token: bool) -> None:
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
