"""`python docs/results.py RUN` puts the report of a run of `mbc eval --suite smollm2` into docs/results.md, with figures.

Everything above the marker is written by hand.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from mbc_engine.evaluation.methods import method_kind
from mbc_engine.evaluation.report import CellReport, read_report
from mbc_engine.evaluation.results import ExperimentFolder, Measurement
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.evaluation.tables import write_report

PAGE: Final = Path(__file__).with_suffix(".md")
BEGIN: Final = "<!-- below: python docs/results.py -->\n"
# Only in the run's own report: what the first lines sum up, and repetitions.
LEFT_OUT: Final = re.compile(
    r"^(?:### (?:Time and memory|Paired tests)|## Environment \d+).*?(?=^##|\Z)", re.MULTILINE | re.DOTALL
)


def renew(run: Path, page: Path = PAGE) -> None:
    """Put a run's report, without title, settings and what is `LEFT_OUT`, and its figures below the page's marker."""
    by_hand, marker, _ = page.read_text(encoding="utf-8").partition(BEGIN)
    if not marker:
        raise SystemExit(f"{page} lacks the marker line: {BEGIN.strip()}")
    experiment = ExperimentFolder(run)
    text = write_report(experiment).read_text(encoding="utf-8")
    report = text.partition("\n\n")[2].partition("\n## Settings\n")[0]
    summary, *sections = re.split(r"^(?=## )", report, flags=re.MULTILINE)
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for number, cell in enumerate(read_report(experiment).cells):  # their sections come first
        for title, image in figures(cell):
            name = re.sub("[^a-z0-9]+", "-", f"{cell.name} {title}".lower()).strip("-") + ".svg"
            (folder / name).write_bytes(image)
            sections[number] += f"![{title}]({folder.name}/{name})\n\n"
    report = LEFT_OUT.sub("", "".join((summary, *sections))).strip()
    page.write_text(f"{by_hand}{BEGIN}\n{report}\n", encoding="utf-8")


_COLOURS: Final = ("#1f5fb4", "#c2571a", "#1f8a5b", "#a83279", "#7a6a00", "#6a4fc3", "#0b8793", "#a8433d", "#4d6b2f")
_GREY: Final = "#8b9096"
_MARKERS: Final = "osD^"
_STYLE: Final = {
    "axes.edgecolor": "#dcdedf",
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
Series = tuple[str, dict[str, Any], Sequence[tuple[float, Interval | float]]]  # title, look, points

# By protocol: title, value of a step, and unit; with a unit the axis is logarithmic.
_BY_DOCUMENTS: Final[Mapping[str, Sequence[tuple[str, Callable[[Measurement], Interval | float | None], str]]]] = {
    "retention": (
        ("Retention: F1 of the first documents, % of the first step", lambda step: step.retained, ""),
        ("Retention: F1 of the first documents, %", lambda step: step.scores.f1.value, ""),
        ("Memory as the paper counts it", lambda step: step.cost.paper_bytes, "B"),
        ("Memory on disk", lambda step: step.cost.on_disk, "B"),
    ),
    "scaling": (
        ("Scaling: exact match, % (95% interval)", lambda step: step.scores.exact_match, ""),
        ("Scaling: F1, % (95% interval)", lambda step: step.scores.f1, ""),
        ("Scaling: time to memorise a document", lambda step: step.cost.seconds_per_document, "s"),
        ("Scaling: time to answer a question", lambda step: step.cost.seconds_per_answer, "s"),
        ("Scaling: memory on disk", lambda step: step.cost.on_disk, "B"),
    ),
}
# By title: suffix of a curve's name, and index in the tuples of `Validations`.
_VALIDATIONS: Final = {
    "Validation during training: F1, %": {"": 1},
    "Validation during training: loss, nats": {"": 2, ", wrong bank": 3},
}


def figures(cell: CellReport) -> Iterator[tuple[str, bytes]]:
    looks = _looks(cell)
    for title, measure in (("Exact match, % (95% interval)", "exact_match"), ("F1, % (95% interval)", "f1")):
        measured = [(row, row.online.scores) for row in cell.rows if row.online]
        if rows := [(row.title, looks[row.method]["color"], getattr(scores, measure)) for row, scores in measured]:
            yield title, _bars(rows)
    for protocol, plots in _BY_DOCUMENTS.items():
        for title, value, unit in plots:
            series: list[Series] = []
            for row in cell.rows:
                points = [(step.cost.documents, y) for step in getattr(row, protocol) if (y := value(step)) is not None]
                points = [(x, y) for x, y in points if isinstance(y, Interval) or y > 0 or not unit]
                series.append((row.title, looks[row.method], points))
            yield from _curves(title, series, "documents", unit, is_log=protocol == "scaling")
    for title, indices in _VALIDATIONS.items():
        series = []
        for number, (name, validations) in enumerate(cell.validations.items()):
            for suffix, index in indices.items():
                look = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": "--" if suffix else "-"}
                points = [(one[0], y) for one in validations if (y := one[index]) is not None]
                series.append((f"{name}{suffix}", look, points))
        yield from _curves(title, series, "steps of training")
    if usage := cell.code_usage:
        curves = zip(("with reset", "without reset"), _COLOURS, (usage.with_reset, usage.without_reset), strict=False)
        series = [(name, {"color": colour}, curve) for name, colour, curve in curves]
        yield from _curves(f"Perplexity of code usage, of {usage.codes:,} codes", series, "steps of training")


def _looks(cell: CellReport) -> dict[str, dict[str, Any]]:
    """How each method is drawn: a control in its method's colour, dashed."""
    looks: dict[str, dict[str, Any]] = {}
    for row in sorted(cell.rows, key=lambda row: row.is_control):
        number = sum(look["linestyle"] == ("--" if row.is_control else "-") for look in looks.values())
        look = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": "-"}
        if row.is_control:
            look = {**looks.get(method_kind(row.method).control_of or "", {"color": _GREY}), "linestyle": "--"}
        looks[row.method] = {**look, "marker": _MARKERS[number % len(_MARKERS)], "markersize": 4}
    return looks


