"""`mbc bank export` and `mbc bank import`: a bank as lines of JSON."""

from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption


def export(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; - is stdout. Compressed if named .gz or .xz.")
    ] = Path("-"),
    *,
    bank: BankOption,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Write everything a bank holds as lines of JSON, which `mbc bank import` reads back.

    Two banks that hold the same documents give the same lines, whatever their
    history. An export to stdout contains nothing else, with --json or without.

    \b
    Examples:
      mbc bank export | sha256sum
      mbc bank export memory.jsonl.xz --bank work.mbc
    """
    from mbc_cli.commands.bank.export_file import STANDARD, written
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank.copying import ExportView
    from mbc_cli.render.consoles import out, print_json
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank import export as lines

    is_stdout = file == STANDARD
    with (
        ending_with("The export is incomplete; run the same command to start over."),
        MemoryBank.open(bank, read_only=True) as memory,
        memory.snapshot(),
        written(file, force=force) as target,
        ExportView(memory.totals(), is_shown=not (is_stdout and out.is_terminal)) as view,
    ):
        target.writelines(view.followed(lines(memory)))
    if is_stdout:
        return
    if json:
        print_json(view.summary_json(file))
    else:
        view.show_summary(file)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The output of `mbc bank export`; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Add an export to a bank, which is created if needed: all of it or, on any error, nothing.

    Compressed exports (gzip, xz) are read as they are.

    \b
    Examples:
      mbc bank import memory.jsonl.xz --bank work.mbc
      ssh elsewhere mbc bank export | mbc bank import -
    """
    from mbc_cli.commands.bank.export_file import opened
    from mbc_cli.interrupt import ending_with
    from mbc_cli.render.bank.copying import ImportView
    from mbc_cli.render.bank.facts import holdings_json, show_holdings
    from mbc_cli.render.consoles import print_json
    from mbc_engine.bank import MemoryBank, import_lines

    with (
        ending_with("Nothing was imported; run the same command to start over."),
        opened(file) as source,
        ImportView(source.size, source.position) as view,
    ):
        for event in import_lines(source.lines, bank):
            view.show(event)
    with MemoryBank.open(bank, read_only=True) as memory, memory.snapshot():
        totals, sizes = memory.totals(), memory.sizes()
    if json:
        print_json({"imported": view.documents, "bank": holdings_json(memory.name, totals, sizes)})
    else:
        show_holdings(memory.name, totals, sizes)
