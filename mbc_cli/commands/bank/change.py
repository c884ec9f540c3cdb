"""`mbc bank merge`, `compact` and `reencode`: several banks into one, a bank made small, or one for another model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption

if TYPE_CHECKING:
    from mbc_engine.bank import MemoryBank


def merge(
    banks: Annotated[list[Path], typer.Argument(metavar="BANK", help="The banks to copy from.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Copy the documents of other banks into --bank, creating it if needed: all of them or, on any error, none.

    All must belong to one model, and keep text if --bank does. Duplicate documents are stored once; where two banks
    have read the same source, the later one wins. The other banks do not change.

    Examples:
      mbc bank merge shard-1.mbc shard-2.mbc --bank all.mbc
    """
    from mbc_cli.program import ending_with
    from mbc_cli.render.bank import show_holdings
    from mbc_cli.render.progress import ProgressView
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank import merge as copy
    from mbc_engine.events import Progressed

    total = done = 0
    for path in banks:  # one that cannot be opened is reported before anything is made
        with MemoryBank.open(path, read_only=True) as other:
            total += other.totals().documents
    with ending_with("No bank was changed; run the same command to start over."), _target(bank, banks) as memory:
        with ProgressView() as view, memory.changing():
            for path in banks:
                before = done
                with MemoryBank.open(path, read_only=True) as other:
                    for event in copy(memory, other):
                        assert isinstance(event, Progressed)
                        done = before + event.done
                        view.bar("Merging", total, completed=done)
        memory.checkpoint()
        show_holdings(memory, {} if json else None)


@contextmanager
def _target(path: Path, banks: list[Path]) -> Iterator["MemoryBank"]:
    """The bank to merge into. If there is none, one like the first of `banks`; it goes again if the block fails."""
    from mbc_engine.bank import MemoryBank, delete
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.errors import ConfigError

    if bytes_at(path):
        if any(other.samefile(path) for other in banks):
            raise ConfigError(
                f"{path} cannot be merged into itself.", hint="Name the other banks only, or another --bank."
            )
        with MemoryBank.open(path) as memory:
            yield memory
        return
    with MemoryBank.open(banks[0], read_only=True) as first:
        header = first.header
    keeps = {"keeps_origins": header.keeps_origins, "keeps_text": header.keeps_text}
    try:
        with MemoryBank.create(path, header.signature, header.shape, header.dim, **keeps) as memory:
            yield memory
    except BaseException:
        delete(path)
        raise


def compact(*, bank: BankOption, json: JsonOption = False) -> None:
    """Free the disk space that removed documents left behind. What the bank holds does not change.

    Examples:
      mbc bank compact
      mbc bank compact --bank work.mbc
    """
    from dataclasses import asdict

    from mbc_cli.program import ending_with
    from mbc_cli.render.terminal import out, print_json, working
    from mbc_cli.text import plain, size
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank) as memory:
        before = memory.sizes()
        with ending_with("The bank is intact."), working("Compacting"):
            memory.compact()
        after = memory.sizes()
    if json:
        print_json({"path": memory.name, "before": asdict(before), "after": asdict(after)})
    else:
        out.print(f"{plain(memory.name)} now takes {size(after.file)}, {size(before.file)} before.")


def reencode(
    *,
    bank: BankOption,
    model: ModelOption,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop documents that can no longer be read.")
    ] = False,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Switch a bank to another model: its documents are read again and encoded with that model.

    They are read from their files or, where these are gone, from the text the bank keeps. The old bank stays in use
    until everything is done. After Ctrl-C, run the same command again to continue.

    Examples:
      mbc bank reencode --model runs/mine
      mbc bank reencode --model runs/mine --bank work.mbc --drop-missing
    """
    from mbc_cli.engine import load_model, number_of_workers
    from mbc_cli.program import INTERRUPTED, ending_with, stop_on_interrupt
    from mbc_cli.render.bank import IngestProgress
    from mbc_engine.bank.database import open_file
    from mbc_engine.errors import BankError

    open_file(bank, read_only=True).close()  # a mistyped path is reported at once, not after the model was loaded
    loaded = load_model(model, device)
    from mbc_engine.ingestion.reencode import reencode as memorise

    words = {"doing": "Re-encoding", "done": "Re-encoded", "saved": "The bank is unchanged"}
    with (
        ending_with("The bank is intact, either as before or renewed; run the same command again to continue."),
        IngestProgress(str(bank), as_json=json, **words) as view,
        stop_on_interrupt(view.stopping) as stop,
    ):
        try:
            for event in memorise(
                loaded, bank, drop_missing=drop_missing, workers=number_of_workers(workers), stop=stop
            ):
                view.show(event)
        except BankError:
            view.show_skipped()
            raise
    if not view.is_complete:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    view.show_result()
