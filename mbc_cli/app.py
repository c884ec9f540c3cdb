"""The `mbc` program: its commands, and how they are grouped."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from mbc_cli.commands import (
    ask,
    bank,
    bank_transfer,
    calibrate,
    config,
    demo,
    doctor,
    evaluate,
    ingest,
    models,
    runs,
    search,
    serve,
    train,
    tui,
)
from mbc_cli.options import COMMON_PANEL
from mbc_cli.program import Command, Group, Program, record_shared_option
from mbc_engine import __version__

MEMORY, MODELS, SETTINGS = "Memory", "Models", "This machine"

_HELP = """A compressed long-term memory for language models: it answers from your files and cites them.

Start here: mbc demo shows how it works, mbc ingest FOLDER memorises your files, and mbc ask "..." asks about them.
mbc doctor shows what works on this machine.
"""
_EXIT_CODES = (
    "Exit codes: 0 success, 1 unexpected error or full disk, 2 wrong option or setting, 3 bad documents or questions, "
    "4 bad model, 5 bad bank, 130 interrupted, 141 broken pipe."
)


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"mbc {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="mbc",
    cls=Program,
    help=_HELP,
    epilog=_EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
banks = typer.Typer(cls=Group, help="Inspect, change or move a bank.", no_args_is_help=True)
trainings = typer.Typer(cls=Group, help="List, resume and stop training runs.", no_args_is_help=True)
shared_models = typer.Typer(cls=Group, help="List and inspect models and presets; share models.", no_args_is_help=True)
evaluations = typer.Typer(cls=Group, invoke_without_command=True)
settings = typer.Typer(cls=Group, help="Set default options.", no_args_is_help=True)


def _shared(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", help=text, callback=record_shared_option, expose_value=False, rich_help_panel=COMMON_PANEL
    )
    return option


@app.callback()
def _options(
    quiet: Annotated[bool, _shared("quiet", "Print only data and errors.")] = False,
    verbose: Annotated[
        bool, _shared("verbose", "Also show where settings came from, timings and library warnings.")
    ] = False,
    debug: Annotated[bool, _shared("debug", "Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options are handled by their callbacks."""


def _add(group: typer.Typer, panel: str | None, **commands: Callable[..., None]) -> None:
    for name, command in commands.items():
        group.command(name, cls=Command, rich_help_panel=panel)(command)


_add(app, MEMORY, demo=demo.demo, ingest=ingest.ingest, ask=ask.ask, chat=ask.chat, search=search.search)
_add(app, MEMORY, tui=tui.tui, serve=serve.serve, mcp=serve.mcp)
app.add_typer(banks, name="bank", rich_help_panel=MEMORY)
_add(banks, "Inspect", info=bank.info, list=bank.list_documents, show=bank.show, verify=bank.verify)
_add(banks, "Change", remove=bank.remove, undo=bank.undo, merge=bank_transfer.merge, compact=bank_transfer.compact)
_add(banks, "Move", export=bank_transfer.export, **{"import": bank_transfer.import_}, reencode=bank_transfer.reencode)
_add(app, MODELS, train=train.train)
app.add_typer(trainings, name="runs", rich_help_panel=MODELS)
_add(trainings, None, list=runs.list_runs, show=runs.show, resume=runs.resume, stop=runs.stop)
app.add_typer(shared_models, name="models", rich_help_panel=MODELS)
_add(shared_models, None, list=models.list_models, show=models.show, pull=models.pull, push=models.push)
app.add_typer(evaluations, name="eval", rich_help_panel=MODELS)
evaluations.callback()(evaluate.evaluate)
_add(evaluations, None, show=evaluate.show)
_add(app, MODELS, calibrate=calibrate.calibrate)
_add(app, SETTINGS, doctor=doctor.doctor)
app.add_typer(settings, name="config", rich_help_panel=SETTINGS)
_add(settings, None, list=config.list_settings, get=config.get, set=config.set_)
_add(settings, None, unset=config.unset, path=config.show_path)


def main() -> None:
    """Run the program. Characters the terminal cannot encode are printed as escapes; undecodable input is replaced."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent; the next opened file would get its descriptor
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)
    # The hub's library would otherwise send the hub information about this machine.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    app(prog_name="mbc")
