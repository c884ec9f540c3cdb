"""Plots, drawn by plotext only when they have changed: of a few curves, and of a training run, one per metric."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.text import Text
from textual.app import ComposeResult
from textual.color import Color
from textual.containers import VerticalScroll
from textual.content import Content
from textual_plotext import PlotextPlot

from mbc_cli.formatting import sanitise
from mbc_engine.runs.training_runs import FollowedRun, RunHistory

Floats = NDArray[np.float64]
_TICK_COLUMNS, _TICK_ROWS = 8, 2  # cells between two labels of an axis
_MIN_COLUMNS, _MIN_ROWS = 16, 5  # of a plot with axes
# A diverging training run logs numbers too extreme to compute with.
_SMALLEST, _LARGEST = 1e-200, 1e200
# From the first number up, numbers are divided by the second and written with the suffix.
_UNITS: Final = ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k"))
# Below the first and from the second up, they are written in scientific notation.
_POWERS_BELOW, _POWERS_FROM = 1e-3, 1e13


@dataclass(frozen=True)
class PlotCurve:
    """A line through points x, y: [points] each, or a marker at each; `colour` is a theme variable."""

    x: ArrayLike
    y: ArrayLike
    colour: str = "text-primary"
    marker: str | None = None

    def drawable(self) -> tuple[Floats, Floats]:
        """The points whose differences and quotients are finite numbers."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        size = np.abs([x, y])
        is_drawable = ((size == 0) | ((size >= _SMALLEST) & (size <= _LARGEST))).all(0)
        return x[is_drawable], y[is_drawable]


