"""A report as files: one self-contained HTML page, Markdown and JSON.

The templates are page.html and page.md; figures are drawn by matplotlib if it is installed.
"""

import hashlib
import importlib.util
import json
import re
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.results import ExperimentFolder, Measurement, Prediction, by_question
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.experiments.registry import METHODS
from mbc_engine.experiments.report import CellReport, Report, read_report, visible
from mbc_engine.experiments.tables import NOTHING_TO_BEAT, OUTCOMES, provenance, tables_of
from mbc_engine.machine import installing

_MARKDOWN: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
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


def write_report(folder: ExperimentFolder) -> Path:
    """Write the report on an experiment's results so far into its folder, in three formats; returns the page's path."""
    report, results = read_report(folder)
    predictions = {
        cell: {name: done.predictions for name, done in own.items() if done.predictions}
        for cell, own in results.items()
    }
    has_figures = importlib.util.find_spec("matplotlib") is not None
    figures = {cell.name: [*_named_figures(cell)] for cell in report.cells} if has_figures else None
    written = {folder.figures / name: image for own in (figures or {}).values() for _, name, image in own}
    if written:
        folder.figures.mkdir(exist_ok=True)
    written[folder.report_json] = (json.dumps(asdict(report), indent=2, allow_nan=False) + "\n").encode()
    written[folder.report_markdown] = markdown(report, figures or {}).encode()
    written[folder.report_html] = page(report, predictions, figures).encode()
    for path, content in written.items():
        with atomic_write(path) as file:
            file.write(content)
    return folder.report_html


# By cell name: title, file name and image of each figure.
Figures = Mapping[str, Sequence[tuple[str, str, bytes]]]


def page(
    report: Report, predictions: Mapping[str, Mapping[str, Sequence[Prediction]]], figures: Figures | None = None
) -> str:
    """The HTML page, in which each cell's predictions can be browsed by method."""
    cells = []
    for cell in report.cells:
        drawn = (figures or {}).get(cell.name, ())
        images = [(title, f"data:image/svg+xml;base64,{b64encode(image).decode()}") for title, _, image in drawn]
        cells.append((cell, tables_of(cell), images))
    return _rendered(
        "page.html",
        report,
        cells,
        questions=[
            (cell.title, in_script(_questions(cell, own)))
            for cell in report.cells
            if (own := predictions.get(cell.name))
        ],
        has_figures=figures is not None,
        no_figures=f"Figures need matplotlib: {installing('report')}",
    )


def markdown(report: Report, figures: Figures) -> str:
    """The report without the questions; its figures are files in the folder `figures` next to it."""
    cells = [(cell, tables_of(cell), figures.get(cell.name, ())) for cell in report.cells]
    return _rendered("page.md", report, cells).rstrip() + "\n"


