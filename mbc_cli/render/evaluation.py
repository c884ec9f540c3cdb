"""An evaluation on the terminal: its progress, its report, and a plan of what it needs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_table
from mbc_cli.text import format_duration, format_size, pluralise, sanitise
from mbc_engine import events

if TYPE_CHECKING:
    from mbc_engine.experiments.report import Report
    from mbc_engine.experiments.requirements import Availability, CellRequirements, Machine
    from mbc_engine.experiments.settings import ExperimentSettings
    from mbc_engine.experiments.tables import Table

_ALL = "Stages"
_BARS = {"read texts": "Reading texts", "take in documents": "Memorising", "answer questions": "Answering"}


class ExperimentView(ProgressView):
    """Shows an experiment's progress from its events; `resume` says how to continue it after a stop."""

    def __init__(self, folder: Path, resume: str) -> None:
        super().__init__()
        self._folder, self._resume = folder, resume
        self._total_steps = self._kept = 0
        self.is_finished = False

    def show(self, event: events.Event) -> None:
        match event:
            case events.StageStarted():
                self._show_kept()
                note = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
                self.bar(_ALL, event.total, completed=event.number - 1, note=note)
            case events.StageFinished() | events.StageSkipped():
                self._end_stage(event)
            case events.Progressed():
                self.bar(_BARS[event.work], event.total, completed=event.done)
            case events.TrainStarted():
                self._total_steps = event.total_steps
                self.bar("Training", event.total_steps, completed=event.step)
            case events.TrainStep():
                self.bar("Training", self._total_steps, completed=event.step, note=f"loss {event.loss:.3f}")
            case events.TuningStep():
                self.bar("Tuning", event.total_steps, completed=event.step, note=f"loss {event.loss:.3f}")
            case events.Validated() | events.RateTried():
                tried = (
                    f"step {event.step:,}" if isinstance(event, events.Validated) else f"learning rate {event.rate:g}"
                )
                self.line(f"  {tried}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %", "dim")
            case events.ExperimentFinished():
                self._show_kept()
                self.is_finished = True
                self.remove_bar(_ALL)

    def _end_stage(self, event: events.StageFinished | events.StageSkipped) -> None:
        for name in ("Training", "Tuning", *_BARS.values()):
            self.remove_bar(name)
        place = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
        if isinstance(event, events.StageSkipped):
            if event.follows is None:
                self.line(f"{place}: skipped: {sanitise(event.reason)}", "yellow")
        elif event.was_kept:
            self._kept += 1
        else:
            self.line(f"{place}: {format_duration(event.seconds)}")

    def announce_stopping(self) -> None:
        self.announce("Stopping; press Ctrl-C again to end at once. Finished stages are kept.")

    def announce_stopped(self) -> None:
        self.announce(f"Stopped. {self._resume}")

    def _show_kept(self) -> None:
        if self._kept:
            were = "was" if self._kept == 1 else "were"
            self.line(f"{sanitise(self._folder)}: {pluralise(self._kept, 'stage')} {were} already done.")
            self._kept = 0


_STYLES: Final = {"worse": "red", "no": "red", "unchecked": "yellow", "partly": "yellow", "yes": "green"}
# Minimum terminal width for showing a table's column; others are always shown.
_ROOM: Final = {
    "documents": 96,
    "paper's EM": 100,
    "paper's F1": 100,
    "learning rate": 112,
    "in five": 120,
    "lenient match*": 132,
    "questions": 144,
}
_ROOM_OF_DETAILS: Final = {
    "bytes on disk": 90,
    "bytes, paper's count": 100,
    "paper's F1 kept": 100,
    "per answer": 110,
    "paper's bytes": 120,
    "per document": 120,
}


def print_report(report: "Report") -> None:
    from mbc_engine.experiments.tables import LENIENT, NOTHING_TO_BEAT, OUTCOMES, tables_of

    for verdict in report.verdicts:
        style = _STYLES[verdict.outcome]
        figures = f": {sanitise(verdict.figures)}." if verdict.figures else "."
        _print((f"{OUTCOMES[verdict.outcome]} ", style), (sanitise(verdict.claim), f"bold {style}"), figures)
    if not report.verdicts:
        _print((NOTHING_TO_BEAT, "bold yellow"))
    for caution in report.cautions:
        _print(("Note. ", "bold yellow"), sanitise(caution))
    for cell in report.cells:
        _head(cell.title, f"{len(cell.rows)} methods")
        _print_tables(tables_of(cell))
    if any(cell.leader is not None for cell in report.cells) and _has_room(_ROOM["lenient match*"]):
        _print((LENIENT, "dim"))
    if report.missing:
        _head("What is missing", "")
        for missing in report.missing:
            _print(f"{sanitise(missing['cell'])}, {sanitise(missing['stage'])}: {sanitise(missing['reason'])}")


