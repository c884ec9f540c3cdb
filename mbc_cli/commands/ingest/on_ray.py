"""`mbc ingest --engine ray`: what its options come to."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import typer

from mbc_cli.commands.ingest.options import ON_RAY, Engine
from mbc_cli.engine import loading
from mbc_cli.program import is_typed
from mbc_cli.verbosity import verbosity
from mbc_engine.errors import ConfigError
from mbc_engine.serving.distributed.cluster import Actors, connected, require_ray, require_reachable


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
