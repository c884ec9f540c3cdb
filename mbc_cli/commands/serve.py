"""`mbc serve`: a memory for other programs, over HTTP."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mbc_cli.options import BanksOption, DeviceOption, ModelOption, WeightsOption

if TYPE_CHECKING:
    from mbc_cli.server.document_folder import DocumentFolder
    from mbc_cli.server.memory import Memory

_PORT: Final = 8377
_ACCESS, _LIMITS = "Who may ask", "Limits"
# What the thread may still be at when nobody waits for an answer any more.
_LAST_SECONDS: Final = 10


def serve(
    *,
    bank: BanksOption,
    weight: WeightsOption = None,
    model: ModelOption,
    documents: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            show_default="beside the first bank, as NAME.documents",
            help="Where the texts of documents are kept that clients send; a folder of its own.",
        ),
    ] = None,
    device: DeviceOption = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Where to listen. Any other than this machine's own demands a token.",
            rich_help_panel=_ACCESS,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes a free one.", rich_help_panel=_ACCESS)
    ] = _PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="what MBC_TOKEN holds, if it is set",
            help="Answer those alone who know the token in this file.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Serve over TLS, with this certificate and its chain.", rich_help_panel=_ACCESS
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="in the same file",
            help="The certificate's key.",
            rich_help_panel=_ACCESS,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, help="Questions, or documents, taken together.", rich_help_panel=_LIMITS)
    ] = 16,
    queue: Annotated[
        int, typer.Option(min=1, help="Requests that may wait for the model.", rich_help_panel=_LIMITS)
    ] = 64,
    max_body: Annotated[
        int,
        typer.Option(min=1, metavar="BYTES", show_default="1 MiB", help="Longest request.", rich_help_panel=_LIMITS),
    ] = 1 << 20,
) -> None:
    """Let other programs ask a memory and put documents into it, over HTTP.

    Whatever talks to OpenAI's chat completions can ask: give it the address that is
    printed as its base URL. Where several banks are read, documents go into the
    first. Ctrl-C finishes what was accepted; a second one ends at once.

    \b
    Examples:
      mbc serve
      mbc serve --bank team.mbc --bank mine.mbc --port 9000
      mbc serve --host 0.0.0.0 --token-file token.txt
    """
    _require_extra()
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.consoles import detail, notes, out
    from mbc_cli.render.reply import warn_of_mini
    from mbc_cli.server.application import Served, application
    from mbc_cli.server.body import WholeBody
    from mbc_cli.server.document_folder import DocumentFolder
    from mbc_cli.server.gate import Gate, token_of
    from mbc_cli.server.listening import Server, address, bound, certificate_of
    from mbc_cli.server.turns import Turns
    from mbc_cli.server.watching import Watched

    token, certificate = token_of(token_file), certificate_of(tls_cert, tls_key)
    _require_token(host, token)
    place = DocumentFolder(documents or bank[0].with_name(f"{bank[0].stem}.documents"))
    with bound(host, port) as listener, place.opened() as folder:
        with ending_with("Nothing was served yet."):
            memory = _memory(bank, weight, model, device, folder)
        turns = Turns(memory.working(), most=batch, room=queue, crashed=_tell)
        asker = memory.asker
        served = Served(Path(model).resolve().name, asker.paths, asker.loading, folder, turns, token is not None)
        app = Watched(Gate(WholeBody(application(served), max_body), token), detail, _tell)

        def opened() -> None:
            out.print(address(listener, certificate))
            notes.print("Programs can ask the memory at this address. Ctrl-C ends it.")
            warn_of_mini(model)

        def ending() -> None:
            notes.print("Ending: what was accepted is finished; Ctrl-C again ends at once.")

        server = Server(app, certificate, opened=opened, ending=ending)
        turns.start()
        server.serve_at(listener)
        with suppress(KeyboardInterrupt):
            if turns.close(_LAST_SECONDS):
                notes.print("Ended; everything that was answered is kept.")
                return
    _give_up()


def _require_extra() -> None:
    """Raises ConfigError where what serves is not installed."""
    from importlib.util import find_spec

    from mbc_engine.errors import ConfigError

    if not all(map(find_spec, ("fastapi", "uvicorn"))):
        raise ConfigError("Serving needs FastAPI and uvicorn.", hint="Install them: pip install 'mbc[serve]'")


def _require_token(host: str, token: str | None) -> None:
    """Raises ConfigError where others than this machine's programs could ask without a token."""
    from mbc_cli.server.gate import VARIABLE, is_loopback
    from mbc_engine.errors import ConfigError

    if token is None and not is_loopback(host):
        raise ConfigError(
            f"At {host} other machines can ask: that needs a token.",
            hint=f"Name a file with --token-file, or set {VARIABLE}.",
        )


def _memory(
    banks: list[Path], weights: list[float] | None, model: str, device: str | None, folder: "DocumentFolder"
) -> "Memory":
    """The memory to serve, in line with its documents.

    Raises:
        ModelError: the model cannot be loaded, or another one wrote a bank.
        BankError: a bank cannot be used.
        ConfigError: the banks or their weights do not fit each other.
    """
    import time

    from mbc_cli.asker import Asker, Manner
    from mbc_cli.engine import load_model
    from mbc_cli.render.consoles import working
    from mbc_cli.server.memory import Memory

    _require_banks(banks, weights)
    began = time.perf_counter()
    loaded = load_model(model, device)
    asker = Asker(loaded, banks, Manner(), model, time.perf_counter() - began, weights=weights)
    memory = Memory(loaded, asker, folder)
    with working("Bringing the bank in line with the documents"):
        memory.catch_up()
    asker.recall()
    return memory


def _require_banks(banks: list[Path], weights: list[float] | None) -> None:
    """Find before a model is loaded what is wrong with the banks; the first of them need not be there."""
    from mbc_engine.bank import Banks
    from mbc_engine.bank.database import bytes_at

    first = 0 if bytes_at(banks[0]) else 1
    if banks[first:]:
        Banks.open(banks[first:], None if weights is None else weights[first:]).close()


def _tell(error: BaseException) -> None:
    """What nobody expected: a line on stderr, and where it was with --debug."""
    import traceback

    from mbc_cli.render.consoles import errors
    from mbc_cli.render.text import plain
    from mbc_cli.verbosity import verbosity

    errors.print(plain(f"Unexpected error: {type(error).__name__}: {error}"), style="red")
    if verbosity().debug:
        errors.print(plain("".join(traceback.format_exception(error))))


def _give_up() -> None:
    from mbc_cli.render.consoles import errors

    errors.print("Ended at once: the model was still at work. Everything that was answered is kept.")
    os._exit(1)  # a model that is at work cannot be broken off
