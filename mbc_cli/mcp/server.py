"""Which files an assistant may have memorised: those below the folders that were allowed, wherever links lead.

The protocol: calls wait for one thread that has the model, and stdout carries nothing else.
"""

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from mbc_cli.mcp.tools import (
    INSTRUCTIONS,
    KINDS,
    Answered,
    Arguments,
    Figures,
    Ingested,
    Memory,
    Paths,
    Query,
    Question,
    Searched,
    answered,
    figures,
    ingested,
    listed,
    refusal,
    searched,
)
from mbc_cli.render.terminal import verbosity
from mbc_cli.text import counted, plain
from mbc_engine import __version__
from mbc_engine.errors import ConfigError, DataError, MBCError
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.text import Found, Skipped, find_files, require_paths, shown

_LEADS_OUT: Final = "links to somewhere outside the allowed folders"


class Allowed:
    """The folders whose files may be memorised, but for what is hidden in them, and for the banks.

    Args:
        folders: as they were named; none for no file at all.
        banks: files that are no documents even if they lie there.

    Raises:
        ConfigError: one of them is no folder.
    """

    def __init__(self, folders: Sequence[Path], banks: Sequence[Path] = ()) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"{folder} is not a folder.", hint="Name existing folders with --allow.")
        self.folders = tuple(Path(os.path.realpath(folder)) for folder in folders)
        self._banks = {os.path.realpath(bank) for bank in banks}

    def places(self, names: Sequence[str]) -> list[Path]:
        """Where names lead, absolute or relative to an allowed folder; nothing is walked yet.

        Raises:
            ConfigError: no folder is allowed.
            DataError: something is not to be memorised, whether it is there or not, or is not there.
        """
        if not self.folders:
            raise ConfigError("No folder is allowed.", hint="Start the server with `mbc mcp --allow FOLDER`.")
        places = [self._place(name) for name in names]
        require_paths(places)
        return places

    def find(self, places: Sequence[Path]) -> Found:
        """The readable files among places and below.

        A link below that leads elsewhere is told as one skipped thing, whatever lies behind it.

        Raises:
            DataError: a place is not there any more.
        """
        found = find_files(places)
        files, skipped, links = [], [], dict[Path, None]()
        for path in found.files:
            if self._is_inside(path):
                files.append(path)
            else:
                links[self._link(path)] = None
        for own in found.skipped:
            if self._is_inside(Path(own.source)):
                skipped.append(own)
            else:
                links[self._link(Path(own.source))] = None
        return Found(tuple(files), (*skipped, *(Skipped(shown(link), _LEADS_OUT) for link in links)))

    def _place(self, name: str) -> Path:
        """Where a name leads, if that is allowed."""
        try:
            typed = Path(name).expanduser()
            places = [folder / typed for folder in self.folders]  # an absolute one stays what it is
            place = Path(os.path.realpath(next((place for place in places if place.exists()), places[0])))
        except (OSError, RuntimeError, ValueError) as error:  # too long a name, nobody's home, a null character
            raise self._refusal(name) from error
        if not self._is_inside(place):
            raise self._refusal(name)
        if str(place) in self._banks:
            raise DataError(f"{shown(place)} is a bank, not a document.", hint="Name files and folders to memorise.")
        return place

    def _refusal(self, name: str) -> DataError:
        folders = ", ".join(map(shown, self.folders))
        return DataError(
            f"{name} is not allowed.", hint=f"Only files below {folders} that are not hidden may be memorised."
        )

    def _is_inside(self, path: Path) -> bool:
        real = Path(os.path.realpath(path))
        return any(
            real.is_relative_to(folder) and not any(part.startswith(".") for part in real.relative_to(folder).parts)
            for folder in self.folders
        )

    def _link(self, path: Path) -> Path:
        """The first on the way to a path behind which it is outside."""
        way = [*reversed(path.parents), path]
        entered = next((number for number, place in enumerate(way) if self._is_inside(place)), len(way))
        # Nothing lies at a name that is no UTF-8 and is told in other characters: such a one stands for itself.
        return next((place for place in way[entered:] if not self._is_inside(place)), path)


BANK: Final = "mbc://bank"
_JSON: Final = "application/json"
_ENDING_SECONDS: Final = 1.5

_Context = ServerRequestContext[Any]
_Result = TypeVar("_Result")


