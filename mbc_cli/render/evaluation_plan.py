"""What an experiment needs, cell by cell, as a table; and why some of it cannot be done here."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mbc_cli.text import counted, plain, size
from mbc_engine.experiments.estimates import ASSUMED
from mbc_engine.experiments.needs import CellNeeds, Machine
from mbc_engine.experiments.presence import Thing
from mbc_engine.experiments.settings import ExperimentSettings

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
