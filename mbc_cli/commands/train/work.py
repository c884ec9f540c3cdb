"""Doing a training: drawn by the first of the processes that train together, if there are several."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from mbc_cli.data import read_data
from mbc_cli.engine import loading, prepare_torch, require_device
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.paths import states_cache
from mbc_cli.render.consoles import notes
from mbc_cli.render.training import JsonTrainView, TrainView
from mbc_cli.runs import name_of
from mbc_engine.datasets.split import HeldOut, hold_out
from mbc_engine.model_folder import find_model
from mbc_engine.training.launch import is_main_process

if TYPE_CHECKING:
    from mbc_cli.commands.train.job import Job
    from mbc_cli.runs import RunCommand

_HELD_OUT = 0.05  # of the documents, where none to validate on are named


def work(job: "Job", threads: int | None, *, as_json: bool) -> None:
    """Train, and show how it goes; Ctrl-C stops it after the step in progress.

    Args:
        job: what is to be done.
        threads: of torch; None for the default.
        as_json: each event as a line of JSON.

    Raises:
        MBCError: it cannot be done.
        typer.Exit: it was stopped.
    """
    is_main = is_main_process()
    notes.quiet = notes.quiet or not is_main
    require_device(job.command.device)
    start = find_model(job.command.start) if job.command.start else None
    examples = _examples(job.command)
    with loading("torch"):
        from mbc_engine.training.requirements import require_start
        from mbc_engine.training.tracking import require_trackers
        from mbc_engine.training.trainer import train

        require_trackers(job.command.track)
        if start is not None:
            require_start(start)
        device = prepare_torch(job.command.device, threads)
    command = replace(job.command, device=device)
    train_here = partial(
        train,
        job.config,
        examples.training,
        examples.validation,
        job.run,
        cache=states_cache(),
        resume=job.resume,
        start=start,
        device=device,
        trackers=command.track,
    )
    if not is_main:
        with stop_on_interrupt(lambda: None) as stop:
            for _ in train_here(stop=stop):
                pass
        return
    command.save(job.run)
    view = (JsonTrainView if as_json else TrainView)(job.run, name_of(job.run))
    with ending_with(view.way_on), view, stop_on_interrupt(view.stopping) as stop:
        for event in train_here(stop=stop):
            view.show(event)
    if not view.is_finished:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    view.finished()


def _examples(command: "RunCommand") -> HeldOut:
    """The questions to train and to validate on."""
    examples = read_data(command.data)
    if command.validation is None:
        return hold_out(examples, _HELD_OUT)
    return HeldOut(examples, read_data([command.validation]))
