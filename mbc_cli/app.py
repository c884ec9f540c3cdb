"""The `mbc` program: its commands, and how they are grouped."""

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from mbc_cli.command_line import COMMON_PANEL, Command, Group, Program, record_shared_option
from mbc_engine import __version__

MEMORY, MODELS, SETTINGS = "Memory", "Models", "This machine"

_HELP = """A compressed long-term memory of your files: it answers questions from them, and cites them.

Start here: mbc demo shows how it works, mbc ingest FOLDER memorises your files in a bank, and mbc ask "..." asks about
them. mbc doctor shows what works on this machine.
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


_shared: Any = partial(typer.Option, callback=record_shared_option, expose_value=False, rich_help_panel=COMMON_PANEL)
_VERBOSE = "Also show timings, library warnings, and where each setting came from."


@app.callback()
def _options(
    quiet: Annotated[bool, _shared("--quiet", help="Print only data and errors.")] = False,
    verbose: Annotated[bool, _shared("--verbose", help=_VERBOSE)] = False,
    debug: Annotated[bool, _shared("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options are handled by their callbacks."""


def _function(name: str) -> Callable[[], None]:
    """A stand-in for a function, MODULE.NAME in `mbc_cli.commands`, see `command_line.py::_CommandMixin`."""

    def command() -> None: ...

    module, _, command.__name__ = name.partition(".")
    command.__module__ = f"mbc_cli.commands.{module}"
    return command


def _add(group: typer.Typer, panel: str | None, *functions: str) -> None:
    """Add commands; the part of a function's name before an underscore is its command's word."""
    for function in map(_function, functions):
        group.command(function.__name__.partition("_")[0], cls=Command, rich_help_panel=panel)(function)


def _group(word: str, panel: str, **how: Any) -> typer.Typer:
    group = typer.Typer(cls=Group, **how)
    app.add_typer(group, name=word, rich_help_panel=panel)
    return group


_add(
    app,
    MEMORY,
    "demo.demo",
    "ingest.ingest",
    "ask.ask",
    "ask.chat",
    "ask.search",
    "tui.tui",
    "serve.serve",
    "serve.mcp",
)
banks = _group("bank", MEMORY, help="Inspect, change or move a bank.", no_args_is_help=True)
_add(banks, "Inspect", "bank.info", "bank.list_documents", "bank.show", "bank.verify")
_add(banks, "Change", "bank.remove", "bank.undo", "bank.merge", "bank.compact")
_add(banks, "Move", "bank.export", "bank.import_", "bank.reencode")
_add(app, MODELS, "train.train")
runs = _group("runs", MODELS, help="List, resume and stop training runs.", no_args_is_help=True)
_add(runs, None, "train.list_runs", "train.show", "train.resume", "train.stop")
_MODELS = "List and inspect models and training presets; download and upload models."
models = _group("models", MODELS, help=_MODELS, no_args_is_help=True)
_add(models, None, "models.list_models", "models.show", "models.pull", "models.push")
evaluations = _group("eval", MODELS, invoke_without_command=True)
evaluations.callback()(_function("evaluate.evaluate"))
_add(evaluations, None, "evaluate.show")
_add(app, MODELS, "train.calibrate")
_add(app, SETTINGS, "doctor.doctor")
settings = _group("config", SETTINGS, help="Set default options.", no_args_is_help=True)
_add(settings, None, "config.list_settings", "config.get", "config.set_", "config.unset", "config.path")


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
    # Pydantic would look for plugins in all installed packages.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    app(prog_name="mbc")
