"""Doing an evaluation, or telling what it takes."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mbc_cli.engine import loading, prepare_torch
from mbc_cli.evaluations import way_on
from mbc_cli.hub import hub_from_here
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.paths import states_cache
from mbc_cli.render.consoles import notes, out, print_json
from mbc_cli.text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mbc_cli.commands.evaluate.choice import Chosen
    from mbc_engine.experiments.needs import CellNeeds, Machine
    from mbc_engine.experiments.settings import ExperimentSettings


@dataclass(frozen=True)
class Means:
    """What an evaluation may take: a torch device and threads, None for the default; and the most hours of a stage."""

    device: str | None
    threads: int | None
    hours: float


def show_plan(settings: "ExperimentSettings", means: Means, *, as_json: bool) -> None:
    """Tell what an experiment needs, and what of it can be done here, on stdout."""
    from mbc_cli.render.evaluation_plan import plan_json, print_plan

    machine, needed = _needs(settings, means)
    if as_json:
        print_json(plan_json(settings, machine, needed))
    else:
        print_plan(settings, machine, needed, out)


def work(chosen: "Chosen", means: Means, *, opens: bool, as_json: bool) -> None:
    """Do what is left of an experiment and show its report; what of a grid cannot be done here is passed over."""
    from mbc_cli.render.evaluation_plan import print_plan
    from mbc_cli.render.experiment import ExperimentView

    settings, folder = chosen.settings, chosen.folder
    with ending_with(way_on(folder)):
        with loading("torch"):
            from mbc_engine.experiments.running import run

            device = prepare_torch(means.device, means.threads)
        obstacles: Mapping[tuple[str, str], str] = {}
        if chosen.is_grid:
            from mbc_engine.experiments.needs import obstacles as stand_in_the_way

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
    show_report(folder, opens=opens, as_json=as_json)


def show_report(folder: Path, *, opens: bool, as_json: bool) -> None:
    """The report of what an experiment's folder holds, on stdout; where it lies, on stderr; in the browser if asked."""
    from mbc_cli.render.evaluation import print_report
    from mbc_engine.evaluation.folder import ExperimentFolder
    from mbc_engine.experiments.reporting import report_of, write_report_of

    kept = ExperimentFolder(folder)
    if opens:  # a page of before may lack what was done since
        try:
            write_report_of(kept)
        except OSError:  # somebody else's folder has the page that it came with
            if not kept.report_html.is_file():
                raise
    report = report_of(kept)
    if as_json:
        print_json({"folder": str(folder), **report.to_json()})
    else:
        print_report(report)
    if kept.report_html.is_file():
        notes.print(f"The report: {plain(kept.report_html)}")
    if opens:
        typer.launch(str(kept.report_html))


def _needs(settings: "ExperimentSettings", means: Means) -> "tuple[Machine, list[CellNeeds]]":
    with loading("sizes of models"):
        from mbc_engine.experiments.needs import needs, this_machine

        device = prepare_torch(means.device, means.threads)
        machine = this_machine(device, has_hub=bool(hub_from_here(may_ask=True).reachable))
        return machine, list(needs(settings, machine, most_hours=means.hours))
