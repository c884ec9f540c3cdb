"""The options of `mbc ingest` that no other command has."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

ON_RAY: Final = "With --engine ray"

PathsArgument = Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders; - alone is stdin.")]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="PATTERN", help="Skip files that match, as in .gitignore; can be repeated."),
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Remove documents whose files are no longer in the folders.")
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Keep running and memorise changes, until Ctrl-C.")]
NoSourcesOption = Annotated[bool, typer.Option("--no-sources", help="Create a bank without file names and dates.")]
TextOption = Annotated[
    bool | None,
    typer.Option(
        "--text/--no-text",
        show_default="as the model needs",
        help="Whether a new bank keeps the exact text of its documents, compressed. mini reads its answers in it and "
        "keeps it by default; models of the paper's method do not need it.",
    ),
]
TextColumnOption = Annotated[
    str | None,
    typer.Option(
        "--text-column",
        metavar="NAME",
        show_default="text, content or body; in a CSV without one, all columns",
        help="The column or field that holds the text of a row, in CSV and JSON Lines.",
    ),
]


class Engine(StrEnum):
    """Where the work is done: in this process and its own, or by actors on Ray."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Work in this process, or on Ray on one or more machines.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDR",
        show_default="start a temporary local cluster",
        help="The Ray cluster: HOST:PORT, ray://HOST:PORT, or auto.",
        rich_help_panel=ON_RAY,
    ),
]
ActorsOption = Annotated[
    int | None,
    typer.Option(
        "--actors",
        metavar="N",
        min=1,
        show_default="as many as fit",
        help="Encoder processes.",
        rich_help_panel=ON_RAY,
    ),
]
ActorBatchOption = Annotated[
    int,
    typer.Option(
        "--actor-batch", metavar="N", min=1, help="Chunks per batch of an encoder process.", rich_help_panel=ON_RAY
    ),
]
ActorCpusOption = Annotated[
    float,
    typer.Option(
        "--actor-cpus",
        metavar="X",
        min=0.0,
        help="CPUs of each, which are also its torch threads.",
        rich_help_panel=ON_RAY,
    ),
]
ActorGpusOption = Annotated[
    float,
    typer.Option(
        "--actor-gpus", metavar="X", min=0.0, help="GPUs of each; fractions are allowed.", rich_help_panel=ON_RAY
    ),
]
