"""The `mbc` program: its commands, and how they are grouped."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from mbc_cli.commands import (
    ask,
    calibrate,
    config,
    demo,
    doctor,
    evaluate,
    ingest,
    mcp,
    models,
    runs,
    serve,
    share,
    train,
    tui,
)
from mbc_cli.commands.bank import exchange, merge, reencode, remove, show, verify
from mbc_cli.commands.evaluate import look
from mbc_cli.options import EVERYWHERE
from mbc_cli.program import Command, Group, Program, note_shared
from mbc_engine import __version__

MEMORY, MODELS, SETTINGS = "Memory", "Models", "This machine"
INSPECT, CHANGE, MOVE = "Inspect", "Change", "Move"

_HELP = """A compressed long-term memory for language models: short codes instead of text, sources included.

Start here: mbc demo shows how it works, mbc ingest FOLDER memorises your files, and mbc ask "..." asks about them.
mbc doctor shows what works on this machine.
"""
_EXIT_CODES = (
    "Exit codes: 0 done, 1 unexpected error or full disk, 2 wrong option or setting, 3 documents or questions, 4 model, "
    "5 bank, 130 interrupted, 141 output closed (as by head)."
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
trainings = typer.Typer(cls=Group, help="List training runs, pause, resume and stop them.", no_args_is_help=True)
shared_models = typer.Typer(cls=Group, help="List and inspect models and presets; share models.", no_args_is_help=True)
evaluations = typer.Typer(cls=Group, invoke_without_command=True)
settings = typer.Typer(cls=Group, help="Set default options.", no_args_is_help=True)


def _shared(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", help=text, callback=note_shared, expose_value=False, rich_help_panel=EVERYWHERE
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
    """The callbacks do all."""


def _add(group: typer.Typer, name: str, command: Callable[..., None], panel: str | None = None) -> None:
    group.command(name, cls=Command, rich_help_panel=panel)(command)


_add(app, "demo", demo.demo, MEMORY)
_add(app, "ingest", ingest.ingest, MEMORY)
_add(app, "ask", ask.ask, MEMORY)
_add(app, "tui", tui.tui, MEMORY)
_add(app, "serve", serve.serve, MEMORY)
_add(app, "mcp", mcp.mcp, MEMORY)
app.add_typer(banks, name="bank", rich_help_panel=MEMORY)
_add(banks, "info", show.info, INSPECT)
_add(banks, "list", show.list_documents, INSPECT)
_add(banks, "show", show.show, INSPECT)
_add(banks, "verify", verify.verify, INSPECT)
_add(banks, "remove", remove.remove, CHANGE)
_add(banks, "merge", merge.merge, CHANGE)
_add(banks, "compact", merge.compact, CHANGE)
_add(banks, "export", exchange.export, MOVE)
_add(banks, "import", exchange.import_, MOVE)
_add(banks, "reencode", reencode.reencode, MOVE)
_add(app, "train", train.train, MODELS)
app.add_typer(trainings, name="runs", rich_help_panel=MODELS)
_add(trainings, "list", runs.list_runs)
_add(trainings, "show", runs.show)
_add(trainings, "pause", runs.pause)
_add(trainings, "resume", runs.resume)
_add(trainings, "stop", runs.stop)
app.add_typer(shared_models, name="models", rich_help_panel=MODELS)
_add(shared_models, "list", models.list_models)
_add(shared_models, "show", models.show)
_add(shared_models, "pull", share.pull)
_add(shared_models, "push", share.push)
app.add_typer(evaluations, name="eval", rich_help_panel=MODELS)
evaluations.callback()(evaluate.evaluate)
_add(evaluations, "show", look.show)
_add(evaluations, "compare", look.compare)
_add(app, "calibrate", calibrate.calibrate, MODELS)
_add(app, "doctor", doctor.doctor, SETTINGS)
app.add_typer(settings, name="config", rich_help_panel=SETTINGS)
_add(settings, "list", config.list_settings)
_add(settings, "get", config.get)
_add(settings, "set", config.set_)
_add(settings, "unset", config.unset)
_add(settings, "edit", config.edit)
_add(settings, "path", config.show_path)


def main() -> None:
    """Run the program; what a terminal's encoding lacks is printed as an escape, and read as a mark."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this, so that the next file would get its number
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)
    # The hub's library would otherwise send the hub information about this machine.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    app()
