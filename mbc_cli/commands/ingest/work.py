"""Doing an ingest: here or on Ray, once or for as long as things change."""

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import typer

from mbc_cli.engine import load_model, number_of_workers
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.memorising import noted, opened
from mbc_cli.render.consoles import print_json
from mbc_cli.render.ingest import IngestView, WatchView

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from mbc_cli.commands.ingest.on_ray import OnRay
    from mbc_cli.commands.ingest.wanted import Wanted
    from mbc_engine.bank import MemoryBank
    from mbc_engine.events import Event
    from mbc_engine.load import Model


def memorise(
    wanted: "Wanted", model: str, device: str | None, workers: int | None, on_ray: "OnRay | None", *, as_json: bool
) -> None:
    """Memorise, and show how it goes; Ctrl-C stops it.

    Args:
        wanted: what goes where.
        model: the name or folder of the model.
        device: where it runs; None for the default.
        workers: processes that read files; None for as many as there are cores to spare.
        on_ray: the cluster to work on; None to work here.
        as_json: show the result as JSON.

    Raises:
        MBCError: it cannot be done, or nothing can be read.
        typer.Exit: it was stopped.
    """
    with ending_with("Nothing was memorised yet."):
        loaded = load_model(model, "cpu" if on_ray else device)
    with (
        on_ray.connected() if on_ray else nullcontext(),
        ending_with("What was committed before is saved; run the same command again to continue."),
        opened(loaded, wanted.bank, keeps_origins=not wanted.no_sources, keeps_text=wanted.text) as bank,
        WatchView(bank.name, as_json=as_json) if wanted.watch else IngestView(keeps_reasons=as_json) as view,
        stop_on_interrupt(view.stopping) as stop,
    ):
        if wanted.is_stream and sys.stdin.isatty():
            view.line("Type the text; Ctrl-D ends it.")
        for event in noted(_events(wanted, loaded, bank, number_of_workers(workers), on_ray, stop), bank, wanted.bank):
            view.show(event)
    if not wanted.watch and as_json:
        print_json(view.summary_json(bank.name))
    elif not wanted.watch:
        view.show_summary(bank.name)
    if not view.is_complete:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    if not wanted.watch:
        view.require_something()


def _events(
    wanted: "Wanted",
    model: "Model",
    bank: "MemoryBank",
    workers: int,
    on_ray: "OnRay | None",
    stop: "threading.Event",
) -> "Iterator[Event]":
    from mbc_engine.serving.ingest import ingest, ingest_stream
    from mbc_engine.serving.watch import watch

    if wanted.is_stream:
        return ingest_stream(model, bank, sys.stdin.buffer, stop=stop)
    if on_ray:
        from mbc_engine.serving.distributed.ingest import ingest_on_ray

        return ingest_on_ray(
            model,
            bank,
            wanted.paths,
            ignore=wanted.ignore,
            prune=wanted.prune,
            text_column=wanted.text_column,
            actors=on_ray.actors,
            stop=stop,
        )
    return (watch if wanted.watch else ingest)(
        model,
        bank,
        wanted.paths,
        ignore=wanted.ignore,
        prune=wanted.prune,
        workers=workers,
        text_column=wanted.text_column,
        stop=stop,
    )