class MemoryServer:
    """Serves one client on stdin and stdout.

    Args:
        memory: what is asked and written.
        allowed: which files may be memorised.

    Attributes:
        server: the protocol's side of it, which other transports may serve.
    """

    def __init__(self, memory: Memory, allowed: Allowed) -> None:
        self._memory, self._allowed = memory, allowed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory")
        self._last: Future[None] | None = None
        self.server: Server[Any] = Server(
            "mbc",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )

    async def run(self) -> None:
        """Serve until the client closes stdin. SIGINT and SIGTERM end the process here, for stdin cannot be left."""
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as serving:
                group.start_soon(self._leave_on_signal, group, serving)
                await self._serve()
            if not serving.cancel_called:
                await self._finish()
                group.cancel_scope.cancel()

    async def _serve(self) -> None:
        try:
            async with stdio_server() as (requests, responses):
                # The file descriptor leads to stderr by now, but what stays in Python's buffer would come out at the
                # end, when it leads to the client again.
                with redirect_stdout(sys.stderr):
                    if self._memory.has_begun:
                        self._thread.submit(self._memory.load)  # whatever is wrong, the first call meets it again
                    await self.server.run(requests, responses, self.server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the client is gone

    async def _leave_on_signal(self, group: TaskGroup, serving: anyio.CancelScope) -> None:
        # Where there are no such signals, KeyboardInterrupt ends it.
        with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                if serving.cancel_called:
                    os._exit(0)
                serving.cancel()
                group.start_soon(self._leave)

    async def _leave(self) -> None:
        await self._finish()
        os._exit(0)

    async def _finish(self) -> None:
        """Let what is encoded be committed; what takes longer than a client waits is broken off."""
        if self._last is None:  # a signal may come while the end of stdin is being followed
            self._last = self._thread.submit(self._memory.close)
            self._thread.shutdown(wait=False)
        with anyio.move_on_after(_ENDING_SECONDS):
            await asyncio.wrap_future(self._last)
        if not self._last.done() or self._last.cancelled():
            os._exit(0)  # a model that is being loaded, for one, cannot be broken off otherwise

    async def _list_tools(self, context: _Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list(listed(self._allowed.folders)))

    async def _call_tool(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        kind = KINDS.get(params.name)
        if kind is None:
            raise MCPError(INVALID_PARAMS, f"There is no tool {params.name!r}.")
        try:
            result = await self._result(context, kind.takes.model_validate(params.arguments or {}))
        except ValidationError as error:
            return _failed(refusal(error))
        except MBCError as error:
            return _failed(error)
        except Exception as error:  # noqa: BLE001  # the outermost of a call: the next one is answered all the same
            _trace(error)
            return _failed(_unexpected(error))
        return CallToolResult(
            content=[TextContent(type="text", text=result.text())], structured_content=result.model_dump(mode="json")
        )

    async def _result(self, context: _Context, given: Arguments) -> Answered | Searched | Ingested:
        match given:
            case Question():
                return answered(await self._work(lambda: self._memory.ask(given.question, given.options())))
            case Query():
                return searched(await self._work(lambda: self._memory.search(given.query, given.limit)))
            case Paths():
                return await self._ingest(context, given)
        raise TypeError(f"no tool takes {given!r}")

    async def _ingest(self, context: _Context, given: Paths) -> Ingested:
        """Memorise, telling the client how far it is; a call that is cancelled ends after its batch."""
        places = self._allowed.places(given.paths)
        loop, told, stop = asyncio.get_running_loop(), asyncio.Queue[Event | None](), threading.Event()

        def work() -> Ingested:
            found, skipped = self._allowed.find(places), []
            for event in self._memory.ingest(found, stop):
                loop.call_soon_threadsafe(told.put_nowait, event)
                if isinstance(event, FileSkipped):
                    skipped.append(event)
                if isinstance(event, IngestFinished):
                    return ingested(event, skipped)
            raise RuntimeError("an ingest did not end")

        running = loop.run_in_executor(self._thread, work)
        running.add_done_callback(lambda _: told.put_nowait(None))
        try:
            size = done = 0
            while (event := await told.get()) is not None:
                if isinstance(event, IngestStarted):
                    size = event.size
                if isinstance(event, DocumentsIngested) and event.size > done:
                    done = event.size
                    counts = f"{counted(event.documents, 'document')}, {counted(event.chunks, 'chunk')}"
                    await context.session.report_progress(done, size or None, counts)
            return await running
        finally:
            stop.set()
            running.cancel()

    async def _work(self, work: Callable[[], _Result]) -> _Result:
        """Do what needs the model when its turn comes; a call that is cancelled before that is dropped."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _list_resources(self, context: _Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        told = "What the memory holds, its size, its model and its files."
        return ListResourcesResult(
            resources=[Resource(uri=BANK, name="bank", title="The memory", description=told, mime_type=_JSON)]
        )

    async def _read_resource(self, context: _Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if str(params.uri) != BANK:
            raise MCPError(INVALID_PARAMS, f"There is no resource {params.uri}.")
        try:
            told = await anyio.to_thread.run_sync(self._figures)
        except MBCError as error:
            raise MCPError(INVALID_PARAMS, _told(error)) from error
        text = told.model_dump_json(indent=2)
        return ReadResourceResult(contents=[TextResourceContents(uri=BANK, mime_type=_JSON, text=text)])

    def _figures(self) -> Figures:
        return figures(self._memory.held(), self._memory.banks)


def _failed(error: MBCError) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=_told(error))], is_error=True)


def _told(error: MBCError) -> str:
    """What went wrong, and the way out on a second line."""
    return "\n".join(plain(line) for line in (error.message, error.hint) if line)


def _unexpected(error: Exception) -> MBCError:
    return MBCError(
        f"Unexpected error: {type(error).__name__}: {error}", hint="Run `mbc mcp --debug` for a traceback on stderr."
    )


def _trace(error: Exception) -> None:
    if verbosity().debug:
        traceback.print_exception(error)
