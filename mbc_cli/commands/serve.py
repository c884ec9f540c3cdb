"""The options of `mbc serve` that no other command has.

`mbc serve`: a memory for other programs, over HTTP.

Serving a memory: made ready, then asked by clients until a signal ends it.
"""

import os
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from mbc_cli.asking import Asker
from mbc_cli.http.app import Served, application
from mbc_cli.http.listening import Server, address
from mbc_cli.http.queue import Memory, Turns
from mbc_cli.http.security import Gate, Watched, WholeBody
from mbc_cli.options import BanksOption, DeviceOption, ModelOption, WeightsOption
from mbc_cli.render.terminal import detail, errors, notes, out, verbosity, working
from mbc_cli.text import plain
from mbc_engine.bank import Banks
from mbc_engine.bank.database import bytes_at
from mbc_engine.machine import require_extra
from mbc_engine.question import AskOptions

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from mbc_cli.http.documents import DocumentFolder
    from mbc_cli.http.listening import Certificate


_ACCESS, _LIMITS = "Who may ask", "Limits"

DocumentsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        show_default="beside the first bank, as NAME.documents",
        help="Where to keep the text of documents that clients add; a folder used for nothing else.",
    ),
]
HostOption = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="The address to listen on; one that other machines can reach requires a token.",
        rich_help_panel=_ACCESS,
    ),
]
PortOption = Annotated[
    int, typer.Option(min=0, max=65535, help="The port to listen on; 0 picks a free one.", rich_help_panel=_ACCESS)
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="what MBC_TOKEN holds, if it is set",
        help="Only answer clients that send the token in this file.",
        rich_help_panel=_ACCESS,
    ),
]
TlsCertOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Serve over TLS, with this certificate and its chain.", rich_help_panel=_ACCESS),
]
TlsKeyOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", show_default="in the same file", help="The certificate's key.", rich_help_panel=_ACCESS
    ),
]
BatchOption = Annotated[
    int, typer.Option(min=1, help="Questions or documents processed as one batch.", rich_help_panel=_LIMITS)
]
QueueOption = Annotated[int, typer.Option(min=1, help="Most requests waiting for the model.", rich_help_panel=_LIMITS)]
MaxBodyOption = Annotated[
    int,
    typer.Option(min=1, metavar="BYTES", show_default="1 MiB", help="Largest request body.", rich_help_panel=_LIMITS),
]


def serve(
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    documents: DocumentsOption = None,
    device: DeviceOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8377,
    token_file: TokenFileOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    batch: BatchOption = 16,
    queue: QueueOption = 64,
    max_body: MaxBodyOption = 1 << 20,
) -> None:
    """Serve a memory over HTTP: other programs ask questions and add documents.

    Any client of OpenAI's chat completions API works: use the printed address as its
    base URL. With several banks, documents go into the first. Ctrl-C finishes the
    requests already accepted; a second Ctrl-C stops at once.

    \b
    Examples:
      mbc serve
      mbc serve --bank team.mbc --bank mine.mbc --port 9000
      mbc serve --host 0.0.0.0 --token-file token.txt
    """
    require_extra("serve", "fastapi", "uvicorn", asked_by="mbc serve")
    from mbc_cli.http.documents import DocumentFolder
    from mbc_cli.http.listening import bound, certificate_of
    from mbc_cli.http.security import require_token, token_of
    from mbc_cli.interrupt import ending_with

    token, certificate = token_of(token_file), certificate_of(tls_cert, tls_key)
    require_token(host, token)
    place = DocumentFolder(documents or bank[0].with_name(f"{bank[0].stem}.documents"))
    with bound(host, port) as listener, place.opened() as folder:
        with ending_with("Nothing was served yet."):
            memory = ready_memory(bank, weight, model, device, folder)
        is_finished = serve_at(listener, memory, token, certificate, Limits(batch, queue, max_body))
    if not is_finished:
        give_up()


# What the thread may still be at when nobody waits for an answer any more.
_LAST_SECONDS: Final = 10


@dataclass(frozen=True)
class Limits:
    """How many questions or documents are taken together, how many requests wait, and the longest of them in bytes."""

    batch: int
    queue: int
    body: int


def ready_memory(
    banks: "Sequence[Path]",
    weights: "Sequence[float] | None",
    model: str,
    device: str | None,
    folder: "DocumentFolder",
) -> Memory:
    """The memory to serve, in line with its documents.

    Raises:
        ModelError: the model cannot be loaded, or another one wrote a bank.
        BankError: a bank cannot be used.
        ConfigError: the banks or their weights do not fit each other.
    """
    _require_banks(banks, weights)
    asker = Asker.load(banks, model, AskOptions(), device, weights=weights)
    memory = Memory(asker, folder)
    with working("Bringing the bank in line with the documents"):
        memory.catch_up()
    asker.recall()
    return memory


def serve_at(
    listener: "socket.socket", memory: Memory, token: str | None, certificate: "Certificate | None", limits: Limits
) -> bool:
    """Serve until a signal. False if the model is still at work on what was accepted."""
    asker = memory.asker
    turns = Turns(memory.working(), most=limits.batch, room=limits.queue, crashed=_tell)
    served = Served(
        Path(asker.name).resolve().name, asker.paths, asker.loading, memory.folder, turns, token is not None
    )
    app = Watched(Gate(WholeBody(application(served), limits.body), token), detail, _tell)

    def opened() -> None:
        out.print(address(listener, certificate))
        notes.print("Programs can ask the memory at this address. Ctrl-C ends it.")

    def ending() -> None:
        notes.print("Ending: what was accepted is finished; Ctrl-C again ends at once.")

    server = Server(app, certificate, opened=opened, ending=ending)
    turns.start()
    server.serve_at(listener)
    with suppress(KeyboardInterrupt):
        if turns.close(_LAST_SECONDS):
            notes.print("Ended; everything that was answered is kept.")
            return True
    return False


def give_up() -> NoReturn:
    """End the process at once: a model that is at work cannot be broken off."""
    errors.print("Ended at once: the model was still at work. Everything that was answered is kept.")
    os._exit(1)


def _require_banks(banks: "Sequence[Path]", weights: "Sequence[float] | None") -> None:
    """Find before a model is loaded what is wrong with the banks; the first of them need not be there."""
    first = 0 if bytes_at(banks[0]) else 1
    if banks[first:]:
        Banks.open(banks[first:], None if weights is None else weights[first:]).close()


def _tell(error: BaseException) -> None:
    """What nobody expected: a line on stderr, and where it was with --debug."""
    errors.print(plain(f"Unexpected error: {type(error).__name__}: {error}"), style="red")
    if verbosity().debug:
        errors.print(plain("".join(traceback.format_exception(error))))
