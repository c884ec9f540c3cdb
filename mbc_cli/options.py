"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.paths import DEFAULT_MODEL, default_bank, default_runs


class ReadMode(StrEnum):
    """How a question reads a bank."""

    flat = "flat"
    routed = "routed"


BankOption = Annotated[
    Path,
    typer.Option(
        "--bank",
        envvar="MBC_BANK",
        default_factory=default_bank,
        show_default="memory.mbc in your data folder",
        metavar="FILE",
        help="The bank file.",
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
        help="A model's name, its folder, or a training run's folder.",
    ),
]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--runs",
        envvar="MBC_RUNS",
        default_factory=default_runs,
        show_default="runs in your data folder",
        metavar="FOLDER",
        help="The folder of runs given by name.",
    ),
]
ReadOption = Annotated[
    ReadMode | None,
    typer.Option("--read", show_default="the model's own", help="Read all documents at once, or the best few."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=0, show_default="cores - 1, at least 1", help="Processes that read files."),
]
