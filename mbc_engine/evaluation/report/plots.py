"""Plots as SVG, whose colours and fonts the page's style sheet gives: lines, and means with their intervals.

The plots of a cell.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final

from mbc_engine.evaluation.report.report import Cell, Row
from mbc_engine.evaluation.report.tables import in_html, seconds, size
from mbc_engine.evaluation.results import CodeUsage, Figure, QuestionScores, RetentionStep, ScalingStep

_WIDTH: Final = 400
_LINE_HEIGHT: Final = 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 22, 12, 34
_ROW_HEIGHT: Final = 25
_MOST_TICKS: Final = 8

Text = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """A line of a plot; `style` is the number of its colour, dashes and marks, negative for a control's grey."""

    name: str
    style: int
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """What an axis measures, and how its figures read. A linear one starts at 0."""

    label: str
    text: Text
    is_log: bool = False


@dataclass(frozen=True)
class Bar:
    """A mean and its interval."""

    name: str
    style: int
    figure: Figure


def element(name: str, *children: str, **attributes: object) -> str:
    """An element with children that are markup already; `class_` and `font_size` stand for `class` and `font-size`."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{in_html(str(value))}"' for key, value in attributes.items())
    return f"<{name}{told}>{''.join(children)}</{name}>"


def lines(label: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Lines through the points of each series. What cannot stand on a logarithmic axis is left out."""
    series = [Series(one.name, one.style, _that_fit(one.points, x, y)) for one in series]
    points = [point for one in series for point in one.points]
    if not points:
        return ""
    across = _Scale(x, [point[0] for point in points], _LEFT, _WIDTH - _RIGHT, at_values=True)
    up = _Scale(y, [point[1] for point in points], _LINE_HEIGHT - _BOTTOM, _TOP)
    return element(
        "svg",
        element("title", in_html(label)),
        *_grid(across, up),
        *(mark for one in series for mark in _line(one, across, up)),
        viewBox=f"0 0 {_WIDTH} {_LINE_HEIGHT}",
        role="img",
        aria_label=label,
    )


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Means as dots with their intervals as whiskers, one under the other, from 0 percent on."""
    if not rows:
        return ""
    bottom = _TOP + _ROW_HEIGHT * len(rows)
    left = 150
    across = _Scale(Axis("", _number), [0, *(bar.figure.high for bar in rows)], left, _WIDTH - 40)
    parts = [element("title", in_html(label))]
    for value in across.ticks:
        place = _round(across.place(value))
        parts.append(element("line", class_="grid", x1=place, x2=place, y1=_TOP, y2=bottom))
        parts.append(_text(across.axis.text(value), place, bottom + 16, "middle"))
    for number, bar in enumerate(rows):
        height = _TOP + _ROW_HEIGHT * (number + 0.5)
        low, mean, high = (_round(across.place(value)) for value in (bar.figure.low, bar.figure.value, bar.figure.high))
        told = f"{bar.name}: {bar.figure.value:.1f} ({bar.figure.low:.1f} to {bar.figure.high:.1f})"
        parts.append(
            element(
                "g",
                element("title", in_html(told)),
                *_label(bar.name, left - 8, height + 4),
                element("line", class_="bar", x1=_round(across.place(0)), x2=mean, y1=height, y2=height),
                element("line", class_="whisker", x1=low, x2=high, y1=height, y2=height),
                element("circle", cx=mean, cy=height, r=4),
                _text(f"{bar.figure.value:.1f}", max(high, mean) + 8, height + 4, "start"),
                class_=_class(bar.style),
            )
        )
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {bottom + 24}", role="img", aria_label=label)


def swatch(style: int) -> str:
    """A short piece of a series' line, for a legend."""
    return element(
        "svg",
        element("line", x1=1, x2=23, y1=6, y2=6),
        _mark(style, 12, 6),
        class_=f"swatch {_class(style)}",
        viewBox="0 0 24 12",
        aria_hidden="true",
    )


