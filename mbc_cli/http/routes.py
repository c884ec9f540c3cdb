"""The server's routes, as a FastAPI app."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Final

import fastapi
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse, Response, StreamingResponse

from mbc_cli.formatting import sanitise
from mbc_cli.http import chat, documents
from mbc_cli.http.documents import ClientDocuments, DocumentReply, ListReply, NewDocument, NewDocuments
from mbc_cli.http.server import CLIENT_LEFT, EXCEPTION_HANDLERS, ApiError, ErrorReply, Json
from mbc_cli.http.upstream import Upstream, for_upstream
from mbc_cli.model_thread import SHUTTING_DOWN, ModelThread, ModelThreadClosed
from mbc_cli.render.terminal import errors
from mbc_engine import __version__
from mbc_engine.errors import MBCError, NothingToRead

# For the model's thread to finish, once the server no longer waits for requests.
_LAST_SECONDS: Final = 10
_NO_TEXT: Final[Any] = {"text"}
_NO_DOCUMENT: Final = (404, "There is no such document.", "document_not_found", "id")


@dataclass(frozen=True)
class Served:
    """What the routes serve: a memory in its thread, by its model's name, clients' documents, and another server."""

    model_thread: ModelThread
    documents: ClientDocuments
    name: str
    upstream: Upstream | None = None
    started: int = field(default_factory=lambda: int(time.time()))

    def require_model(self, name: str) -> None:
        if name != self.name:
            message = f"This server has no model {name[: documents.MAX_NAME_LENGTH]!r}; it serves {self.name}."
            raise ApiError(404, message, "model_not_found", "model")


def _served(request: Request) -> Served:
    return request.app.state.served  # type: ignore[no-any-return]


FromState = Annotated[Served, Depends(_served)]
DocumentId = Annotated[str, fastapi.Path(max_length=documents.MAX_NAME_LENGTH)]


class _Chat(APIRoute):
    """Passes conversations with other models than the memory's on to the upstream server."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            served = _served(request)
            body = await for_upstream(request, served.name) if served.upstream is not None else None
            if served.upstream is None or body is None:
                return await answer(request)

            async def search(question: str, options: chat.MemoryOptions, top: int) -> list[Json]:
                with suppress(NothingToRead):
                    return await _search(request, served, question, options, top)
                return []

            async def remember(document: NewDocument) -> None:
                try:
                    await asyncio.wrap_future(served.model_thread.submit_item(served.documents.change, item=[document]))
                except MBCError as error:
                    errors.print(sanitise(f"A conversation was not memorised: {error.message}"), style="red")

            return await served.upstream.complete(body, search, remember)

        return handle


_ERRORS: Final[dict[int | str, Json]] = {"default": {"model": ErrorReply, "description": "An error"}}
conversations, router = APIRouter(route_class=_Chat, responses=_ERRORS), APIRouter(responses=_ERRORS)


@conversations.post(
    "/v1/chat/completions",
    response_model=chat.Completion,
    responses={
        200: {"content": {chat.EVENTS: {"schema": {"type": "string"}}}, "description": "The answer, or its stream"}
    },
    tags=["Ask"],
)
async def complete(body: chat.ChatRequest, request: Request, served: FromState) -> Response:
    """Answer the last question of a conversation from the memory. A follow-up is completed from the messages before it
    ("and when?"), and `mbc.asked` says how."""
    served.require_model(body.model)
    tokens: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def on_token(token: str) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody is listening
            loop.call_soon_threadsafe(tokens.put_nowait, token)

    question = (body.question, chat.completed_question(body.messages), on_token if body.stream else None)
    work = served.model_thread.submit_item(chat.answer, served.documents.current_memory, body.options, item=question)
    if not body.stream:
        return JSONResponse(chat.completion(served.name, await _result(request, work)))
    answer = asyncio.wrap_future(work)
    answer.add_done_callback(lambda _: tokens.put_nowait(None))
    first = await _until_disconnected(request, asyncio.ensure_future(tokens.get()), answer)
    if answer.done():
        answer.result()  # an error before the first token gets its own HTTP status
    with_usage = bool((body.stream_options or {}).get("include_usage"))
    events = chat.stream_events(served.name, first, tokens, answer, with_usage=with_usage)

    async def raise_unexpected() -> None:
        error = None if answer.cancelled() else answer.exception()
        if error is not None and not isinstance(error, MBCError):
            raise error

    report = BackgroundTask(raise_unexpected)
    return StreamingResponse(events, media_type=chat.EVENTS, headers={"Cache-Control": "no-cache"}, background=report)


async def _result(request: Request, work: Future[Any]) -> Any:
    answer = asyncio.wrap_future(work)
    return await _until_disconnected(request, answer, answer)


