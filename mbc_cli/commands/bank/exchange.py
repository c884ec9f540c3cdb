"""`mbc bank export` and `mbc bank import`: a bank as lines of JSON."""

from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption


def export(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The file to write; - is stdout. Compressed if its name ends in .gz or .xz."
        ),
    ] = Path("-"),
    *,
    bank: BankOption,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    json: JsonOption = False,
) -> None:
    """Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.

    Two banks with the same content export the same lines, whatever their history. On
    stdout there is nothing but the export, with or without --json.

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
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `mbc bank export` wrote; - is stdin.")],
    *,
    bank: BankOption,
    json: JsonOption = False,
) -> None:
    """Import an export into a bank, creating it if needed: all of it or, on any error, nothing.

    The export may be compressed (gzip, xz).

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
