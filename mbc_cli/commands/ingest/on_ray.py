"""`mbc ingest --engine ray`: its options, and what they come to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from mbc_engine.serving.distributed.cluster import Actors

_PANEL: Final = "With --engine ray"


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
        rich_help_panel=_PANEL,
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
        rich_help_panel=_PANEL,
    ),
]
ActorBatchOption = Annotated[
    int,
    typer.Option("--actor-batch", metavar="N", min=1, help="Chunks that one takes at a time.", rich_help_panel=_PANEL),
]
ActorCpusOption = Annotated[
    float,
    typer.Option(
        "--actor-cpus", metavar="X", min=0.0, help="CPUs of each, and threads of torch.", rich_help_panel=_PANEL
    ),
]
ActorGpusOption = Annotated[
    float,
    typer.Option("--actor-gpus", metavar="X", min=0.0, help="GPUs of each, or a part of one.", rich_help_panel=_PANEL),
]


@dataclass(frozen=True)
class OnRay:
    """A cluster to work on, and what works there."""

    address: str | None
    actors: "Actors"

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Ray is there inside."""
        from mbc_cli.engine import loading
        from mbc_cli.verbosity import verbosity
        from mbc_engine.serving.distributed.cluster import connected

        with ExitStack() as connection:
            with loading("Ray"):
                connection.enter_context(connected(self.address, verbose=verbosity().verbose))
            yield


def chosen(
    ctx: typer.Context, engine: Engine, address: str | None, *, is_stream: bool, watch: bool, **actors: Any
) -> OnRay | None:
    """What the options come to; None for the local engine.

    Args:
        ctx: of the command.
        engine, address: see the options.
        is_stream: whether stdin is to be read.
        watch: whether changes are to be followed.
        actors: as `Actors` has them.

    Raises:
        ConfigError: they make no sense together, or Ray is not installed.
        MBCError: there is nothing at the address.
    """
    from mbc_cli.program import is_typed
    from mbc_engine.errors import ConfigError
    from mbc_engine.serving.distributed.cluster import Actors, require_ray, require_reachable

    if engine is Engine.LOCAL:
        for param in ctx.command.params:
            if getattr(param, "rich_help_panel", None) == _PANEL and param.name and is_typed(ctx, param.name):
                raise ConfigError(f"{param.opts[0]} needs --engine ray.", hint="Add it, or leave this out.")
        return None
    if is_stream or watch:
        raise ConfigError(
            f"--engine ray does not go with {'stdin' if is_stream else '--watch'}.", hint="Take --engine local for it."
        )
    wanted = Actors(**actors)
    if not wanted.cpus and not wanted.gpus:
        raise ConfigError("An actor needs a CPU or a GPU, or a part of one.", hint="Say so with --actor-cpus.")
    require_ray()
    if address is not None:
        require_reachable(address)
    return OnRay(address, wanted)
