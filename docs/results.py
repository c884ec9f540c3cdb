"""`python docs/results.py RUN` renews docs/results.md from a run of `mbc eval --suite smollm2`.

Between the page's markers is the paper's Table 1 beside ours; all else there is written by hand. Four plots are drawn:
F1 by documents in a memory, F1 by bytes of a document, retention, and the perplexity of code usage.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mbc_engine.evaluation.methods import METHODS, controls_of, published
from mbc_engine.evaluation.report import NOTHING, CellReport, read_report
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.statistics import Interval

PAGE: Final = Path(__file__).with_suffix(".md")
TABLE: Final = "<!-- python docs/results.py: table 1 -->\n"
TEXT: Final = ("bm25", "oracle")


def renew(run: Path, page: Path = PAGE) -> None:
    """Put a run's table between the page's markers, and its plots beside the page."""
    before, *inner = page.read_text(encoding="utf-8").split(TABLE)
    if len(inner) != 2:
        raise SystemExit(f"{page} lacks two marker lines: {TABLE}")
    cells = read_report(ExperimentFolder(run)).cells
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, image in figures(cells):
        (folder / f"{name}.svg").write_bytes(image)
    table = "\n".join(beside_the_paper(cells[0]))
    page.write_text(f"{before}{TABLE}\n{table}\n\n{TABLE}{inner[1]}", encoding="utf-8")


def beside_the_paper(cell: CellReport) -> Iterator[str]:
    """The paper's Table 1 on SQuAD, and a cell's EM and F1, all in percent."""
    paper = published()["answers"]
    yield f"| EM / F1, % | {' | '.join(paper)} | {cell.base.partition(',')[0]} |"
    yield "|---|" + "---:|" * (len(paper) + 1)
    for name in METHODS:
        row = cell.row(name)
        if row is not None and row.online is not None and (not row.is_control or name.endswith("-wrong")):
            theirs = (base["squad"].get(name) for base in paper.values())
            shown = (NOTHING if pair is None else f"{pair[0]:.2f} / {pair[1]:.2f}" for pair in theirs)
            f1 = row.online.scores.f1
            ours = f"{row.online.scores.exact_match.value:.1f} / {f1.value:.1f} ({f1.low:.1f} to {f1.high:.1f})"
            yield f"| {row.title} | {' | '.join(shown)} | {ours} |"


_COLOURS: Final = ("#1f5fb4", "#c2571a", "#1f8a5b", "#a83279", "#7a6a00", "#6a4fc3")
_STYLE: Final[Mapping[str, Any]] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "#fcfcfb",
    "font.size": 8,
    "grid.color": "#dcdedf",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mbc",
    "text.parse_math": False,
}
# Title, points, and whether it is a control.
Curve = tuple[str, Sequence[tuple[float, Interval | float]], bool]


def figures(cells: Sequence[CellReport]) -> Iterator[tuple[str, bytes]]:
    first = cells[0]
    curves: list[Curve] = []
    for name in ("mbc", "mbc-wrong", "mac", "mac-wrong"):
        if row := first.row(name):
            points = [(one.cost.documents, one.scores.f1) for one in row.scaling]
            curves.append((row.title, points, row.is_control))
    yield "f1-by-documents", _drawn("documents in a memory", "F1, %", curves, is_log=True)
    yield "f1-by-bytes", _drawn("bytes of a document", "F1 among 402, %", _by_bytes(cells), is_log=True)
    kept = [(row, [(one.cost.documents, one.scores.f1) for one in row.retention]) for row in first.rows]
    curves = [(row.title, points, False) for row, points in kept if points]
    documents = [x for x, _ in curves[0][1]]
    for title, level in (("Closed book", first.rows[0].alone), ("MBC, wrong bank", first.rows[0].wrong)):
        curves += [(title, [(x, level) for x in documents], True)] if level else []
    yield "retention", _drawn("documents memorised", "F1 of the first 100, %", curves)
    usage = next(cell.code_usage for cell in cells if cell.code_usage)
    curves = [("with reset", usage.with_reset, False), ("without reset", usage.without_reset, False)]
    yield "perplexity", _drawn("steps of training", f"perplexity, of {usage.codes}", curves)


def _by_bytes(cells: Sequence[CellReport]) -> Iterator[Curve]:
    """Each memory's F1 over its bytes a document, without the codebook; its control on the same spot."""
    for cell in cells:
        settings = ", ".join(cell.base.split(", ")[1:2])
        for row in cell.rows:
            if row.online and not row.is_control and row.method not in TEXT and row.online.cost.paper_bytes:
                wrong = cell.row(next((name for name in controls_of(row.method) if "-wrong" in name), None))
                at = row.online.cost.on_disk / row.online.cost.documents
                yield f"{row.title}, {settings}", [(at, row.online.scores.f1)], False
                if wrong is not None and wrong.online is not None:
                    yield "", [(at, wrong.online.scores.f1)], True
        for reading in (cell.row(name) for name in TEXT):
            if reading is not None and reading.online and reading.online.cost.text:
                at = reading.online.cost.text / reading.online.cost.documents
                yield f"{reading.title}: its text", [(at, reading.online.scores.f1)], False


def _drawn(x: str, y: str, curves: Sequence[Curve] | Iterator[Curve], *, is_log: bool = False) -> bytes:
    """Curves with their intervals; a control is dashed, in the colour of the curve before it."""
    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(5.5, 3.4), layout="constrained")
        axes, number = figure.add_subplot(), 0
        for title, points, is_control in curves:
            xs, values = zip(*points, strict=True)
            ys = [value.value if isinstance(value, Interval) else value for value in values]
            number += not is_control
            look: dict[str, Any] = {"color": _COLOURS[number % len(_COLOURS)], "marker": "x" if is_control else "o"}
            look |= {"linestyle": "--" if is_control else "-", "markersize": 3 if len(xs) < 50 else 0}
            axes.plot(xs, ys, label=title or None, **look)
            spans = [(value.low, value.high) for value in values if isinstance(value, Interval)]
            if spans and len(xs) == 1:
                axes.vlines(xs, *zip(*spans, strict=True), color=look["color"], alpha=0.5)
            elif spans:
                axes.fill_between(xs, *zip(*spans, strict=True), color=look["color"], alpha=0.08, linewidth=0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.set_ylim(bottom=0)
        if is_log:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        figure.legend(loc="outside lower center", ncols=3, fontsize=6)
        drawn = BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        return drawn.getvalue()


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