def _bars(rows: Sequence[tuple[str, str, Interval]]) -> bytes:
    with _drawing(0.6 + 0.25 * len(rows)) as (figure, axes):
        titles, colours, means = zip(*rows, strict=True)
        values = [mean.value for mean in means]
        # A mean of equal values may lie outside its interval by rounding.
        reach = (
            [max(0.0, mean.value - mean.low) for mean in means],
            [max(0.0, mean.high - mean.value) for mean in means],
        )
        bars = axes.barh(range(len(rows)), values, 0.5, xerr=reach, color=colours, alpha=0.5, ecolor="#5d6268")
        axes.bar_label(bars, fmt="%.1f", padding=4)
        axes.set_yticks(range(len(rows)), titles)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        return _image(figure)


def _curves(
    title: str, series: Sequence[Series], x_label: str, unit: str = "", *, is_log: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Lines through the points of each series, with their intervals if they have any; nothing without points.

    Percentages start at 0; bytes and seconds have a logarithmic axis.
    """
    series = [one for one in series if one[2]]
    if not series:
        return
    with _drawing(2.5) as (figure, axes):
        for name, look, points in series:
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, [y.value if isinstance(y, Interval) else y for y in ys], label=name, **look)
            if spans := [(y.low, y.high) for y in ys if isinstance(y, Interval)]:
                axes.fill_between(xs, *zip(*spans, strict=True), color=look["color"], alpha=0.12, linewidth=0)
        axes.set_xlabel(x_label)
        if is_log:
            ticks = sorted({x for *_, points in series for x, _ in points})
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
            axes.xaxis.set_minor_locator(NullLocator())
        if unit:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
            axes.yaxis.set_major_formatter(EngFormatter(unit))
            axes.yaxis.set_minor_formatter(EngFormatter(unit))
        else:
            axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
        yield title, _image(figure)


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Any, Any]]:
    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(4, height), layout="constrained")
        yield figure, figure.add_subplot()


def _image(figure: Any) -> bytes:
    drawn = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a title with a letter that the font lacks
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
