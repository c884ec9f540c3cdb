"""The server's routes: what comes in is checked, given to the thread that has the model, and put into its shape."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.server import listing
from mbc_cli.server.chat import ChatRequest, Completion, Writing
from mbc_cli.server.description import failures
from mbc_cli.server.document_folder import LONGEST_NAME, Text
from mbc_cli.server.errors import Refusal
from mbc_cli.server.memory import Adding, Answered, Asking, Removing
from mbc_cli.server.served import Served, ServedHere
from mbc_cli.server.shapes import (
    DocumentRemoved,
    DocumentsAdded,
    Given,
    Health,
    Id,
    ModelList,
    ModelShape,
    PageWanted,
)
from mbc_cli.server.streaming import EVENTS, Pieces, events
from mbc_cli.server.waiting import begun, while_there

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
