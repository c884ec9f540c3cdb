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


def _function(described: str) -> Callable[[], None]:
    """A stand-in for a function of `mbc_cli.commands`, which is imported when it is called (`command_line.py::_CommandMixin`).

    `described` is its module and name, and the first paragraph of its help, all that the help of `mbc` shows.
    """

    def command() -> None: ...

    name, _, command.__doc__ = described.partition(": ")
    module, _, command.__name__ = name.partition(".")
    command.__module__ = f"mbc_cli.commands.{module}"
    return command


def _add(group: typer.Typer, panel: str | None = None, /, **commands: str) -> None:
    for word, described in commands.items():
        group.command(word.rstrip("_"), cls=Command, rich_help_panel=panel)(_function(described))


def _group(word: str, panel: str, **how: Any) -> typer.Typer:
    group = typer.Typer(cls=Group, **how)
    app.add_typer(group, name=word, rich_help_panel=panel)
    return group


_add(
    app,
    MEMORY,
    demo="demo.demo: Ingest 10 made-up news stories, ask about them, and show that the bank still answers without the files.",
    ingest="ingest.ingest: Memorise files and folders. Files that haven't changed since the last run are skipped.",
    ask="ask.ask: Answer questions from your banks, citing the files that each answer comes from.",
    chat="ask.chat: Ask one question after the other. A follow-up (“and when?”) is understood from the question before it; /help lists what else to type.",
    search="ask.search: Find the passages that best match a query, by meaning and by words, without answering it.",
    tui="tui.tui: Open the dashboard: browse documents and their codes, follow training and ingests, ask questions.",
    serve="serve.serve: Serve a bank over HTTP: other programs ask questions and add documents.",
    mcp="serve.mcp: Let an AI assistant ask, search and add to a bank: a Model Context Protocol (MCP) server on stdin and stdout.",
)
banks = _group("bank", MEMORY, help="Inspect, change or move a bank.", no_args_is_help=True)
_add(
    banks,
    "Inspect",
    info="bank.info: Show what a bank holds, its size and the model that wrote it.",
    list="bank.list_documents: List a bank's documents: chunks, bytes, date and source; tab-separated in a pipe.",
    show="bank.show: Show everything a bank stores about a document, its text included, and whether its file has changed.",
    verify="bank.verify: Check a bank for corruption. The exit code is 5 if there is any.",
)
_add(
    banks,
    "Change",
    remove="bank.remove: Remove documents from a bank; if one is not found, none are removed. Does not delete files.",
    undo="bank.undo: Restore what `mbc bank remove`, --prune or the dashboard removed last, except for what has been ingested again since.",
    merge="bank.merge: Copy other banks' documents into --bank, creating it if needed; on any error, none are copied.",
    compact="bank.compact: Free the disk space that removed documents left behind. What the bank holds does not change.",
)
_add(
    banks,
    "Move",
    export="bank.export: Export a bank as JSON Lines, from which `mbc bank import` rebuilds it.",
    import_="bank.import_: Import an export into a bank, creating the bank if needed; on any error, nothing is imported.",
    reencode="bank.reencode: Switch a bank to another model: its documents are read again and encoded with that model.",
)
_add(
    app, MODELS, train="train.train: Train a model. Ctrl-C stops after the current step; --resume continues from there."
)
runs = _group("runs", MODELS, help="List, resume and stop training runs.", no_args_is_help=True)
_add(
    runs,
    list="train.list_runs: List training runs, latest first; tab-separated in a pipe.",
    show="train.show: Show a training run's settings, progress, best result and remaining time.",
    resume="train.resume: Continue a stopped or interrupted training run, as `mbc train --resume` does.",
    stop="train.stop: Stop a training run after the current step and save a snapshot, as Ctrl-C does.",
)
models = _group(
    "models",
    MODELS,
    help="List and inspect models and training presets; download and upload models.",
    no_args_is_help=True,
)
_add(
    models,
    list="models.list_models: List the models you can use: this package's, those in your data folder, and those of training runs.",
    show="models.show: Show what a model or preset is made of; for trained models, also the trainable and frozen parameters.",
    pull="models.pull: Download a shared model; every command then takes it as --model OWNER/NAME.",
    push="models.push: Share a model on the hub: its settings, trained weights and a model card, in one commit.",
)
evaluations = _group("eval", MODELS, invoke_without_command=True)
evaluations.callback()(
    _function("evaluate.evaluate: Evaluate how well methods answer: exact match, F1, sources, time and size.")
)
_add(evaluations, show="evaluate.show: Show the report of an evaluation, finished or not.")
_add(
    app,
    MODELS,
    calibrate="train.calibrate: Choose from held-out questions below which confidence a model that you trained gives no answer; changes its config.",
)
_add(
    app,
    SETTINGS,
    doctor="doctor.doctor: Show what is installed, available hardware, file locations and which features work.",
)
settings = _group("config", SETTINGS, help="Set default options.", no_args_is_help=True)
_add(
    settings,
    list="config.list_settings: List the settings in the config file: key and value, tab-separated in a pipe.",
    get="config.get: Print a setting. The exit code is 2 if it is not set.",
    set="config.set_: Set an option's default; the command line and environment variables override it.",
    unset="config.unset: Remove a setting. The exit code is 2 if it is not set.",
    path="config.show_path: Print the path of the config file, whether it exists or not.",
)


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