def _print_tables(tables: "Sequence[Table]") -> None:
    for table in tables:
        if table.columns[0] != "first":  # paired tests: the verdicts say what they show
            if table.is_detail:
                _print((table.title, "dim"))
            _print_table(table, _ROOM_OF_DETAILS if table.is_detail else _ROOM)
            print()


def _print_table(table: "Table", room: Mapping[str, int]) -> None:
    places = [number for number, name in enumerate(table.columns) if _has_room(room.get(name, 0))]
    rows = [
        [f"{own.text} ({own.note})" if own.note else own.text for own in (line[place] for place in places)]
        for line in table.lines
    ]
    names = [table.columns[place] for place in places]
    print_table(names, rows, right=[name for name in names if name != "method"])


def _has_room(columns: int) -> bool:
    """Always true off a terminal, where line length is unlimited."""
    return not out.is_terminal or out.width >= columns


def _head(title: str, note: str) -> None:
    print()
    _print((sanitise(title), "bold"), (f"  {note}", "dim") if note else "")


def _print(*parts: str | tuple[str, str]) -> None:
    out.print(Text.assemble(*parts))


_COLUMNS = ("cell", "data", "models", "memory", "hours", "here")


def print_plan(
    settings: "ExperimentSettings", machine: "Machine", needed: "Sequence[CellRequirements]", console: Console
) -> None:
    """Print a line per cell, then everything that is missing or too large, each reason once."""
    from mbc_engine.experiments.requirements import ASSUMED

    stages = sum(len(cell.stages) for cell in needed)
    console.print(
        sanitise(f"{settings.title}: {pluralise(len(needed), 'cell')}, {pluralise(stages, 'stage')}"), style="bold"
    )
    print_table(_COLUMNS, list(map(_row, needed)), right=("memory", "hours"), console=console)
    for line in _reasons(needed):
        console.print(Text(sanitise(line), "yellow"))
    if not all(thing.can_be_had for cell in needed for thing in cell.data):
        console.print("--data-folder is where files are; docs/data.md says how to get them.")
    here = f"{sanitise(machine.description)} with {format_size(machine.memory)}"
    console.print(Text(f"Memory is the minimum for the largest stage, without activations; here: {here}.", "dim"))
    known = [cell.hours for cell in needed if cell.hours is not None]
    if known:
        in_bf16 = f" ({machine.speed * machine.bf16_gain / 1e12:g} in bf16)" if machine.bf16_gain > 1 else ""
        speed = f"{machine.speed / 1e12:g} Tflop/s{in_bf16}"
        text = f"About {_hours(sum(known))} hours in all, assuming {speed}, {ASSUMED}."
        console.print(Text(text, "dim"))


def plan_json(
    settings: "ExperimentSettings", machine: "Machine", needed: "Sequence[CellRequirements]"
) -> dict[str, Any]:
    from mbc_engine.experiments.requirements import ASSUMED

    kept = ("memory", "hours", "obstacle", "follows")
    cells = [
        {
            **asdict(cell),
            "stages": [{"stage": own.name, **{name: getattr(own, name) for name in kept}} for own in cell.stages],
            "memory": cell.memory,
            "hours": cell.hours,
            "possible": cell.possible,
        }
        for cell in needed
    ]
    return {"title": settings.title, "machine": asdict(machine), "assumed": ASSUMED, "cells": cells}


def _hours(hours: float | None) -> str:
    return "?" if hours is None else f"{hours:.2g}" if hours < 10 else f"{hours:,.0f}"


def _row(cell: "CellRequirements") -> tuple[str, ...]:
    return (
        sanitise(cell.cell),
        _state(cell.data),
        _state(cell.models) if cell.models else "?",
        "?" if cell.memory is None else format_size(cell.memory),
        _hours(cell.hours),
        f"{cell.possible} of {pluralise(len(cell.stages), 'stage')}",
    )


def _state(things: "Sequence[Availability]") -> str:
    if not all(thing.can_be_had for thing in things):
        return "missing"
    return "here" if all(thing.is_here for thing in things) else "from the hub"


def _reasons(needed: "Sequence[CellRequirements]") -> list[str]:
    missing: dict[str, dict[str, None]] = {}
    found: dict[str, list[str]] = {}
    for cell in needed:
        lacking = [thing for thing in (*cell.data, *cell.models) if not thing.can_be_had]
        for thing in lacking:
            missing.setdefault(thing.status.capitalize(), {})[thing.name] = None
        if cell.unknown:
            found.setdefault(f"no estimate: {cell.unknown}", []).append(cell.cell)
        for stage in cell.stages:
            if stage.obstacle and stage.follows is None and not lacking:
                found.setdefault(stage.obstacle, []).append(f"{cell.cell} {stage.name}")
    return [
        *(f"{status}: {', '.join(names)}" for status, names in missing.items()),
        *(f"{'; '.join(stages)}: {reason}" for reason, stages in found.items()),
    ]
