"""The `mbc` program: its commands, and how they are grouped."""

import os
import sys
from typing import Annotated

import typer

from mbc_cli.commands import ask, calibrate, config, demo, doctor, evaluate, ingest, mcp, serve, train, tui
from mbc_cli.commands import runs as control
from mbc_cli.commands import runs as look
from mbc_cli.commands.bank import exchange, merge, remove, verify
from mbc_cli.commands.bank import merge as compact
from mbc_cli.commands.bank import reencode as renew
from mbc_cli.commands.bank import show as documents
from mbc_cli.commands.bank import show as info
from mbc_cli.commands.evaluate import look as evaluate_look
from mbc_cli.commands.models import share as pull
from mbc_cli.commands.models import share as push
from mbc_cli.commands.models import show as listing
from mbc_cli.commands.models import show as models_show
from mbc_cli.options import EVERYWHERE
from mbc_cli.program import Command, Group, Program, UnconfiguredCommand, WorkingGroup, configure, note_shared
from mbc_engine import __version__

MEMORY, MODELS, SETTINGS = "Memory", "Models", "This machine"
LOOK, CHANGE, MOVE = "Look into it", "Change it", "Move it"

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
runs = typer.Typer(cls=Group, help="List training runs, pause, resume and stop them.", no_args_is_help=True)
models = typer.Typer(cls=Group, help="List and inspect models and presets; share models.", no_args_is_help=True)
evaluations = typer.Typer(cls=WorkingGroup, invoke_without_command=True)
settings = typer.Typer(cls=Group, help="Set default options.", no_args_is_help=True)


def _shared(name: str, told: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        f"--{name}", help=told, callback=note_shared, expose_value=False, rich_help_panel=EVERYWHERE
    )
    return option


_QuietOption = Annotated[bool, _shared("quiet", "Print only data and errors.")]
_VerboseOption = Annotated[
    bool, _shared("verbose", "Also show where settings came from, timings and library warnings.")
]
_DebugOption = Annotated[bool, _shared("debug", "Show the traceback of an error.")]
_VersionOption = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
]


@app.callback()
def _options(
    ctx: typer.Context,
    quiet: _QuietOption = False,  # noqa: ARG001  # these four are taken by their callbacks
    verbose: _VerboseOption = False,  # noqa: ARG001
    debug: _DebugOption = False,  # noqa: ARG001
    version: _VersionOption = False,  # noqa: ARG001
) -> None:
    configure(ctx)


app.command("demo", cls=Command, rich_help_panel=MEMORY)(demo.demo)
app.command("ingest", cls=Command, rich_help_panel=MEMORY)(ingest.ingest)
app.command("ask", cls=Command, rich_help_panel=MEMORY)(ask.ask)
app.command("tui", cls=Command, rich_help_panel=MEMORY)(tui.tui)
app.command("serve", cls=Command, rich_help_panel=MEMORY)(serve.serve)
app.command("mcp", cls=Command, rich_help_panel=MEMORY)(mcp.mcp)
app.add_typer(banks, name="bank", rich_help_panel=MEMORY)
banks.command("info", cls=Command, rich_help_panel=LOOK)(info.info)
banks.command("list", cls=Command, rich_help_panel=LOOK)(documents.list_documents)
banks.command("show", cls=Command, rich_help_panel=LOOK)(documents.show)
banks.command("verify", cls=Command, rich_help_panel=LOOK)(verify.verify)
banks.command("remove", cls=Command, rich_help_panel=CHANGE)(remove.remove)
banks.command("merge", cls=Command, rich_help_panel=CHANGE)(merge.merge)
banks.command("compact", cls=Command, rich_help_panel=CHANGE)(compact.compact)
banks.command("export", cls=Command, rich_help_panel=MOVE)(exchange.export)
banks.command("import", cls=Command, rich_help_panel=MOVE)(exchange.import_)
banks.command("reencode", cls=Command, rich_help_panel=MOVE)(renew.reencode)
app.command("train", cls=Command, rich_help_panel=MODELS)(train.train)
app.add_typer(runs, name="runs", rich_help_panel=MODELS)
runs.command("list", cls=Command)(look.list_runs)
runs.command("show", cls=Command)(look.show)
runs.command("pause", cls=Command)(control.pause)
runs.command("resume", cls=Command)(control.resume)
runs.command("stop", cls=Command)(control.stop)
app.add_typer(models, name="models", rich_help_panel=MODELS)
models.command("list", cls=Command)(listing.list_models)
models.command("show", cls=Command)(models_show.show)
models.command("pull", cls=Command)(pull.pull)
models.command("push", cls=Command)(push.push)
app.add_typer(evaluations, name="eval", rich_help_panel=MODELS)
evaluations.callback()(evaluate.evaluate)
evaluations.command("show", cls=Command)(evaluate_look.show)
evaluations.command("compare", cls=Command)(evaluate_look.compare)
app.command("calibrate", cls=Command, rich_help_panel=MODELS)(calibrate.calibrate)
app.command("doctor", cls=UnconfiguredCommand, rich_help_panel=SETTINGS)(doctor.doctor)
app.add_typer(settings, name="config", rich_help_panel=SETTINGS)
settings.command("list", cls=UnconfiguredCommand)(config.list_settings)
settings.command("get", cls=UnconfiguredCommand)(config.get)
settings.command("set", cls=UnconfiguredCommand)(config.set_)
settings.command("unset", cls=UnconfiguredCommand)(config.unset)
settings.command("edit", cls=UnconfiguredCommand)(config.edit)
settings.command("path", cls=UnconfiguredCommand)(config.path)


def main() -> None:
    """Run the program; what a terminal's encoding lacks is printed as an escape, and read as a mark."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this, so that the next file would get its number
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    for stream, errors in ((sys.stdin, "replace"), (sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=errors)
    # The hub's library would tell the hub about this machine, and ask it what else to look for.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    app()
