"""`mbc bank merge`: several banks into one.

`mbc bank compact`: a bank as small as it can be.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.options import BankOption, JsonOption

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

    \b
    Examples:
      mbc bank merge shard-1.mbc shard-2.mbc --bank all.mbc
    """
    from mbc_cli.commands.bank.exchange import MergeView
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank import holdings_json, show_holdings
    from mbc_cli.render.terminal import print_json
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank import merge as copy

    total = _documents(banks)  # one that cannot be opened is told before anything is made
    with (
        ending_with("No bank was changed; run the same command to start over."),
        _target(bank, banks) as memory,
        MergeView(total) as view,
    ):
        with memory.changing():
            for path in banks:
                with MemoryBank.open(path, read_only=True) as other:
                    for event in copy(memory, other):
                        view.show(event)
                view.next_bank()
        memory.checkpoint()
        totals, sizes = memory.totals(), memory.sizes()
    if json:
        print_json(holdings_json(memory.name, totals, sizes))
    else:
        show_holdings(memory.name, totals, sizes)


def _documents(banks: list[Path]) -> int:
    """How many documents several banks hold.

    Raises:
        BankError: one of them cannot be opened.
    """
    from mbc_engine.bank import MemoryBank

    documents = 0
    for path in banks:
        with MemoryBank.open(path, read_only=True) as other:
            documents += other.totals().documents
    return documents


@contextmanager
def _target(path: Path, banks: list[Path]) -> Iterator["MemoryBank"]:
    """The bank to merge into. If there is none, one like the first of `banks`; it goes again if the block fails.

    Raises:
        ConfigError: it is one of `banks`.
    """
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
    memory = MemoryBank.create(
        path,
        header.signature,
        header.shape,
        header.dim,
        keeps_origins=header.keeps_origins,
        keeps_text=header.keeps_text,
    )
    try:
        with memory:
            yield memory
    except BaseException:
        delete(path)
        raise


def compact(*, bank: BankOption, json: JsonOption = False) -> None:
    """Free the disk space that removed documents left behind. What the bank holds does not change.

    \b
    Examples:
      mbc bank compact
      mbc bank compact --bank work.mbc
    """
    from dataclasses import asdict

    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank import show_compacted
    from mbc_cli.render.terminal import print_json, working
    from mbc_engine.bank import MemoryBank

    with MemoryBank.open(bank) as memory:
        before = memory.sizes()
        with ending_with("The bank is intact."), working("Compacting"):
            memory.compact()
        after = memory.sizes()
    if json:
        print_json({"path": memory.name, "before": asdict(before), "after": asdict(after)})
    else:
        show_compacted(memory.name, before, after)