def _rendered(name: str, report: Report, cells: Sequence[tuple[Any, ...]], **values: Any) -> str:
    from jinja2 import Environment
    from markupsafe import Markup

    def displayed(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    environment = Environment(autoescape=True, finalize=displayed)
    environment.filters |= {"moment": moment, "text": lambda value: Markup(in_markdown(value))}  # noqa: S704
    source = files(__package__).joinpath(name).read_text("utf-8")
    values |= {"report": report, "cells": cells, "provenance": list(provenance(report.origin)), "outcomes": OUTCOMES}
    values |= {f"{own}_hash": _hash(source, own) for own in ("style", "script")}
    return environment.from_string(source).render(nothing_to_beat=NOTHING_TO_BEAT, **values)


def moment(date: str) -> str:
    """An ISO 8601 date in readable form: `2026-02-03 14:05:06 UTC`."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def in_markdown(text: str) -> str:
    """Text escaped for a Markdown table cell or paragraph."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def in_script(value: Any) -> str:
    """A value as JSON that is safe in a script element: ASCII, with HTML's special characters escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)


def _hash(template: str, element: str) -> str | None:
    found = re.search(f"<{element}>(.*?)</{element}>", template, re.DOTALL)
    return found and f"sha256-{b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}"


def _questions(cell: CellReport, predictions: Mapping[str, Sequence[Prediction]]) -> dict[str, Any]:
    asked = {method: by_question(answered) for method, answered in predictions.items()}
    questions = {key: one for answered in asked.values() for key, one in answered.items()}
    methods = []
    for row in cell.rows:
        if answered := asked.get(row.method):
            answers = [answered.get(key) for key in questions]
            methods.append(
                {
                    "title": visible(row.title),
                    "namesSources": row.online is not None and row.online.scores.first_source is not None,
                    "answers": [one and visible(one.answer) for one in answers],
                    "right": [one and int(one.exact_match) for one in answers],
                    "f1": [one and round(one.f1, 3) for one in answers],
                    "rank": [one and one.rank for one in answers],
                }
            )
    return {
        "questions": [
            [visible(one.id), one.document, visible(one.question), [visible(answer) for answer in one.answers]]
            for one in questions.values()
        ],
        "methods": methods,
    }


# Of each figure, by the suffix of a curve's name, the curve's index in the tuples of `Validations`.
_VALIDATIONS: Final[Mapping[str, Mapping[str, int]]] = {
    "Validation during training: F1, %": {"": 1},
    "Validation during training: loss, nats": {"": 2, ", wrong bank": 3},
}
Series = tuple[str, dict[str, Any], Sequence[tuple[float, Interval | float]]]

# Title, value of a step, and unit; with a unit the axis is logarithmic.
_FIGURES: Final[Mapping[str, Sequence[tuple[str, Callable[[Measurement], Interval | float | None], str]]]] = {
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


def _named_figures(cell: CellReport) -> Iterator[tuple[str, str, bytes]]:
    for title, image in _figures(cell):
        name = re.sub("[^a-z0-9]+", "-", f"{cell.name} {title}".lower()).strip("-")
        yield title, f"{name}.svg", image


def _figures(cell: CellReport) -> Iterator[tuple[str, bytes]]:
    looks = _looks(cell)
    measured = [(row.title, looks[row.method]["color"], row.online.scores) for row in cell.rows if row.online]
    if measured:
        bars = [(title, colour, scores.exact_match) for title, colour, scores in measured]
        yield "Exact match, % (95% interval)", _bars(bars)
        yield "F1, % (95% interval)", _bars([(title, colour, scores.f1) for title, colour, scores in measured])
    for protocol, figures in _FIGURES.items():
        for title, value, unit in figures:
            series: list[Series] = []
            for row in cell.rows:
                points = [(step.cost.documents, y) for step in getattr(row, protocol) if (y := value(step)) is not None]
                points = [(x, y) for x, y in points if isinstance(y, Interval) or y > 0 or not unit]
                series += [(row.title, looks[row.method], points)] if points else []
            if series:
                yield title, _lines(series, "documents", unit, is_log=protocol == "scaling")
    yield from _validation_figures(cell)
    if usage := cell.code_usage:
        curves = (("with reset", _COLOURS[0], usage.with_reset), ("without reset", _COLOURS[1], usage.without_reset))
        series = [(title, {"color": colour}, points) for title, colour, points in curves if points]
        yield f"Perplexity of code usage, of {usage.codes:,} codes", _lines(series, "steps of training", "")


def _validation_figures(cell: CellReport) -> Iterator[tuple[str, bytes]]:
    for title, places in _VALIDATIONS.items():
        series: list[Series] = []
        for number, (name, curve) in enumerate(cell.validations.items()):
            for bank, place in places.items():
                look = {"color": _COLOURS[number % len(_COLOURS)], "linestyle": "--" if bank else "-"}
                points = [(own[0], y) for own in curve if (y := own[place]) is not None]
                series += [(f"{name}{bank}", look, points)] if points else []
        if series:
            yield title, _lines(series, "steps of training", "")


def _looks(cell: CellReport) -> dict[str, dict[str, Any]]:
    """How each method is drawn: a control in its method's colour, dashed."""
    looks: dict[str, dict[str, Any]] = {}
    for is_control in (False, True):
        methods = [row.method for row in cell.rows if row.is_control == is_control]
        for number, name in enumerate(methods):
            own = {"color": _COLOURS[number % len(_COLOURS)]}
            if is_control:
                method = looks.get(METHODS[name].control_of or "") if name in METHODS else None
                own = {"color": method["color"] if method else _GREY, "linestyle": "--"}
            looks[name] = {**own, "marker": _MARKERS[number % 4], "markersize": 4}
    return looks


def _bars(rows: Sequence[tuple[str, str, Interval]]) -> bytes:
    with _drawing(0.6 + 0.25 * len(rows)) as (figure, axes):
        titles, colours, found = zip(*rows, strict=True)
        values = [own.value for own in found]
        # A mean of equal values may lie outside its interval by rounding.
        reach = [max(0.0, own.value - own.low) for own in found], [max(0.0, own.high - own.value) for own in found]
        bars = axes.barh(range(len(rows)), values, 0.5, xerr=reach, color=colours, alpha=0.5, ecolor="#5d6268")
        axes.bar_label(bars, fmt="%.1f", padding=4)
        axes.set_yticks(range(len(rows)), titles)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        return _image(figure)


def _lines(series: Sequence[Series], x_label: str, unit: str, *, is_log: bool = False) -> bytes:
    """Lines through the points of each series, with their intervals if they have any. Percentages start at 0; bytes and
    seconds have a logarithmic axis."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    with _drawing(2.5) as (figure, axes):
        for title, look, points in series:
            places, found = [x for x, _ in points], [y for _, y in points]
            axes.plot(places, [y.value if isinstance(y, Interval) else y for y in found], label=title, **look)
            if spans := [(y.low, y.high) for y in found if isinstance(y, Interval)]:
                axes.fill_between(places, *zip(*spans, strict=True), color=look["color"], alpha=0.12, linewidth=0)
        axes.set_xlabel(x_label)
        if is_log:
            places = sorted({x for *_, points in series for x, _ in points})
            axes.set_xscale("log")
            axes.set_xticks(places, [f"{place:,.0f}" for place in places])
            axes.xaxis.set_minor_locator(NullLocator())
        if unit:
            axes.set_yscale("log")
            axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
            axes.yaxis.set_major_formatter(EngFormatter(unit))
            axes.yaxis.set_minor_formatter(EngFormatter(unit))
        else:
            axes.set_ylim(bottom=0)
        figure.legend(loc="outside lower center", ncols=2)
        return _image(figure)


@contextmanager
def _drawing(height: float) -> Iterator[tuple[Any, Any]]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(4, height), layout="constrained")
        yield figure, figure.add_subplot()


def _image(figure: Any) -> bytes:
    drawn = BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a title with a letter that the font lacks
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return drawn.getvalue()
