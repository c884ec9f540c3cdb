"""Plots of a training run, one per metric, as many as fit, optionally compared with another run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from mbc_cli.text import sanitise
from mbc_cli.tui.widgets.chart import Chart, PlotCurve, format_number
from mbc_engine.runs.training_runs import FollowedRun, RunHistory

if TYPE_CHECKING:
    from textual.timer import Timer

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
        self._timer: Timer | None = None  # until the plots are drawn again

    def compose(self) -> ComposeResult:
        yield from (chart for _, chart in self._charts)

    def show(self, run: FollowedRun | None, other: FollowedRun | None) -> None:
        """Show a run, beside another one if given; while a log is still being read, the plots stay as they are."""
        is_growing = (run, other) == self._runs
        self._runs = (run, other)
        if any(shown is not None and shown.is_behind for shown in self._runs):
            return
        drawn = (run and _progress(run), other and _progress(other))
        if drawn == self._drawn or (is_growing and self._timer is not None):
            return
        self._drawn = drawn
        for metric, chart in self._charts:
            _draw(chart, metric, run, other)
        self._timer = self.set_timer(_INTERVAL, self._show_later)

    def _show_later(self) -> None:
        self._timer = None
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
