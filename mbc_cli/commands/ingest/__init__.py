"""`mbc ingest`: files into a bank."""

import typer

from mbc_cli.commands.ingest.options import (
    ActorBatchOption,
    ActorCpusOption,
    ActorGpusOption,
    ActorsOption,
    AddressOption,
    Engine,
    EngineOption,
    IgnoreOption,
    NoSourcesOption,
    PathsArgument,
    PruneOption,
    WatchOption,
)
from mbc_cli.options import BankOption, DeviceOption, JsonOption, ModelOption, WorkersOption


def ingest(
    ctx: typer.Context,
    paths: PathsArgument,
    *,
    bank: BankOption,
    model: ModelOption,
    ignore: IgnoreOption = None,
    prune: PruneOption = False,
    watch: WatchOption = False,
    no_sources: NoSourcesOption = False,
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
    saves what is encoded and stops; the same command goes on from there. With
    --watch and --json each change is one line of JSON.

    \b
    Examples:
      mbc ingest ~/notes
      mbc ingest report.pdf minutes/ --bank work.mbc --ignore 'drafts/'
      mbc ingest ~/notes --watch --prune
      mbc ingest /shared/news --engine ray --address head:6379 --actor-gpus 1
      curl -s https://example.org/page.txt | mbc ingest -
    """
    from mbc_cli.commands.ingest.on_ray import chosen
    from mbc_cli.commands.ingest.wanted import Wanted
    from mbc_cli.commands.ingest.work import memorise
    from mbc_engine.serving.distributed.cluster import Actors

    wanted = Wanted(paths, ignore or [], bank, prune=prune, watch=watch, no_sources=no_sources)
    wanted.require_sense()
    team = Actors(actors, actor_batch, actor_cpus, actor_gpus, device, workers)
    on_ray = chosen(ctx, engine, address, team, is_stream=wanted.is_stream, watch=watch)
    wanted.require_places()
    memorise(wanted, model, device, workers, on_ray, as_json=json)
