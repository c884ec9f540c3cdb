"""The plots of docs/performance.md, each as PNG and SVG, drawn from measured figures. Needs matplotlib.

Called by performance.py; a series has the same colour in all plots.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("agg")  # draws without a screen
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Points = Sequence[tuple[float, float]]
Panel = Mapping[str, Points]  # by the name of the series

COLOURS: Final = {
    "dense": "#b2182b",
    "flat": "#2166ac",
    "flat, with sources": "#67a9cf",
    "hierarchical:256": "#e08214",
    "routed": "#1b7837",
    "with cache": "#2166ac",
    "without cache": "#b2182b",
}
STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "mbc",  # the same figures give the same bytes
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write the figure as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=144, metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def by_documents(panels: Mapping[str, Panel], what: str, folder: Path, name: str) -> None:
    """A figure over the number of documents, on logarithmic axes, with one panel per shape.

    Args:
        panels: series by title.
        what: label of the vertical axis.
        folder, name: of the files.
    """
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            1, len(panels), figsize=(4.6 * len(panels), 3.6), sharey=True, squeeze=False, layout="constrained"
        )
        for axes, (title, panel) in zip(grid[0], panels.items(), strict=True):
            for label in (label for label in COLOURS if label in panel):
                axes.plot(*zip(*sorted(panel[label]), strict=True), marker="o", ms=4, label=label, color=COLOURS[label])
            axes.set(title=title, xlabel="documents in the bank", xscale="log", yscale="log")
            axes.grid(True, alpha=0.3)
        grid[0][0].set_ylabel(what)
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
        save(figure, folder, name)


def bars(panels: Mapping[str, Mapping[str, Mapping[str, float]]], what: str, folder: Path, name: str) -> None:
    """A figure of grouped bars, with one panel per model, each with its own axis.

    Args:
        panels: series by title and group.
        what: label of the vertical axis.
        folder, name: of the files.
    """
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(
            1, len(panels), figsize=(3.2 * len(panels), 3.2), squeeze=False, layout="constrained"
        )
        for axes, (title, groups) in zip(grid[0], panels.items(), strict=True):
            _grouped(axes, groups)
            axes.set_title(title)
        grid[0][0].set_ylabel(what)
        grid[0][0].legend(frameon=False)
        save(figure, folder, name)


def _grouped(axes: Axes, groups: Mapping[str, Mapping[str, float]]) -> None:
    series = list(next(iter(groups.values())))
    width = 0.8 / len(series)
    for number, label in enumerate(series):
        places = [place + (number - (len(series) - 1) / 2) * width for place in range(len(groups))]
        heights = [group[label] for group in groups.values()]
        drawn = axes.bar(places, heights, width, label=label, color=COLOURS[label])
        axes.bar_label(drawn, fmt="{:,.0f}", fontsize=7)
    axes.set_xticks(range(len(groups)), list(groups))
