"""The options of `mbc ingest` that no other command has.

`mbc ingest`: files into a bank.

`mbc ingest --engine ray`: what its options come to.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mbc_cli.engine import loading
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption
from mbc_cli.program import is_typed
from mbc_cli.render.terminal import verbosity
from mbc_engine.errors import ConfigError
from mbc_engine.ingestion.ray.cluster import Actors, connected, require_ray, require_reachable

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


def ingest(
    ctx: typer.Context,
    paths: PathsArgument,
    *,
    bank: BankOption,
    model: ModelOption,
    ignore: IgnoreOption = None,
    prune: PruneOption = False,
    watch: WatchOption = False,
    text_column: TextColumnOption = None,
    no_sources: NoSourcesOption = False,
    text: TextOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    engine: EngineOption = Engine.LOCAL,
    address: AddressOption = None,
    actors: ActorsOption = None,
    actor_batch: ActorBatchOption = 64,
    actor_cpus: ActorCpusOption = 1.0,
    actor_gpus: ActorGpusOption = 0.0,
    json: JsonOption = False,
) -> None:
    """Memorise files and folders. Files that haven't changed since the last run are skipped.

    Hidden files and those listed in a folder's .mbcignore are left out. The first
    Ctrl-C saves what is encoded and stops; run the same command again to continue.
    Each row of a CSV or JSON Lines file becomes a document; another --text-column
    than last time replaces them. With --watch and --json each change is one line of
    JSON.

    \b
    Examples:
      mbc ingest ~/notes
      mbc ingest report.pdf minutes/ --bank work.mbc --ignore 'drafts/'
      mbc ingest ~/notes --watch --prune
      mbc ingest reviews.csv --text-column review
      mbc ingest /shared/news --engine ray --address head:6379 --actor-gpus 1
      curl -s https://example.org/page.txt | mbc ingest -
    """
    from mbc_cli.commands.ingest.work import Wanted, memorise
    from mbc_engine.ingestion.ray.cluster import Actors

    wanted = Wanted(
        paths,
        ignore or [],
        bank,
        prune=prune,
        watch=watch,
        text_column=text_column,
        no_sources=no_sources,
        text=text,
    )
    wanted.require_sense()
    team = Actors(actors, actor_batch, actor_cpus, actor_gpus, device, workers)
    on_ray = chosen(ctx, engine, address, team, is_stream=wanted.is_stream, watch=watch)
    wanted.require_places()
    memorise(wanted, model, device, workers, on_ray, as_json=json)


@dataclass(frozen=True)
class OnRay:
    """A cluster to work on, and what works there."""

    address: str | None
    actors: Actors

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Ray is there inside."""
        with ExitStack() as connection:
            with loading("Ray"):
                connection.enter_context(connected(self.address, verbose=verbosity().verbose))
            yield


def chosen(
    ctx: typer.Context, engine: Engine, address: str | None, actors: Actors, *, is_stream: bool, watch: bool
) -> OnRay | None:
    """What the options come to; None for the local engine.

    Args:
        ctx: of the command.
        engine, address: see the options.
        actors: what the other options of Ray come to.
        is_stream: whether stdin is to be read.
        watch: whether changes are to be followed.

    Raises:
        ConfigError: they make no sense together, or Ray is not installed.
        MBCError: there is nothing at the address.
    """
    if engine is Engine.LOCAL:
        for param in ctx.command.params:
            if getattr(param, "rich_help_panel", None) == ON_RAY and param.name and is_typed(ctx, param.name):
                raise ConfigError(f"{param.opts[0]} needs --engine ray.", hint="Add it, or leave this out.")
        return None
    if is_stream or watch:
        raise ConfigError(
            f"--engine ray does not go with {'stdin' if is_stream else '--watch'}.", hint="Take --engine local for it."
        )
    if not actors.cpus and not actors.gpus:
        raise ConfigError("An actor needs a CPU or a GPU, or a part of one.", hint="Say so with --actor-cpus.")
    require_ray()
    if address is not None:
        require_reachable(address)
    return OnRay(address, actors)
