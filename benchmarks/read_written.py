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
        "One question, already encoded, is read against a bank of N documents of one chunk each. *Dense* is what the "
        "released code does: it looks up the vectors of all codes and, in each of the aggregator's four blocks, "
        "normalises them, projects them to keys and values, and attends to them. *Flat* gives the same result: each code "
        "is one row weighted by its count in the bank, with keys and values computed once per model. *Flat sources* is "
        "the additional scan of all codes that finds the documents a flat read attended to. *Hierarchical* is the "
        "paper's divide-and-conquer read, whose result differs; its memory grows until N = M² = 65,536. Hierarchical and "
        "*routed* reads find their sources along the way. The aggregator has the paper's shape and random weights; the "
        "codes are random. Each figure is the median of repeated runs in a separate process, on one thread in float32, "
        "with files in the page cache. Memory, in the plot, is the peak growth of the process, without the model and what libraries "
        "allocate on first use."
    )
    for name in read.SHAPES:
        cells = cells_of(found, name)
        if cells:
            yield from render_shape(name, cells, found.get(f"{name} growth"))
    yield from plot("read-time", "Time per question by number of documents")
    yield from plot("read-memory", "Memory per question by number of documents")


def render_shape(name: str, cells: dict[tuple[str, int], Result], grown: Result | None) -> Iterator[str]:
    """A shape's tables, with remarks."""
    yield from ["", f"### {TITLES[name]}"]
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
    yield ""
    yield from table(["N", *titles], rows, words=0)
    yield from render_dense_remarks(cells)
    if grown:
        yield from ["", growth_sentence(grown, cells)]


def render_dense_remarks(cells: dict[tuple[str, int], Result]) -> Iterator[str]:
    """Remarks on the dense reads of a shape."""
    dense = {size: cell for (mode, size), cell in cells.items() if mode == "dense"}
    read_whole = [cell for cell in dense.values() if "difference" in cell]
    if read_whole:
        worst = max(read_whole, key=lambda cell: cell["difference"])
        yield (
            f"The results of dense and flat differ by at most {worst['difference']:.1e} (float32); the read itself changes "
            f"the question's vectors by up to {worst['change']:.2g}."
        )
    for size, cell in dense.items():
        if cell.get("in_slices"):
            yield (
                f"At {size:,} documents, the dense read normalised and projected {read.SLICE:,} rows at a time to fit "
                "in memory: the same computation in less memory than the released code needs."
            )
        if cell.get("runs") == 1:
            yield f"The dense read of {size:,} documents ran only once."
        if "skipped" in cell:
            yield f"The dense read of {size:,} documents was skipped: {cell['skipped']}."


def growth_sentence(grown: Result, cells: dict[tuple[str, int], Result]) -> str:
    """Whether the time of the flat read grows with the bank."""
    small, large = grown["sizes"]
    within = "within" if grown["ratio"] <= GOAL_GROWTH else "**above**"
    text = (
        f"Alternating in one process ({grown['runs']} runs each), a flat read of {large:,} documents took "
        f"{format_seconds(grown['large'])} and one of {small:,} {format_seconds(grown['small'])}: a ratio of "
        f"{grown['ratio']:.2f}, {within} the goal of {GOAL_GROWTH}."
    )
    scan = cells.get(("sources", large))
    if scan:
        text += f" Finding its sources took another {format_seconds(scan['seconds'])}."
    return text


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
