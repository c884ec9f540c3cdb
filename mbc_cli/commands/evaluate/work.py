"""Doing an evaluation, or telling what it takes.

An experiment at work: its stages as lines, the one in progress as bars.

What an experiment needs, cell by cell, as a table; and why some of it cannot be done here.
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import singledispatchmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mbc_cli.engine import hub_is_reachable, loading, prepare_torch
from mbc_cli.evaluations import way_on
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.paths import states_cache
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out, print_json
from mbc_cli.text import counted, plain, seconds, size
from mbc_engine.events import (
    Event,
    ExperimentFinished,
    Progressed,
    RateTried,
    StageFinished,
    StageSkipped,
    StageStarted,
    TrainStarted,
    TrainStep,
    TuningStep,
    Validated,
)
from mbc_engine.experiments.cells import ExperimentSettings
from mbc_engine.experiments.requirements import ASSUMED, CellNeeds, Machine, Thing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mbc_cli.commands.evaluate.choice import Chosen


@dataclass(frozen=True)
class Means:
    """What an evaluation may take: a torch device and threads, None for the default; and the most hours of a stage."""

    device: str | None
    threads: int | None
    hours: float


def show_plan(settings: "ExperimentSettings", means: Means, *, as_json: bool) -> None:
    """Tell what an experiment needs, and what of it can be done here, on stdout."""
    machine, needed = _needs(settings, means)
    if as_json:
        print_json(plan_json(settings, machine, needed))
    else:
        print_plan(settings, machine, needed, out)


def work(chosen: "Chosen", means: Means, *, opens: bool, as_json: bool) -> None:
    """Do what is left of an experiment and show its report; what of a grid cannot be done here is passed over."""
    settings, folder = chosen.settings, chosen.folder
    with ending_with(way_on(folder)):
        with loading("torch"):
            from mbc_engine.experiments.running import run

            device = prepare_torch(means.device, means.threads)
        obstacles: Mapping[tuple[str, str], str] = {}
        if chosen.is_grid:
            from mbc_engine.experiments.requirements import obstacles as stand_in_the_way

            machine, needed = _needs(settings, means)
            obstacles = stand_in_the_way(needed)
            print_plan(settings, machine, needed, notes)
        view = ExperimentView(folder, way_on(folder))
        with view, stop_on_interrupt(view.stopping) as stop:
            for event in run(
                settings,
                folder,
                cache=states_cache(),
                device=device,
                command=shlex.join(["mbc", *sys.argv[1:]]),
                skips=chosen.is_grid,
                obstacles=obstacles,
                stop=stop,
            ):
                view.show(event)
    if not view.is_finished:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    from mbc_cli.commands.evaluate.look import show_report

    show_report(folder, opens=opens, as_json=as_json)


def _needs(settings: "ExperimentSettings", means: Means) -> "tuple[Machine, list[CellNeeds]]":
    with loading("sizes of models"):
        from mbc_engine.experiments.requirements import needs, this_machine

        device = prepare_torch(means.device, means.threads)
        machine = this_machine(device, has_hub=bool(hub_is_reachable()))
        return machine, list(needs(settings, machine, most_hours=means.hours))


_ALL = "Stages"
_BARS = ("Reading texts", "Training", "Tuning", "Taking in", "Answering")


class ExperimentView(ProgressView):
    """Follows an experiment by its events.

    Args:
        folder: the experiment's.
        way_on: how to go on with it after a stop.
    """

    def __init__(self, folder: Path, way_on: str) -> None:
        super().__init__()
        self._folder, self._way_on = folder, way_on
        self._total_steps = self._kept = 0
        self._end: ExperimentFinished | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the experiment came to its end."""
        return self._end is not None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: StageStarted) -> None:
        self._tell_kept()
        self.bar(_ALL, event.total, completed=event.number - 1, note=f"{plain(event.cell)}: {plain(event.stage)}")

    @show.register
    def _(self, event: StageFinished) -> None:
        self._end_bars()
        if event.was_kept:
            self._kept += 1
        else:
            self.line(f"{plain(event.cell)}: {plain(event.stage)}: {seconds(event.seconds)}")

    @show.register
    def _(self, event: StageSkipped) -> None:
        self._end_bars()
        if event.follows is None:
            self.line(f"{plain(event.cell)}: {plain(event.stage)}: passed over: {plain(event.reason)}", "yellow")

    @show.register
    def _(self, event: Progressed) -> None:
        self.bar("Reading texts", event.total, completed=event.done)

    @show.register
    def _(self, event: TrainStarted) -> None:
        self._total_steps = event.total_steps
        self.bar("Training", event.total_steps, completed=event.step)

    @show.register
    def _(self, event: TrainStep) -> None:
        self.bar("Training", self._total_steps, completed=event.step, note=f"loss {event.loss:.3f}")

    @show.register
    def _(self, event: Validated) -> None:
        self.line(f"  step {event.step:,}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %", "dim")

    @show.register
    def _(self, event: TuningStep) -> None:
        self.bar("Tuning", event.total_steps, completed=event.step, note=f"loss {event.loss:.3f}")

    @show.register
    def _(self, event: RateTried) -> None:
        told = f"exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %"
        self.line(f"  learning rate {event.rate:g}: {told}", "dim")

    @show.register
    def _(self, event: Progressed) -> None:
        self.bar("Taking in", event.total, completed=event.done)

    @show.register
    def _(self, event: Progressed) -> None:
        self.bar("Answering", event.total, completed=event.done)

    @show.register
    def _(self, event: ExperimentFinished) -> None:
        self._tell_kept()
        self._end = event
        self.remove_bar(_ALL)

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.tell("Stopping; Ctrl-C again ends at once. Stages that are done are kept.")

    def stopped(self) -> None:
        """Say how to go on."""
        self.tell(f"Stopped. {self._way_on}")

    def _tell_kept(self) -> None:
        if self._kept:
            was = "was" if self._kept == 1 else "were"
            self.line(f"{plain(self._folder)}: {counted(self._kept, 'stage')} {was} done before.")
            self._kept = 0

    def _end_bars(self) -> None:
        for name in _BARS:
            self.remove_bar(name)


