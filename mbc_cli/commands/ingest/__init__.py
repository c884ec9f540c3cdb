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
    TextColumnOption,
    TextOption,
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
    from mbc_cli.commands.ingest.on_ray import chosen
    from mbc_cli.commands.ingest.wanted import Wanted
    from mbc_cli.commands.ingest.work import memorise
    from mbc_engine.serving.distributed.cluster import Actors

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
