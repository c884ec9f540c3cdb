"""The server's routes, as a FastAPI app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Annotated, Any, Final

import fastapi
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.security import HTTPBearer
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.http import documents
from mbc_cli.http.chat import ChatRequest, Completion, SearchRequest, completion, stream_events
from mbc_cli.http.documents import INGESTED, MAX_NAME_LENGTH, DocumentReply, ListReply, NewDocuments
from mbc_cli.http.queue import BATCH_CHARACTERS, MemoryService, until_disconnected
from mbc_cli.http.server import EXCEPTION_HANDLERS, ApiError, ErrorReply
from mbc_engine import __version__
from mbc_engine.errors import MBCError

# For the model's thread to finish, once the server no longer waits for requests.
_LAST_SECONDS: Final = 10
_DOCUMENTS: Final = "documents"
_EVENTS: Final = "text/event-stream"
_NO_TEXT: Final[Any] = {"text"}


def _service(request: Request) -> MemoryService:
    service: MemoryService = request.app.state.service
    return service


Service = Annotated[MemoryService, Depends(_service)]
DocumentId = Annotated[str, fastapi.Path(max_length=MAX_NAME_LENGTH)]

router = APIRouter(responses={"default": {"model": ErrorReply, "description": "An error"}})


@router.post(
    "/v1/chat/completions",
    response_model=Completion,
    responses={200: {"content": {_EVENTS: {"schema": {"type": "string"}}}, "description": "The answer, or its stream"}},
    tags=["Ask"],
)
async def complete(asked: ChatRequest, request: Request, service: Service) -> Response:
    """Answer the last question of a conversation from the memory. A follow-up is completed from the messages before it
    ("and when?"), and `mbc.asked` says how."""
    _require_model(asked.model, service)
    question, completed, options = asked.question, asked.completed_question, asked.options
    if not asked.stream:
        answer = service.queue.submit(options, (question, completed, None))
        fields = await until_disconnected(request, answer, answer)
        return JSONResponse(completion(service.name, fields).model_dump())
    tokens: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def on_token(token: str) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody is listening
            loop.call_soon_threadsafe(tokens.put_nowait, token)

    answer = service.queue.submit(options, (question, completed, on_token))
    answer.add_done_callback(lambda _: tokens.put_nowait(None))
    first = await until_disconnected(request, asyncio.ensure_future(tokens.get()), answer)
    if answer.done():
        answer.result()  # an error before the first token gets its own HTTP status
    with_usage = bool((asked.stream_options or {}).get("include_usage"))
    events = stream_events(service.name, first, tokens, answer, with_usage=with_usage)
    report = BackgroundTask(_raise_unexpected, answer)
    return StreamingResponse(events, media_type=_EVENTS, headers={"Cache-Control": "no-cache"}, background=report)


async def _raise_unexpected(answer: "asyncio.Future[Any]") -> None:
    error = None if answer.cancelled() else answer.exception()
    if error is not None and not isinstance(error, MBCError):
        raise error


@router.post("/v1/search", tags=["Ask"])
async def search(given: SearchRequest, request: Request, service: Service) -> ListReply[dict[str, Any]]:
    """The passages of the memory that fit a query best, whole, without an answer."""
    work = service.queue.submit((given.options(), given.top), given.query)
    return ListReply(data=await until_disconnected(request, work, work))


@router.get("/v1/models", tags=["Inspect"])
async def list_models(service: Service) -> ListReply[dict[str, str | int]]:
    """The model that is served."""
    return ListReply(data=[_model(service)])


@router.get("/v1/models/{id}", tags=["Inspect"])
async def show_model(id: str, service: Service) -> dict[str, str | int]:
    """The model that is served, if this is its name."""
    _require_model(id, service)
    return _model(service)


@router.get("/v1/bank", tags=["Inspect"])
def show_bank(service: Service) -> dict[str, Any]:
    """What the banks hold, and their sizes in bytes."""
    header, totals, sizes = service.memory.info()
    model = {"model": header.signature.name, "fingerprint": header.signature.fingerprint}
    paths = list(map(str, service.memory.paths))
    return {"object": "bank", "paths": paths, **model, **asdict(totals), "sizes": asdict(sizes)}


@router.post(
    "/v1/documents", status_code=201, response_model=DocumentReply | ListReply[DocumentReply], tags=["Documents"]
)
async def add(given: NewDocuments, request: Request, service: Service) -> Response:
    """Memorise one document or several. Every question asked after the reply finds them."""
    several = given if isinstance(given, list) else [given]
    size = sum(len(document.text) for document in several) / BATCH_CHARACTERS
    work = service.queue.submit(_DOCUMENTS, several, size)
    records = [record.model_dump(exclude=_NO_TEXT) for record in await until_disconnected(request, work, work)]
    return JSONResponse({"object": "list", "data": records} if isinstance(given, list) else records[0], 201)


@router.get("/v1/documents", response_model_exclude={"data": {"__all__": _NO_TEXT}}, tags=["Documents"])
def show_documents(
    service: Service,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[str, Query(max_length=MAX_NAME_LENGTH, description="The last id of the previous page.")] = "",
) -> ListReply[DocumentReply]:
    """List the documents of the memory, those of clients first."""
    return documents.list_documents(service.bank, service.folder, limit, after)


@router.get("/v1/documents/{id}", tags=["Documents"])
def show_document(id: DocumentId, service: Service) -> DocumentReply:
    """A document, with its text if a client sent it."""
    found = documents.find_document(service.bank, service.folder, id)
    if found is None:
        raise _no_document()
    return found


@router.delete("/v1/documents/{id}", tags=["Documents"])
async def remove(id: DocumentId, request: Request, service: Service) -> dict[str, str | bool]:
    """Remove a document that a client sent."""
    if id.startswith(INGESTED):
        message = "Only documents that clients sent can be removed here; `mbc bank remove` removes others."
        raise ApiError(403, message, "not_kept_here")
    work = service.queue.submit(_DOCUMENTS, id)
    if not await until_disconnected(request, work, work):
        raise _no_document()
    return {"id": id, "object": "document.deleted", "deleted": True}


async def health(service: Service) -> Response:
    """Whether the server accepts requests."""
    return JSONResponse({"status": "ok"}) if service.queue.is_open else JSONResponse({"status": "unavailable"}, 503)


def _model(service: MemoryService) -> dict[str, str | int]:
    return {"id": service.name, "object": "model", "created": service.created, "owned_by": "mbc"}


def _require_model(name: str, service: MemoryService) -> None:
    if name != service.name:
        message = f"This server has no model {name[:MAX_NAME_LENGTH]!r}; it serves {service.name}."
        raise ApiError(404, message, "model_not_found", "model")


def _no_document() -> ApiError:
    return ApiError(404, "There is no such document.", "document_not_found", "id")


def application(service: MemoryService, *, has_token: bool) -> FastAPI:
    """The app that serves a memory; after shutdown, `state.is_finished` says if the model's thread has finished."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.queue.restart_idle_timer()
        yield
        app.state.is_finished = await service.queue.close(service.memory.close, _LAST_SECONDS)

    app = FastAPI(
        title="mbc",
        version=__version__,
        summary="A compressed long-term memory",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.state.service, app.state.is_finished = service, False
    app.add_api_route("/health", health, tags=["Inspect"])
    # The token itself is checked before a request is read, see `with_access_control`.
    app.include_router(router, dependencies=[Depends(HTTPBearer(auto_error=False))] if has_token else [])
    return app