class Chart(PlotextPlot, can_focus=False):
    """Curves over one axis; `empty` is shown while there is nothing to draw."""

    def __init__(self, title: str, empty: str = "nothing yet", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title, self.empty = title, empty
        self.border_title = Content(title)
        self._curves: list[tuple[PlotCurve, Floats, Floats]] = []
        self._lowest: float | None = None
        self._lines, self._pointers = np.zeros(0), np.zeros(0)
        self._drawn: object = None

    def show(
        self,
        curves: Sequence[PlotCurve],
        note: str = "",
        *,
        value: str = "",
        lowest: float | None = None,
        lines: ArrayLike = (),
        pointers: ArrayLike = (),
    ) -> None:
        """Replace the curves, the `note` at the lower edge and the `value` beside the title.

        The vertical axis includes `lowest`. Vertical lines are drawn at `lines`, and marks on the axis at `pointers`.
        """
        self._curves = [(curve, *points) for curve in curves if len((points := curve.drawable())[0])]
        self._lowest, self._lines, self._pointers = lowest, np.asarray(lines, float), np.asarray(pointers, float)
        shapes = [(curve.colour, curve.marker, x.tobytes(), y.tobytes()) for curve, x, y in self._curves]
        drawn = (shapes, self.empty, note, value, lowest, self._lines.tobytes(), self._pointers.tobytes())
        if drawn != self._drawn:
            self._drawn = drawn
            self.border_title = Content.assemble(self._title, "  ", (value, "bold")) if value else Content(self._title)
            self.border_subtitle = Content(note if self._curves else "")
            self.refresh()

    def render(self) -> Text:
        width, height = self.size
        if not self._curves or not width or not height:
            return Text("\n" * (height // 2) + self.empty, "dim", justify="center")
        plot: Any = self.plt
        plot.clear_data()
        plot._set_size(width, height)  # noqa: SLF001  # as PlotextPlot does; plotsize stops at the terminal's size
        plot.canvas_color("default")
        plot.axes_color("default")
        axis = _rgb(self.background_colors[1].blend(self.visual_style.foreground, 0.6))
        plot.ticks_color(axis)
        across = _bounds([x for _, x, _ in self._curves])
        upright = _bounds([y for _, _, y in self._curves], self._lowest)
        plot.xlim(*across)
        plot.ylim(*upright)
        has_axes = width >= _MIN_COLUMNS and height >= _MIN_ROWS
        plot.xaxes(has_axes, False)
        plot.yaxes(has_axes, False)
        across_labels = ticks(*across, max(2, width // _TICK_COLUMNS)) if has_axes else {}
        upright_labels = ticks(*upright, max(2, height // _TICK_ROWS)) if has_axes else {}
        plot.xticks([*across_labels], [*across_labels.values()])
        plot.yticks([*upright_labels], [*upright_labels.values()])
        for at in self._lines.tolist() if has_axes else ():
            if across[0] <= at <= across[1]:
                plot.vline(at, axis)
        # Lines first: they would hide markers.
        for curve, x, y in sorted(self._curves, key=lambda drawn: drawn[0].marker is not None):
            colour = _rgb(Color.parse(self.app.theme_variables[curve.colour]))
            if curve.marker is None:
                plot.plot(x.tolist(), y.tolist(), color=colour, marker="braille")
            else:
                plot.scatter(x.tolist(), y.tolist(), color=colour, marker=curve.marker)
        inside = [at for at in self._pointers.tolist() if across[0] <= at <= across[1]]
        plot.scatter(inside, [upright[0]] * len(inside), color=axis, marker="▴")
        return Text.from_ansi(plot.build())


def _rgb(colour: Color) -> tuple[int, int, int]:
    return colour.r, colour.g, colour.b


def _bounds(values: Sequence[Floats], lowest: float | None = None) -> tuple[float, float]:
    """From `lowest`, or the smallest number, to the largest, with some margin if they are equal."""
    numbers = np.concatenate([*values, [] if lowest is None else [lowest]])
    low, high = float(numbers.min()), float(numbers.max())
    if high - low > 1e-9 * max(abs(low), abs(high)):
        return low, high
    return (low - abs(low) / 2, high + abs(high) / 2) if high else (0.0, 1.0)


def ticks(low: float, high: float, max_ticks: int) -> dict[float, str]:
    """At most `max_ticks` round numbers from `low` to `high` > `low`, with labels of the same unit and decimals."""
    power = math.floor(math.log10((high - low) / max_ticks))
    for index in count():
        factor, exponent = (1, 2, 5)[index % 3], power + index // 3
        step = factor * 10.0**exponent
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < max_ticks:
            break
    values = [number * step for number in range(first, last + 1)]
    largest = max((abs(value) for value in values), default=0.0)
    unit, letter = next(((unit, letter) for threshold, unit, letter in _UNITS if largest >= threshold), (1.0, ""))
    if 0 < largest < _POWERS_BELOW or largest >= _POWERS_FROM:
        power = math.floor(math.log10(largest) + 1e-9)
        unit, letter = 10.0**power, f"e{power}"
    decimals = max(0, round(math.log10(unit)) - exponent)
    return {value: f"{value / unit:,.{decimals}f}{letter}" if value else "0" for value in values}


def format_number(value: float) -> str:
    """A number in at most seven characters: 12.3k, 0.512, 2e-5, nan, inf."""
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= _POWERS_FROM or 0 < size < _POWERS_BELOW:
        digits, exponent = f"{value:.1e}".split("e")
        return f"{float(digits):g}e{int(exponent)}"
    for threshold, unit, letter in _UNITS:
        if size >= threshold:
            return f"{value / unit:.4g}{letter}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"


_INTERVAL: Final = 1.0  # seconds between two drawings of a growing run: a plot takes some 10 ms
_MARKER_SPACING: Final = 4  # cells between two markers of a series, so that a line behind them shows
_MIN_WIDTH, _MIN_HEIGHT = 38, 9  # of a plot
_FRAME_WIDTH: Final = 6  # the border and the numbers


@dataclass(frozen=True)
class RunStyle:
    """How a run is drawn: the marker of each step (None for a line), and those of two series of validations."""

    colour: str
    marker: str | None
    validation_markers: tuple[str, str]


SHOWN: Final = RunStyle("text-primary", None, ("●", "○"))
COMPARED: Final = RunStyle("text-warning", "+", ("◆", "◇"))


@dataclass(frozen=True)
class Metric:
    """A training metric: a field of `TrainStep`, and fields of `Validated` with their names, in percent.

    The axis includes `lowest`; code resets are shown in metrics `of_codes`.
    """

    name: str
    title: str
    field: str | None
    validated: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0
    lowest: float | None = None
    of_codes: bool = False

    def curves(self, history: RunHistory, style: RunStyle, points: int) -> list[PlotCurve]:
        curves = []
        if self.field is not None:
            steps, values = history.series(self.field, points)
            curves.append(PlotCurve(steps, values * self.scale, style.colour, style.marker))
        validated_at = [validation.step for validation in history.validations]
        for (field, _), marker in zip(self.validated, style.validation_markers, strict=False):
            values = np.array([getattr(validation, field) for validation in history.validations], float)
            if self.field is None and style.marker is None:
                curves.append(PlotCurve(validated_at, values, style.colour))
            curves.append(PlotCurve(validated_at, values, style.colour, marker))
        return curves

    def latest(self, history: RunHistory, style: RunStyle) -> str:
        """The last values of a run with their markers; "" before the first."""
        values = []
        step = getattr(history.latest, self.field, None) if self.field else None
        if step is not None:
            values.append(f"{style.marker or ''} {format_number(step * self.scale)}".lstrip())
        for (field, name), marker in zip(self.validated, style.validation_markers, strict=False):
            value = getattr(history.validations[-1], field) if history.validations else None
            if value is not None:
                values.append(" ".join(filter(None, (marker, name, f"{value:.1f}"))))
        return "  ".join(values)


METRICS: Final = (
    Metric("loss", "Loss", "loss"),
    Metric("answers", "Answers, %", None, (("f1", "F1"), ("exact_match", "EM")), lowest=0),
    Metric("source", "Right source, %", "route_accuracy", (("first_source", ""),), scale=100, lowest=0),
    Metric("question", "Question loss", "question_loss"),
    Metric("routing", "Routing loss", "route_loss"),
    Metric("reconstruction", "Reconstruction loss", "reconstruction_loss"),
    Metric("quantisation", "Quantisation loss", "vq_loss", of_codes=True),
    Metric("perplexity", "Code perplexity", "perplexity", lowest=0, of_codes=True),
    Metric("dead", "Dead codes", "dead_codes", lowest=0, of_codes=True),
    Metric("variance", "Document variance", "document_variance"),
    Metric("rate", "Learning rate", "learning_rate", lowest=0),
    Metric("speed", "Questions per second", "examples_per_second", lowest=0),
)


class RunPlots(VerticalScroll):
    """Plots of all metrics in rows."""

    def __init__(self) -> None:
        super().__init__(id="plots")
        self._charts = [(metric, Chart(metric.title, id=metric.name)) for metric in METRICS]
        self._runs: tuple[FollowedRun | None, FollowedRun | None] = (None, None)
        self._drawn: object = None
        self._is_waiting = False  # until the plots are drawn again

    def compose(self) -> ComposeResult:
        yield from (chart for _, chart in self._charts)

    def show(self, run: FollowedRun | None, other: FollowedRun | None) -> None:
        """Show a run, beside another one if given; while a log is still being read, the plots stay as they are."""
        is_growing = (run, other) == self._runs
        self._runs = (run, other)
        if any(shown is not None and shown.is_behind for shown in self._runs):
            return
        drawn = (run and _progress(run), other and _progress(other))
        if drawn == self._drawn or (is_growing and self._is_waiting):
            return
        self._drawn = drawn
        for metric, chart in self._charts:
            _draw(chart, metric, run, other)
        self._is_waiting = True
        self.set_timer(_INTERVAL, self._show_later)

    def _show_later(self) -> None:
        self._is_waiting = False
        self.show(*self._runs)

    def turn(self, by: int) -> None:
        self.scroll_relative(y=by * self.size.height, animate=False)

    def on_resize(self) -> None:
        columns = max(1, self.size.width // _MIN_WIDTH)
        rows = -(-len(self._charts) // columns)
        self.styles.grid_size_columns = columns
        self.styles.grid_rows = str(max(_MIN_HEIGHT, self.size.height // rows))
        self._drawn = None
        self.call_after_refresh(self._show_later)


def _draw(chart: Chart, metric: Metric, run: FollowedRun | None, other: FollowedRun | None) -> None:
    if run is None:
        chart.show([])
        return
    history, width = run.history, max(_MIN_WIDTH, chart.size.width) - _FRAME_WIDTH
    curves, note = metric.curves(history, SHOWN, width), ""
    if other is not None:
        curves = [*metric.curves(other.history, COMPARED, width // _MARKER_SPACING), *curves]
        note = f"{sanitise(other.folder.name)} {metric.latest(other.history, COMPARED)}"
    chart.show(
        curves,
        note,
        value=metric.latest(history, SHOWN),
        lowest=metric.lowest,
        lines=[history.quantised.step] if history.quantised else [],
        pointers=history.resets if metric.of_codes else [],
    )


def _progress(run: FollowedRun) -> tuple[object, ...]:
    history = run.history
    return id(history), history.latest, len(history.validations), len(history.resets), history.quantised
