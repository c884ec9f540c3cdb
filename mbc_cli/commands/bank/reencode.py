"""`mbc bank reencode`: a bank for another model."""

from typing import Annotated

import typer

from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption


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

    They are read from their files or, where these are gone, from the text the bank
    keeps. The old bank stays in use until everything is done. After Ctrl-C, run the
    same command again to continue.

    \b
    Examples:
      mbc bank reencode --model runs/mine
      mbc bank reencode --model runs/mine --bank work.mbc --drop-missing
    """
    from mbc_cli.engine import load_model, number_of_workers
    from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
    from mbc_cli.render.ingest import IngestView
    from mbc_engine.bank.database import opened
    from mbc_engine.errors import BankError

    with opened(bank, read_only=True):  # a mistyped path is reported at once, not after the model was loaded
        pass
    loaded = load_model(model, device)
    from mbc_engine.ingestion.reencode import reencode as memorise

    words = {"doing": "Memorising anew", "done": "Memorised anew", "saved": "The bank is unchanged"}
    with (
        ending_with("The bank is intact, either as before or renewed; run the same command again to continue."),
        IngestView(str(bank), as_json=json, **words) as view,
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
