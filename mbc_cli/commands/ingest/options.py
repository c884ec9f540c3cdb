"""The options of `mbc ingest` that no other command has."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

ON_RAY: Final = "With --engine ray"

PathsArgument = Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders; - alone is stdin.")]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="PATTERN", help="Leave this out, as in .gitignore; may be given again."),
]
PruneOption = Annotated[bool, typer.Option("--prune", help="Forget what is no longer in the named folders.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Go on, and memorise what changes, until Ctrl-C.")]
NoSourcesOption = Annotated[
    bool, typer.Option("--no-sources", help="Make a bank of a third of the size that knows no file names.")
]


class Engine(StrEnum):
    """Where the work is done: in this process and its own, or by actors on Ray."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Read and encode here, or on Ray, on one machine or several.")
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="ADDR",
        show_default="one is started here for the while",
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
        show_default="as many as there is room for",
        help="Processes that encode.",
        rich_help_panel=ON_RAY,
    ),
]
ActorBatchOption = Annotated[
    int,
    typer.Option("--actor-batch", metavar="N", min=1, help="Chunks that one takes at a time.", rich_help_panel=ON_RAY),
]
ActorCpusOption = Annotated[
    float,
    typer.Option(
        "--actor-cpus", metavar="X", min=0.0, help="CPUs of each, and threads of torch.", rich_help_panel=ON_RAY
    ),
]
ActorGpusOption = Annotated[
    float,
    typer.Option("--actor-gpus", metavar="X", min=0.0, help="GPUs of each, or a part of one.", rich_help_panel=ON_RAY),
]
