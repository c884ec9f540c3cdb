"""`mbc serve` and `mbc mcp`: a memory for other programs, over HTTP, and for assistants, as their tool."""

import os
import re
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

import mbc_engine
from mbc_cli.command_line import interrupt_message
from mbc_cli.formatting import sanitise
from mbc_cli.loading import open_memory, require_model
from mbc_cli.options import BanksOption, DeviceOption, LanguageModelOption, ModelOption, WeightsOption, option
from mbc_cli.render.terminal import errors, is_on, notes, status_spinner
from mbc_engine.errors import ConfigError
from mbc_engine.machine import require_extra

if TYPE_CHECKING:
    from mbc_cli.http.documents import ClientDocuments
    from mbc_cli.http.upstream import Upstream

_access, _limits = partial(option, panel="Access"), partial(option, panel="Limits")
_DOCUMENTS = "Where to keep the text of documents that clients add; the folder must not be used for anything else."
_HOST = "The address to listen on; one that other machines can reach requires a token."
_CLIENTS = "Only answer clients that send the token in this file."
_ORIGIN = "Also answer web pages from this origin (CORS), such as http://localhost:3000; can be repeated."
_UPSTREAM = (
    "The address of another server with OpenAI's API: conversations with its models are passed on to it, with passages "
    "of the memory added."
)
_ALLOW = "Let the assistant memorise files in this folder, into the first bank; can be repeated."
_LISTING = "End replies of the other server with their sources, for programs that show only the text."
_MAX_BODY = "Maximum size of a request body."