_COLUMNS = ("cell", "data", "models", "memory", "hours", "here")


def print_plan(settings: ExperimentSettings, machine: Machine, needed: Sequence[CellNeeds], console: Console) -> None:
    """A line for each cell, then everything that is missing or too much, each reason once."""
    stages = sum(len(cell.stages) for cell in needed)
    console.print(plain(f"{settings.title}: {counted(len(needed), 'cell')}, {counted(stages, 'stage')}"), style="bold")
    if console.is_terminal:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in _COLUMNS:
            table.add_column(column, justify="right" if column in ("memory", "hours") else "left", overflow="fold")
        for cell in needed:
            table.add_row(*map(Text, _row(cell)))
        console.print(table, soft_wrap=False)
    else:
        for cell in needed:
            console.print("  ".join(_row(cell)))
    for line in _reasons(needed):
        console.print(Text(line, "yellow"))
    if not all(thing.can_be_had for cell in needed for thing in cell.data):
        console.print("--data-folder says where files are; docs/data.md, how to get them.")
    console.print(
        Text(
            f"Estimates, from sizes alone: memory of the stage that takes most, hours of all, on {plain(machine.told)} "
            f"with {size(machine.memory)} at {machine.speed / 1e12:g} Tflop/s; {ASSUMED}.",
            "dim",
        )
    )


def plan_json(settings: ExperimentSettings, machine: Machine, needed: Sequence[CellNeeds]) -> dict[str, Any]:
    """The same as JSON, with every stage; memory in bytes."""
    return {
        "title": settings.title,
        "machine": asdict(machine),
        "assumed": ASSUMED,
        "cells": [
            {**asdict(cell), "memory": cell.memory, "hours": cell.hours, "possible": cell.possible} for cell in needed
        ],
    }


def _row(cell: CellNeeds) -> tuple[str, ...]:
    hours = cell.hours
    return (
        plain(cell.cell),
        _state(cell.data),
        _state(cell.models) if cell.models else "?",
        "?" if cell.memory is None else size(cell.memory),
        "?" if hours is None else f"{hours:,.2g}" if hours < 10 else f"{hours:,.0f}",
        f"{cell.possible} of {counted(len(cell.stages), 'stage')}",
    )


def _state(things: Sequence[Thing]) -> str:
    """In a word, the worst of them."""
    if not all(thing.can_be_had for thing in things):
        return "missing"
    return "here" if all(thing.is_here for thing in things) else "from the hub"


def _reasons(needed: Sequence[CellNeeds]) -> list[str]:
    """What is missing, each thing once; then why else stages cannot be done, with the cells and stages."""
    missing: dict[str, list[str]] = {}
    for cell in needed:
        for thing in (*cell.data, *cell.models):
            if not thing.can_be_had and thing.name not in missing.setdefault(thing.told, []):
                missing[thing.told].append(thing.name)
    found: dict[str, list[str]] = {}
    for cell in needed:
        if cell.unknown:
            found.setdefault(f"no estimate: {cell.unknown}", []).append(cell.cell)
        if all(thing.can_be_had for thing in (*cell.data, *cell.models)):
            for stage in cell.stages:
                if stage.obstacle and stage.follows is None:
                    found.setdefault(stage.obstacle, []).append(f"{cell.cell} {stage.stage}")
    lines = [f"{told.capitalize()}: {', '.join(names)}" for told, names in missing.items()]
    lines += [f"{'; '.join(stages)}: {reason}" for reason, stages in found.items()]
    return [plain(line) for line in lines]
