"""The sections of docs/performance.md on reads, with their plots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import read
from keeping import Result
from wording import MIN_GROWTH, format_ratio, format_seconds, plot, table

GOAL_GROWTH: Final = 1.2
TITLES: Final = {
    "distilgpt2": "DistilGPT2's shape",
    "llama2-7b": "LLaMA-2-7B's shape",
}


def cells_of(found: dict[str, Result], name: str) -> dict[tuple[str, int], Result]:
    """A shape's cells by read mode and documents."""
    split = {tuple(step.split()): result for step, result in found.items()}
    return {(key[1], int(key[2])): result for key, result in split.items() if key[0] == name and len(key) == 3}


def render_reads(found: dict[str, Result]) -> Iterator[str]:
    """The section on reads."""
    yield (
        "One encoded question is read against a bank of N documents of one chunk each. *Dense* is what the released code "
        "does: it looks up the vectors of all codes and, in each of the aggregator's four blocks, projects them to keys and "
        "values, and attends to them. *Flat* gives the same result from the counts of codes. *Flat sources* is the "
        "additional scan that finds the documents a flat read attended to; *hierarchical* and *routed* reads find theirs "
        "along the way. Weights and codes are random. Each figure is the median of repeated runs in a separate process, on "
        "one thread in float32."
    )
    for name in read.SHAPES:
        if cells := cells_of(found, name):
            yield from shape_table(name, cells)
    yield from remarks(found)
    yield from plot("read-time", "Time per question by number of documents")
    yield from plot("read-memory", "Memory per question by number of documents")


def shape_table(name: str, cells: dict[tuple[str, int], Result]) -> Iterator[str]:
    """A shape's times by documents."""
    modes = ["dense", "flat", "sources", read.HIERARCHICAL, "routed"]
    sizes = sorted({size for _, size in cells})
    titles = ["dense", "flat", "dense / flat", "flat sources", read.HIERARCHICAL, "routed"]

    def shown(mode: str, size: int) -> str:
        cell = cells.get((mode, size), {})
        return format_seconds(cell["seconds"]) if "seconds" in cell else "skipped" if "skipped" in cell else ""

    rows = []
    for size in sizes:
        row = [shown(mode, size) for mode in modes]
        ratio = ""
        if row[0] not in ("", "skipped") and row[1]:
            ratio = format_ratio(cells["dense", size]["seconds"] / cells["flat", size]["seconds"])
        rows.append([f"{size:,}", *row[:2], ratio, *row[2:]])
    yield from table([f"{TITLES[name]}, N", *titles], rows, words=0)


def remarks(found: dict[str, Result]) -> Iterator[str]:
    """How far dense and flat reads differ, and whether the time of the flat read grows with the bank."""
    cells = [cell for name in read.SHAPES for (mode, _), cell in cells_of(found, name).items() if mode == "dense"]
    text = ""
    if compared := [cell for cell in cells if "difference" in cell]:
        worst = max(compared, key=lambda cell: cell["difference"])
        text = (
            f"The results of dense and flat differ by at most {worst['difference']:.1e} (float32), where the read changes "
            f"the question's vectors by up to {worst['change']:.2g}."
        )
    if once := sum(cell.get("runs") == 1 for cell in cells):
        text += f" {'One dense read' if once == 1 else f'{once} dense reads'} ran only once."
    if grown := {TITLES[name]: found[f"{name} growth"] for name in read.SHAPES if f"{name} growth" in found}:
        (first, *_), ratios = grown.values(), [f"{one['ratio']:.2f} ({title})" for title, one in grown.items()]
        small, large = first["sizes"]
        text += (
            f" A flat read of {large:,} documents takes {' and '.join(ratios)} times as long as one of {small:,}, alternating "
            f"in one process ({first['runs']} runs each; goal: {GOAL_GROWTH})."
        )
    yield text.strip()


def read_plots(found: dict[str, Result], folder: Path) -> None:
    """Plot time and memory over documents."""
    import plots

    series = {"dense": "dense", "flat": "flat", read.HIERARCHICAL: read.HIERARCHICAL, "routed": "routed"}

    def panels(figure: str, least: float) -> dict[str, dict[str, list[tuple[float, float]]]]:
        drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for name in read.SHAPES:
            panel: dict[str, list[tuple[float, float]]] = {}
            cells = cells_of(found, name)
            for (mode, size), cell in cells.items():
                if mode in series and figure in cell:
                    panel.setdefault(series[mode], []).append((size, max(least, cell[figure])))
            if panel:
                drawn[TITLES[name]] = panel
        return drawn

    def with_sources(drawn: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
        for name in read.SHAPES:
            cells = cells_of(found, name)
            both = [
                (size, cell["seconds"] + cells["flat", size]["seconds"])
                for (mode, size), cell in cells.items()
                if mode == "sources" and "seconds" in cells.get(("flat", size), {})
            ]
            if both:
                drawn[TITLES[name]]["flat, with sources"] = [*map(tuple, both)]

    seconds = panels("seconds", 0.0)
    with_sources(seconds)
    plots.by_documents(seconds, "seconds per question", folder, "read-time")
    megabytes = {
        title: {label: [(size, grown / 1e6) for size, grown in points] for label, points in panel.items()}
        for title, panel in panels("grown", MIN_GROWTH).items()
    }
    plots.by_documents(megabytes, "memory growth, MB (less than 1 shown as 1)", folder, "read-memory")
