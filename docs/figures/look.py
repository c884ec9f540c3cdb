"""The style of the figures: a light page of their own, which also suits a dark scheme, and text kept as text."""

import io
import re
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("agg")  # draws without a screen
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

INK, FAINT, PAGE = "#20262c", "#8a939b", "#fbfbf9"
BLUE, ORANGE, RED = "#0178d4", "#d9822b", "#b2182b"
# From the page colour to blue, for amounts.
AMOUNTS: Final = mpl.colors.LinearSegmentedColormap.from_list("amounts", [PAGE, "#9fcbee", BLUE, "#00345a"])

STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mbc",  # the same figures give the same bytes
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # of nearly the same width
    "font.monospace": ["DejaVu Sans Mono", "Menlo"],
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.facecolor": PAGE,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.facecolor": PAGE,
    "xtick.color": INK,
    "ytick.color": INK,
}


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, with coordinates to a hundredth of a point."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    plt.close(figure)
    short = re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), drawn.getvalue())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(re.sub(r"^ +|<!--.*?-->\n?| +$", "", short, flags=re.MULTILINE), encoding="utf-8")