def serve(
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    documents: Annotated[
        Path | None, option(_DOCUMENTS, metavar="FOLDER", show_default="beside the first bank, as NAME.documents")
    ] = None,
    llm: LanguageModelOption = None,
    device: DeviceOption = None,
    upstream: Annotated[str | None, option(_UPSTREAM, metavar="URL")] = None,
    remember: Annotated[bool, option("Also memorise conversations that are passed on.")] = False,
    list_sources: Annotated[bool, option(_LISTING)] = False,
    host: Annotated[str, _access(_HOST, metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, _access("The port to listen on; 0 picks a free one.", min=0, max=65535)] = 8377,
    token_file: Annotated[
        Path | None, _access(_CLIENTS, metavar="FILE", show_default="the value of MBC_TOKEN, if set")
    ] = None,
    allow_origin: Annotated[list[str] | None, _access(_ORIGIN, metavar="URL")] = None,
    batch: Annotated[int, _limits("Questions or documents processed as one batch.", min=1)] = 16,
    queue: Annotated[int, _limits("Maximum number of requests waiting for the model.", min=1)] = 64,
    max_body: Annotated[int, _limits(_MAX_BODY, min=1, metavar="BYTES", show_default="1 MiB")] = 1 << 20,
) -> None:
    """Serve a bank over HTTP: other programs ask questions and add documents.

    Any client of OpenAI's chat completions API works: use the printed address as its base URL. With several banks,
    documents go into the first. Ctrl-C finishes the requests already accepted; a second Ctrl-C stops at once.

    Examples:
      mbc serve
      mbc serve --bank team.mbc --bank mine.mbc --port 9000
      mbc serve --host 0.0.0.0 --token-file token.txt
      mbc serve --upstream http://localhost:11434/v1 --remember
    """
    require_extra("serve", "fastapi", "httpx", "uvicorn", asked_by="`mbc serve`")
    from mbc_cli.http.documents import ClientDocuments, DocumentFolder
    from mbc_cli.http.routes import Served, application
    from mbc_cli.http.server import Server, listen, read_token, with_access_control
    from mbc_cli.model_thread import ModelThread

    token = read_token(token_file, host)
    if wrong := [origin for origin in allow_origin or () if not re.fullmatch(r"https?://[^/*\s]+", origin)]:
        raise ConfigError(f"{wrong[0]} is not an origin.", hint="Give it as http://localhost:3000, without a path.")
    other = _upstream(upstream, remembers=remember, lists_sources=list_sources)
    unopened = DocumentFolder(documents or bank[0].parent / f"{bank[0].stem}.documents")
    with listen(host, port) as listener, unopened.opened() as folder:
        with interrupt_message("Nothing was served yet."):
            memory = open_memory(bank, model, device, weights=weight, llm=llm)
            client_documents = ClientDocuments(memory, folder)
            _prepare(client_documents, weight)
        model_thread = ModelThread(memory, capacity=queue, batch=batch)
        served = Served(model_thread, client_documents, Path(model).resolve().name, other)
        app = application(served, has_token=token is not None)
        guarded = with_access_control(app, token, max_body, on_crash=_report, origins=allow_origin or ())
        Server(guarded).run([listener])
    if not app.state.is_finished:
        errors.print("Stopped while the model was still busy. Everything that was acknowledged is saved.")
        os._exit(1)
    notes.print("Stopped. Everything that was acknowledged is saved.")


def mcp(
    *,
    bank: BanksOption,
    model: ModelOption,
    weight: WeightsOption = None,
    allow: Annotated[list[Path] | None, option(_ALLOW, metavar="FOLDER")] = None,
    device: DeviceOption = None,
) -> None:
    """Let an AI assistant ask, search and add to a bank: a Model Context Protocol (MCP) server on stdin and stdout.

    You don't run this yourself: add it to the assistant's settings, and the assistant starts and stops it.

    Examples:
      mbc mcp
      mbc mcp --bank ~/work.mbc --allow ~/notes
    """
    require_extra("mcp", "mcp", asked_by="`mbc mcp`")
    import anyio

    from mbc_cli.mcp import MemoryServer, allowed_folders
    from mbc_engine.bank.database import bytes_at

    require_model(model, device)
    for path in filter(bytes_at, bank):  # the others may be created while serving
        mbc_engine.MemoryBank.open(path, read_only=True).close()
    banks = [path.absolute() for path in bank]
    folders = allowed_folders(allow or [])
    memory = open_memory(banks, model, device, weights=weight)
    if sys.stdin.isatty():
        notes.print("Assistants talk to this server on stdin and stdout; see docs/mcp.md. Ctrl-D stops it.")
    anyio.run(MemoryServer(memory, folders).run)


def _upstream(typed: str | None, *, remembers: bool, lists_sources: bool) -> "Upstream | None":
    if typed is None:
        if remembers or lists_sources:
            hint = "Name it with --upstream URL."
            raise ConfigError("--remember and --list-sources are about conversations with another server.", hint=hint)
        return None
    from mbc_cli.http.upstream import Upstream
    from mbc_engine.lm.chat import Server, server_url

    url = server_url(typed)
    if not Server(url, "").is_on_this_machine:
        notes.print(Text(f"Conversations, and the passages found for them, are sent to {url}.", "yellow"))
    return Upstream(url, remembers=remembers, lists_sources=lists_sources)


def _prepare(documents: "ClientDocuments", weights: list[float] | None) -> None:
    from mbc_engine.bank import Banks
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.names import is_on_cluster

    memory = documents.memory
    if is_on_cluster(memory.paths[0]):
        raise ConfigError("Documents of clients go into the first bank.", hint="Name one of this machine first.")
    first = 0 if bytes_at(memory.paths[0]) else 1  # it need not exist yet
    if memory.paths[first:] and not any(map(is_on_cluster, memory.paths)):
        Banks.open(memory.paths[first:], None if weights is None else weights[first:]).close()
    memory.model  # noqa: B018  # loaded now
    with status_spinner("Updating the bank from the documents folder"):
        documents.sync()
    memory.open()


def _report(error: BaseException) -> None:
    errors.print(sanitise(f"Unexpected error: {type(error).__name__}: {error}"), style="red")
    if is_on("debug"):
        errors.print("\n".join(map(sanitise, "".join(traceback.format_exception(error)).splitlines())))