class _Scale:
    """Where values of an axis stand between two places."""

    def __init__(
        self, axis: Axis, values: Sequence[float], start: float, end: float, *, at_values: bool = False
    ) -> None:
        self.axis, self._start, self._end = axis, start, end
        low, high = min(values), max(values)
        if axis.is_log:
            self.ticks = sorted(set(values)) if at_values else _powers(low, high)
            self._low, self._high = math.log(min(self.ticks)), math.log(max(self.ticks))
        else:
            self.ticks = _steps(high)
            if at_values:  # the line ends where the axis does
                self.ticks = [tick for tick in self.ticks if tick <= high] or [0.0]
            self._low, self._high = 0.0, high if at_values else self.ticks[-1]
        while len(self.ticks) > _MOST_TICKS:
            self.ticks = self.ticks[::2]

    def place(self, value: float) -> float:
        value = math.log(value) if self.axis.is_log else value
        share = (value - self._low) / (self._high - self._low) if self._high > self._low else 0.5
        return self._start + share * (self._end - self._start)


def _that_fit(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> list[tuple[float, float]]:
    return [point for point in points if (not x.is_log or point[0] > 0) and (not y.is_log or point[1] > 0)]


def _steps(high: float) -> list[float]:
    """Round values from 0 to the first that is not below `high`, six at most."""
    if high <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high))
    step = next(step * power for step in (0.2, 0.25, 0.5, 1, 2) if high <= 5 * step * power)
    return [number * step for number in range(math.ceil(high / step - 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten around the values."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**exponent for exponent in range(first, max(last, first + 1) + 1)]


def _grid(across: _Scale, up: _Scale) -> Iterator[str]:
    bottom = _LINE_HEIGHT - _BOTTOM
    for value in up.ticks:
        place = _round(up.place(value))
        yield element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=place, y2=place)
        yield _text(up.axis.text(value), _LEFT - 6, place + 4, "end")
    for value in across.ticks:
        place = _round(across.place(value))
        yield element("line", class_="tick", x1=place, x2=place, y1=bottom, y2=bottom + 4)
        yield _text(across.axis.text(value), place, bottom + 16, "middle")
    yield _text(across.axis.label, (_LEFT + _WIDTH - _RIGHT) / 2, _LINE_HEIGHT - 4, "middle")


def _line(series: Series, across: _Scale, up: _Scale) -> Iterator[str]:
    places = [(_round(across.place(x)), _round(up.place(y))) for x, y in series.points]
    has_marks = len(places) <= 2 * _MOST_TICKS
    marks = [
        element(
            "g",
            element("title", in_html(f"{series.name}, {across.axis.text(x)}: {up.axis.text(y)}")),
            _mark(series.style, *place),
        )
        for (x, y), place in zip(series.points, places, strict=True)
        if has_marks
    ]
    path = " ".join(f"{x},{y}" for x, y in places)
    yield element("g", element("polyline", points=path), *marks, class_=_class(series.style))


def _mark(style: int, x: float, y: float) -> str:
    """A circle, square, triangle or diamond: colours alone do not tell ten lines apart."""
    corners = {
        1: ((-3, -3), (3, -3), (3, 3), (-3, 3)),
        2: ((0, -4), (3.8, 3), (-3.8, 3)),
        3: ((0, -4.2), (4.2, 0), (0, 4.2), (-4.2, 0)),
    }.get(style % 4)
    if corners is None:
        return element("circle", cx=x, cy=y, r=3.2)
    return element("polygon", points=" ".join(f"{_round(x + dx)},{_round(y + dy)}" for dx, dy in corners))


def _class(style: int) -> str:
    return f"series s{style}" if style >= 0 else f"series control c{-style}"


def _text(content: str, x: float, y: float, anchor: str) -> str:
    return element("text", in_html(content), x=_round(x), y=_round(y), text_anchor=anchor)


def _label(name: str, x: float, y: float) -> Iterator[str]:
    """A name on one line, or on two."""
    rows = wrap(name, 24, max_lines=2, placeholder="…") or [""]
    for number, row in enumerate(rows):
        yield _text(row, x, y + 11 * (number - (len(rows) - 1) / 2), "end")


def _number(value: float) -> str:
    return f"{value:g}"


def _round(value: float) -> float:
    return round(value, 1)


@dataclass(frozen=True)
class Plot:
    """A drawing and what it shows; `legend` names its lines with their styles."""

    title: str
    drawing: str
    legend: tuple[tuple[str, int], ...] = ()


def styles_of(cell: Cell) -> dict[str, int]:
    """Numbers of line styles by method, the same in all plots of a cell; controls' are negative."""
    methods = [row.method for row in cell.rows if not row.is_control]
    controls = [row.method for row in cell.rows if row.is_control]
    return {name: number for number, name in enumerate(methods)} | {
        name: -number for number, name in enumerate(controls, 1)
    }


def plots_of(cell: Cell) -> Iterator[Plot]:
    """Every plot that the cell has results for."""
    styles = styles_of(cell)
    for title, figure_of in _SCORES:
        rows = [
            Bar(row.title, styles[row.method], figure_of(row.online.scores))
            for row in cell.rows
            if row.online is not None
        ]
        if rows:
            yield Plot(title, bars(f"{title}: {cell.title}", rows))
    for title, axis, value_of in _RETENTION:
        yield from _lines(cell, title, _ALONG, axis, styles, _retention(value_of))
    for title, axis, cost_of in _SCALING:
        yield from _lines(cell, title, _DOCUMENTS, axis, styles, _scaling(cost_of))
    if cell.code_usage is not None:
        yield from _usage(cell.code_usage, cell)


Points = Callable[[Row], list[tuple[float, float]]]


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value < 10_000 else f"{value / 1000:,.0f}k"


def _plain(value: float) -> str:
    return f"{value:g}" if value == round(value, 1) else f"{value:.1f}"


def _bytes(value: float) -> str:
    return size(round(value))


_ALONG = Axis("documents taken in", _whole)
_DOCUMENTS = Axis("documents in memory", _whole, is_log=True)
_PERCENT = Axis("", _plain)
_SIZE = Axis("", _bytes, is_log=True)
_SECONDS = Axis("", seconds, is_log=True)

_SCORES: tuple[tuple[str, Callable[[QuestionScores], Figure]], ...] = (
    ("Exact match, % (95% interval)", lambda scores: scores.exact_match),
    ("F1, % (95% interval)", lambda scores: scores.f1),
)
_RETENTION: tuple[tuple[str, Axis, Callable[[RetentionStep], float | None]], ...] = (
    ("Retention: F1 of the first documents, % of the first step", _PERCENT, lambda step: step.retention),
    ("Retention: F1 of the first documents, %", _PERCENT, lambda step: step.f1),
    ("Memory as the paper counts it", _SIZE, lambda step: step.paper_bytes),
    ("Memory on disk", _SIZE, lambda step: step.on_disk),
)
_SCALING: tuple[tuple[str, Axis, Callable[[ScalingStep], float | None]], ...] = (
    ("Scaling: exact match, %", _PERCENT, lambda step: step.scores.exact_match.value),
    ("Scaling: F1, %", _PERCENT, lambda step: step.scores.f1.value),
    ("Scaling: time to take a document in", _SECONDS, lambda step: step.cost.seconds_per_document),
    ("Scaling: time to answer a question", _SECONDS, lambda step: step.cost.seconds_per_answer),
    ("Scaling: memory on disk", _SIZE, lambda step: step.cost.on_disk),
)


def _retention(value_of: Callable[[RetentionStep], float | None]) -> Points:
    def points(row: Row) -> list[tuple[float, float]]:
        steps = row.retention.steps if row.retention is not None else ()
        return [(step.documents, value) for step in steps if (value := value_of(step)) is not None]

    return points


def _scaling(value_of: Callable[[ScalingStep], float | None]) -> Points:
    def points(row: Row) -> list[tuple[float, float]]:
        steps = row.scaling.steps if row.scaling is not None else ()
        return [(step.cost.documents, value) for step in steps if (value := value_of(step)) is not None]

    return points


def _lines(cell: Cell, title: str, x: Axis, y: Axis, styles: Mapping[str, int], points_of: Points) -> Iterator[Plot]:
    series = [Series(row.title, styles[row.method], points) for row in cell.rows if (points := points_of(row))]
    if drawing := lines(f"{title}: {cell.title}", x, y, series):
        yield Plot(title, drawing, tuple((one.name, one.style) for one in series))


def _usage(usage: CodeUsage, cell: Cell) -> Iterator[Plot]:
    title = f"Perplexity of code usage, of {usage.codes:,} codes"
    series = [
        Series(name, style, list(zip(curve.steps, curve.perplexity, strict=True)))
        for name, style, curve in (
            ("with reset", 0, usage.with_reset),
            ("without reset", 1, usage.without_reset),
        )
    ]
    if drawing := lines(f"{title}: {cell.title}", Axis("steps of training", _whole), _PERCENT, series):
        yield Plot(title, drawing, tuple((one.name, one.style) for one in series))
