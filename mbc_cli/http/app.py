"""The server's routes, as a FastAPI app."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Final, Literal

import fastapi
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.security import HTTPBearer
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.http.chat import ChatRequest, Completion, completion, stream_events
from mbc_cli.http.documents import (
    INGESTED,
    LONGEST_NAME,
    BankReply,
    DocumentRecord,
    ListReply,
    NewDocuments,
    describe_banks,
    find_document,
    list_documents,
)
from mbc_cli.http.queue import BATCH_CHARACTERS, BatchQueue, MemoryService, until_disconnected
from mbc_cli.http.server import EXCEPTION_HANDLERS, ApiError, ErrorReply
from mbc_engine import __version__

# What the model's thread may still be at when the server waits no longer for requests.
_LAST_SECONDS: Final = 10
_DOCUMENTS: Final = "documents"
_EVENTS: Final = "text/event-stream"
_NO_TEXT: Final[Any] = {"text"}


async def _service(request: Request) -> MemoryService:
    service: MemoryService = request.app.state.service
    return service


async def _queue(request: Request) -> BatchQueue:
    queue: BatchQueue = request.app.state.queue
    return queue


Service = Annotated[MemoryService, Depends(_service)]
Queue = Annotated[BatchQueue, Depends(_queue)]
DocumentId = Annotated[str, fastapi.Path(max_length=LONGEST_NAME)]

router = APIRouter(responses={"default": {"model": ErrorReply, "description": "An error"}})


@router.post(
    "/v1/chat/completions",
    response_model=Completion,
    responses={200: {"content": {_EVENTS: {"schema": {"type": "string"}}}, "description": "The answer, or its stream"}},
    tags=["Ask"],
)
async def complete(asked: ChatRequest, request: Request, service: Service, queue: Queue) -> Response:
    """Answer the last question of a conversation from the memory."""
    _require_model(asked.model, service)
    question, options = asked.question, asked.options
    if not asked.stream:
        answer = queue.submit(options, (question, None))
        told = await until_disconnected(request, answer, answer)
        return JSONResponse(completion(service.name, told).model_dump())
    tokens: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def on_token(token: str) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(tokens.put_nowait, token)

    answer = queue.submit(options, (question, on_token))
    answer.add_done_callback(lambda _: tokens.put_nowait(None))
    first = await until_disconnected(request, asyncio.ensure_future(tokens.get()), answer)
    if answer.done():
        answer.result()  # what went wrong before the first token is told with a status
    with_usage = bool((asked.stream_options or {}).get("include_usage"))
    events = stream_events(service.name, first, tokens, answer, with_usage=with_usage)
    return StreamingResponse(events, media_type=_EVENTS, headers={"Cache-Control": "no-cache"})


@router.get("/v1/models", tags=["Look"])
async def list_models(service: Service, request: Request) -> ListReply[dict[str, str | int]]:
    """The model that is served."""
    return ListReply(data=[_model(service, request)])


@router.get("/v1/models/{id}", tags=["Look"])
async def show_model(id: str, service: Service, request: Request) -> dict[str, str | int]:
    """The model that is served, if it is that one."""
    _require_model(id, service)
    return _model(service, request)


@router.get("/v1/bank", tags=["Look"])
def show_bank(service: Service) -> BankReply:
    """What the memory holds, and its size."""
    return describe_banks(service.memory.paths)


@router.post(
    "/v1/documents",
    status_code=201,
    response_model=DocumentRecord | ListReply[DocumentRecord],
    tags=["Documents"],
)
async def add(given: NewDocuments, request: Request, queue: Queue) -> Response:
    """Memorise a document, or several. Once this is answered, every question finds them, whatever happens."""
    documents = given if isinstance(given, list) else [given]
    size = sum(len(document.text) for document in documents) / BATCH_CHARACTERS
    work = queue.submit(_DOCUMENTS, documents, size)
    records = [record.model_dump(exclude=_NO_TEXT) for record in await until_disconnected(request, work, work)]
    return JSONResponse({"object": "list", "data": records} if isinstance(given, list) else records[0], 201)


@router.get("/v1/documents", response_model_exclude={"data": {"__all__": _NO_TEXT}}, tags=["Documents"])
def show_documents(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str, Query(max_length=LONGEST_NAME, description="The last id of the page before.")] = "",
) -> ListReply[DocumentRecord]:
    """The documents of the memory, those of clients first."""
    return list_documents(service.bank, service.folder, limit, after)


@router.get("/v1/documents/{id}", tags=["Documents"])
def show_document(id: DocumentId, service: Service) -> DocumentRecord:
    """A document, with its text if a client sent it."""
    found = find_document(service.bank, service.folder, id)
    if found is None:
        raise _no_document()
    return found


@router.delete("/v1/documents/{id}", tags=["Documents"])
async def remove(id: DocumentId, request: Request, queue: Queue) -> dict[str, str | bool]:
    """Forget a document that a client sent."""
    if id.startswith(INGESTED):
        raise ApiError(
            403,
            "Only documents that clients sent can be removed here; others with `mbc bank remove`.",
            "not_kept_here",
        )
    work = queue.submit(_DOCUMENTS, id)
    if not await until_disconnected(request, work, work):
        raise _no_document()
    return {"id": id, "object": "document.deleted", "deleted": True}


async def health(queue: Queue) -> Response:
    """Whether questions are answered."""
    status: Literal["ok", "unavailable"] = "ok" if queue.is_open else "unavailable"
    return JSONResponse({"status": status}, 200 if queue.is_open else 503)


def _model(service: MemoryService, request: Request) -> dict[str, str | int]:
    return {"id": service.name, "object": "model", "created": request.app.state.created, "owned_by": "mbc"}


def _require_model(name: str, service: MemoryService) -> None:
    if name != service.name:
        told = f"There is no model {name[:LONGEST_NAME]!r} here; {service.name} is served."
        raise ApiError(404, told, "model_not_found", param="model")


def _no_document() -> ApiError:
    return ApiError(404, "There is no such document.", "document_not_found", param="id")


def application(
    service: MemoryService,
    *,
    batch: int,
    capacity: int,
    has_token: bool,
    crashed: Callable[[BaseException], object],
) -> FastAPI:
    """The app that serves a memory. At its end, `state.is_finished` tells whether the model's thread has come to rest.

    Args:
        service: what answers.
        batch: the most questions or document changes in one batch.
        capacity: how many requests may wait for the model.
        has_token: whether requests have to bring one.
        crashed: gets unexpected errors.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.queue.start()
        yield
        app.state.is_finished = await app.state.queue.close(service.memory.close, _LAST_SECONDS)

    app = FastAPI(
        title="mbc",
        version=__version__,
        summary="A compressed long-term memory",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.state.service, app.state.created = service, int(time.time())
    app.state.queue = BatchQueue(service.process, batch=batch, capacity=capacity, crashed=crashed)
    # The token itself is checked before a request is read, see `guarded`.
    app.add_api_route("/health", health, tags=["Look"])
    app.include_router(router, dependencies=[Depends(HTTPBearer(auto_error=False))] if has_token else [])
    return app
