"""Serving a memory: made ready, then asked by clients until a signal ends it."""

import os
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from mbc_cli.asking.asker import Asker
from mbc_cli.render.consoles import detail, errors, notes, out, working
from mbc_cli.server.application import application
from mbc_cli.server.body import WholeBody
from mbc_cli.server.gate import Gate
from mbc_cli.server.listening import Server, address
from mbc_cli.server.memory import Memory
from mbc_cli.server.served import Served
from mbc_cli.server.turns import Turns
from mbc_cli.server.watching import Watched
from mbc_cli.text import plain
from mbc_cli.verbosity import verbosity
from mbc_engine.bank import Banks
from mbc_engine.bank.database import bytes_at
from mbc_engine.serving.ask_options import AskOptions

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from mbc_cli.server.document_folder import DocumentFolder
    from mbc_cli.server.listening import Certificate

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
