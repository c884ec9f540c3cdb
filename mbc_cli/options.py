"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Final

import typer

from mbc_cli.completion import banks, models, reads
from mbc_cli.paths import DEFAULT_MODEL, default_bank
from mbc_engine.errors import ConfigError
from mbc_engine.model_folder import own_runs
from mbc_engine.read_modes import READ_MODES, parse_read_mode

EVERYWHERE: Final = "In every command"

BankOption = Annotated[
    Path,
    typer.Option(
        "--bank",
        envvar="MBC_BANK",
        default_factory=default_bank,
        show_default="memory.mbc in your data folder",
        metavar="FILE",
        help="The bank file.",
        autocompletion=banks,
    ),
]
BanksOption = Annotated[
    list[Path],
    typer.Option(
        "--bank",
        envvar="MBC_BANK",
        default_factory=lambda: [default_bank()],
        show_default="memory.mbc in your data folder",
        metavar="FILE",
        help="The bank file; repeat it to read several banks as one.",
        autocompletion=banks,
    ),
]
WeightsOption = Annotated[
    list[float] | None,
    typer.Option(
        "--weight",
        metavar="NUMBER",
        help="How much a bank's documents count relative to the others'; one for each --bank, in the same order.",
        show_default="1 each",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        envvar="MBC_MODEL",
        default_factory=lambda: DEFAULT_MODEL,
        show_default=DEFAULT_MODEL,
        metavar="NAME",
        help="A model's name or folder, or a training run's.",
        autocompletion=models,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        envvar="MBC_DEVICE",
        metavar="NAME",
        show_default="cuda if there is one, else cpu",
        help="Where the model runs: a torch device, such as cpu or cuda:1.",
    ),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads to use.")]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs",
        envvar="MBC_RUNS",
        default_factory=own_runs,
        show_default="runs in your data folder",
        metavar="FOLDER",
        help="The folder of training runs.",
    ),
]


def _told_reads() -> str:
    told = (f"{name}{'' if kind.least is None else ':N'} ({kind.words})" for name, kind in READ_MODES.items())
    return f"How a model of the paper's method reads: {', '.join(told)}. Without N, the model's own number."


def _checked_read(typed: str | None) -> str | None:
    """Make sure, before any model is loaded, that there is such a read; whether it fits the model, the model says."""
    if typed is not None:
        try:
            parse_read_mode(typed)
        except ConfigError as error:
            raise typer.BadParameter(f"{error.message} {error.hint}") from error
    return typed


ReadOption = Annotated[
    str | None,
    typer.Option(
        "--read",
        metavar="NAME[:N]",
        show_default="the model's own",
        autocompletion=reads,
        callback=_checked_read,
        help=_told_reads(),
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=EVERYWHERE)]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, show_default="cores - 1, at least 1", help="Processes that read files."),
]