async def _until_disconnected(request: Request, wanted: asyncio.Future[Any], work: asyncio.Future[Any]) -> Any:
    """Wait for a result; `work` that has not begun is dropped if the client disconnects."""

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    leaving = asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({wanted, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            raise ApiError(499, CLIENT_LEFT)
        return wanted.result()
    except asyncio.CancelledError:
        raise ModelThreadClosed(SHUTTING_DOWN) from None
    finally:
        leaving.cancel()
        if not wanted.done():
            work.cancel()


async def _search(request: Request, served: Served, query: str, options: chat.SearchOptions, top: int) -> list[Json]:
    current = served.documents.current_memory
    work = served.model_thread.submit_item(chat.search, current, options.options(), top, item=query)
    return await _result(request, work)  # type: ignore[no-any-return]


@router.post("/v1/search", tags=["Ask"])
async def search(body: chat.SearchRequest, request: Request, served: FromState) -> ListReply[Json]:
    """The passages of the memory that fit a query best, whole, without an answer."""
    return ListReply(data=await _search(request, served, body.query, body, body.top))


@router.get("/v1/models", tags=["Inspect"])
async def list_models(served: FromState) -> ListReply[dict[str, str | int]]:
    """The model that is served, and those of the upstream server."""
    theirs = await served.upstream.models() if served.upstream is not None else []
    others = [model for model in theirs if model["id"] != served.name]  # under that name, the memory answers
    return ListReply(data=[await show_model(served.name, served), *others])


@router.get("/v1/models/{id}", tags=["Inspect"])
async def show_model(id: str, served: FromState) -> dict[str, str | int]:
    """The model that is served, if this is its name."""
    served.require_model(id)
    return {"id": served.name, "object": "model", "created": served.started, "owned_by": "mbc"}


@router.get("/v1/bank", tags=["Inspect"])
def show_bank(served: FromState) -> Json:
    """What the banks hold, and their sizes in bytes."""
    memory = served.model_thread.memory
    header, totals, sizes = memory.info()
    model = {"model": header.signature.name, "fingerprint": header.signature.fingerprint}
    held = {**asdict(totals), "sizes": asdict(sizes), "missing": memory.missing_banks}
    return {"object": "bank", "paths": [*map(str, memory.paths)], **model, **held}


@router.post(
    "/v1/documents", status_code=201, response_model=DocumentReply | ListReply[DocumentReply], tags=["Documents"]
)
async def add(body: NewDocuments, request: Request, served: FromState) -> Response:
    """Memorise one document or several. Every question asked after the reply finds them."""
    sent = body if isinstance(body, list) else [body]
    size = sum(len(document.text) for document in sent) / documents.BATCH_CHARACTERS
    work = served.model_thread.submit_item(served.documents.change, item=sent, size=size)
    replies = [reply.model_dump(exclude=_NO_TEXT) for reply in await _result(request, work)]
    return JSONResponse({"object": "list", "data": replies} if isinstance(body, list) else replies[0], 201)


@router.get("/v1/documents", response_model_exclude={"data": {"__all__": _NO_TEXT}}, tags=["Documents"])
def show_documents(
    served: FromState,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    after: Annotated[
        str, Query(max_length=documents.MAX_NAME_LENGTH, description="The last id of the previous page.")
    ] = "",
) -> ListReply[DocumentReply]:
    """List the documents of the memory, those of clients first."""
    return served.documents.page(limit, after)


@router.get("/v1/documents/{id}", tags=["Documents"])
def show_document(id: DocumentId, served: FromState) -> DocumentReply:
    """A document, with its text if a client sent it."""
    if (document := served.documents.find(id)) is None:
        raise ApiError(*_NO_DOCUMENT)
    return document


@router.delete("/v1/documents/{id}", tags=["Documents"])
async def remove(id: DocumentId, request: Request, served: FromState) -> dict[str, str | bool]:
    """Remove a document that a client sent."""
    if id.startswith(documents.INGESTED):
        message = "Only documents that clients sent can be removed here; `mbc bank remove` removes others."
        raise ApiError(403, message, "not_kept_here")
    if not await _result(request, served.model_thread.submit_item(served.documents.change, item=id)):
        raise ApiError(*_NO_DOCUMENT)
    return {"id": id, "object": "document.deleted", "deleted": True}


async def health(served: FromState) -> Response:
    """Whether the server accepts requests."""
    is_open = served.model_thread.is_open
    return JSONResponse({"status": "ok" if is_open else "unavailable"}, 200 if is_open else 503)


def application(served: Served, *, has_token: bool) -> FastAPI:
    """The app that serves a memory; after shutdown, `state.is_finished` says if the model's thread has finished."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        served.model_thread.start()
        yield
        if served.upstream is not None:
            await served.upstream.close()
        closed = asyncio.wrap_future(served.model_thread.close())
        done, _ = await asyncio.wait([closed], timeout=_LAST_SECONDS)
        for future in done:
            future.result()
        app.state.is_finished = bool(done)

    app = FastAPI(
        title="mbc",
        version=__version__,
        summary="A compressed long-term memory",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.state.served, app.state.is_finished = served, False
    app.add_api_route("/health", health, tags=["Inspect"])
    app.add_api_route("/health", health, methods=["HEAD"], include_in_schema=False)
    # The token itself is checked before a request is read, see `with_access_control`.
    for routes in (conversations, router):
        app.include_router(routes, dependencies=[Depends(HTTPBearer(auto_error=False))] if has_token else [])
    return app
