"""`mbc ingest`: files into a bank."""

from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.options import BankOption, JsonOption, ModelOption


def ingest(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    *,
    bank: BankOption,
    model: ModelOption,
    json: JsonOption = False,
) -> None:
    """Memorise files and folders. Files that did not change since the last time are passed over.

    \b
    Examples:
      mbc ingest ~/notes
      mbc ingest report.txt minutes/ --bank work.mbc
    """
    from mbc_cli.engine import load_model
    from mbc_cli.interrupt import stop_on_interrupt
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.ingest import IngestView
    from mbc_engine.documents import find_files

    find_files(paths)  # a mistyped path is told at once, not after the model was loaded
    loaded = load_model(model)
    from mbc_engine.model.checkpoint import open_bank
    from mbc_engine.serving.ingest import ingest as memorise

    with open_bank(loaded, bank) as memory, IngestView() as view, stop_on_interrupt(view.stopping) as stop:
        for event in memorise(loaded, memory, paths, stop=stop):
            view.show(event)
    if json:
        print_json(view.summary_json(memory.name))
    else:
        view.show_summary(memory.name)
    if stop.is_set():
        view.stopped()
        raise typer.Exit(130)
    view.require_something()
