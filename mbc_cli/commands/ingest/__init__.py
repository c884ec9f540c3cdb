"""`mbc ingest`: files into a bank."""

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mbc_cli.commands.ingest.on_ray import (
    ActorBatchOption,
    ActorCpusOption,
    ActorGpusOption,
    ActorsOption,
    AddressOption,
    Engine,
    EngineOption,
    OnRay,
    chosen,
)
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption

if TYPE_CHECKING:
    import threading

    from mbc_engine.bank import MemoryBank
    from mbc_engine.events import Event
    from mbc_engine.model.mbc import MBC

STDIN: Final = Path("-")


def ingest(
    ctx: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files and folders; - alone is stdin.")],
    *,
    bank: BankOption,
    model: ModelOption,
    ignore: Annotated[
        list[str] | None,
        typer.Option("--ignore", metavar="PATTERN", help="Leave this out, as in .gitignore; may be given again."),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Forget what is no longer in the named folders.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and memorise what changes, until Ctrl-C.")] = False,
    no_sources: Annotated[
        bool, typer.Option("--no-sources", help="Make a bank of a third of the size that knows no file names.")
    ] = False,
    half_codebook: Annotated[
        bool, typer.Option("--half-codebook", help="Make a bank whose codebook is rounded to half precision.")
    ] = False,
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
    """Memorise files and folders. What did not change since the last time is passed over.

    Hidden files and what a folder's .mbcignore names are left out. A first Ctrl-C
    stops after the batch in progress; the same command goes on from there. With
    --watch and --json each change is one line of JSON.

    \b
    Examples:
      mbc ingest ~/notes
      mbc ingest report.pdf minutes/ --bank work.mbc --ignore 'drafts/'
      mbc ingest ~/notes --watch --prune
      mbc ingest /shared/news --engine ray --address head:6379 --actor-gpus 1
      curl -s https://example.org/page.txt | mbc ingest -
    """
    from mbc_cli.engine import load_model, number_of_workers
    from mbc_cli.interrupt import ending_with, stop_on_interrupt
    from mbc_cli.memorising import noted, opened
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.ingest import IngestView, WatchView
    from mbc_engine.documents import require_paths

    _require_sense(paths, prune=prune, watch=watch, no_sources=no_sources)
    on_ray = chosen(
        ctx,
        engine,
        address,
        is_stream=STDIN in paths,
        watch=watch,
        number=actors,
        chunks=actor_batch,
        cpus=actor_cpus,
        gpus=actor_gpus,
        device=device,
        readers=workers,
    )
    if paths != [STDIN]:
        require_paths(paths, ignore or [])  # a mistyped path is told at once, not after the model was loaded
    _require_fit(bank, prune=prune, no_sources=no_sources, half_codebook=half_codebook)
    with ending_with("Nothing was memorised yet."):
        loaded = load_model(model, "cpu" if on_ray else device)
    work = _Work(paths, ignore or [], prune, watch, number_of_workers(workers), on_ray)
    with (
        on_ray.connected() if on_ray else nullcontext(),
        ending_with("What was committed before is saved; the same command goes on from there."),
        opened(loaded, bank, keeps_origins=not no_sources, half=half_codebook) as memory,
        WatchView(memory.name, as_json=json) if watch else IngestView(keeps_reasons=json) as view,
        stop_on_interrupt(view.stopping) as stop,
    ):
        if paths == [STDIN] and sys.stdin.isatty():
            view.line("Type the text; Ctrl-D ends it.")
        for event in noted(work.events(loaded, memory, stop), memory, bank):
            view.show(event)
    if not watch and json:
        print_json(view.summary_json(memory.name))
    elif not watch:
        view.show_summary(memory.name)
    if not view.is_complete:
        view.stopped()
        raise typer.Exit(130)
    if not watch:
        view.require_something()


@dataclass(frozen=True)
class _Work:
    """What is to be memorised, and how."""

    paths: list[Path]
    ignore: list[str]
    prune: bool
    watch: bool
    workers: int
    on_ray: OnRay | None

    def events(self, model: "MBC", bank: "MemoryBank", stop: "threading.Event") -> Iterator["Event"]:
        """Do it."""
        from mbc_engine.serving.ingest import ingest, ingest_stream
        from mbc_engine.serving.watch import watch

        if self.paths == [STDIN]:
            return ingest_stream(model, bank, sys.stdin.buffer, stop=stop)
        if self.on_ray:
            from mbc_engine.serving.distributed.ingest import ingest_on_ray

            return ingest_on_ray(
                model, bank, self.paths, ignore=self.ignore, prune=self.prune, actors=self.on_ray.actors, stop=stop
            )
        return (watch if self.watch else ingest)(
            model, bank, self.paths, ignore=self.ignore, prune=self.prune, workers=self.workers, stop=stop
        )


def _require_sense(paths: list[Path], *, prune: bool, watch: bool, no_sources: bool) -> None:
    """Raises ConfigError for options that contradict each other."""
    from mbc_engine.errors import ConfigError

    if STDIN in paths and len(paths) > 1:
        raise ConfigError("- stands for stdin and cannot be mixed with paths.", hint="A file of that name is ./-")
    if STDIN in paths and (prune or watch):
        raise ConfigError("--prune and --watch need folders, not stdin.", hint="Leave them out.")
    if prune and no_sources:
        raise ConfigError("--prune needs sources, which --no-sources does not keep.", hint="Leave one of them out.")


def _require_fit(bank: Path, *, prune: bool, no_sources: bool, half_codebook: bool) -> None:
    """Make sure, without its model, that a bank can be opened and is as the options want it.

    Raises:
        BankError: it cannot be opened.
        ConfigError: it was made otherwise.
    """
    from mbc_engine.bank import MemoryBank
    from mbc_engine.bank.database import bytes_at
    from mbc_engine.errors import ConfigError

    if not bytes_at(bank):
        return
    with MemoryBank.open(bank, read_only=True) as memory:
        keeps_origins, codebook_width = memory.header.keeps_origins, memory.codebook_width
    made = "It was made so: name another file with --bank, or leave out"
    if no_sources and keeps_origins:
        raise ConfigError(f"{bank} keeps sources.", hint=f"{made} --no-sources.")
    if prune and not keeps_origins:
        raise ConfigError(f"{bank} keeps no sources to prune by.", hint=f"{made} --prune.")
    if half_codebook and codebook_width > 2:
        raise ConfigError(f"{bank} has its codebook in single precision.", hint=f"{made} --half-codebook.")
