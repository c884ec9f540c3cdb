"""Plots of a training run, one per metric, as many as fit, optionally compared with another run."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from textual.app import ComposeResult
from textual.containers import VerticalScroll

from mbc_cli.text import sanitise
from mbc_cli.tui.state import AttachedRun
from mbc_cli.tui.widgets.chart import DOTS_ACROSS, Chart, PlotCurve, format_number
from mbc_engine.runs.training_runs import RunHistory

# How a run is drawn: its colour, the marker of each step (None for a line), the markers of validations.
PlotStyle = tuple[str, str | None, tuple[str, str]]
RUN_STYLE: Final[PlotStyle] = ("text-primary", None, ("●", "○"))
COMPARED_STYLE: Final[PlotStyle] = ("text-warning", "+", ("◆", "◇"))
_MARKERS_APART: Final = 4  # cells between two markers of a series, so that a line behind them shows
_MIN_WIDTH, _MIN_HEIGHT = 38, 9  # of a plot
_FRAME_WIDTH: Final = 6  # the border and the numbers


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

    def curves(self, history: RunHistory, style: PlotStyle, points: int) -> list[PlotCurve]:
        curves, (colour, marker, validation_markers) = [], style
        if self.field is not None:
            at, values = history.series(self.field, points)
            curves.append(PlotCurve(at, values * self.scale, colour, marker))
        steps = [own.step for own in history.validations]
        for (field, _), validation_marker in zip(self.validated, validation_markers, strict=False):
            values = np.array([getattr(own, field) for own in history.validations], float)
            if self.field is None and marker is None:
                curves.append(PlotCurve(steps, values, colour))
            curves.append(PlotCurve(steps, values, colour, validation_marker))
        return curves

    def value(self, history: RunHistory, style: PlotStyle) -> str:
        """The last values of a run with their markers; "" before the first."""
        values, (_, marker, validation_markers) = [], style
        if self.field is not None and history.latest is not None:
            latest = getattr(history.latest, self.field)
            if latest is not None:
                values.append(f"{marker or ''} {format_number(latest * self.scale)}".lstrip())
        if history.validations:
            last = history.validations[-1]
            for (field, name), validation_marker in zip(self.validated, validation_markers, strict=False):
                if (value := getattr(last, field)) is not None:
                    values.append(f"{validation_marker} {name} {value:.1f}".replace("  ", " "))
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
        self._charts = {Chart(metric.title, id=metric.name): metric for metric in METRICS}
        self._runs: tuple[AttachedRun | None, AttachedRun | None] = (None, None)
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        yield from self._charts

    def show(self, run: AttachedRun | None, other: AttachedRun | None) -> None:
        self._runs = (run, other)
        if any(own is not None and own.is_behind for own in (run, other)):
            return
        drawn = (run and _progress(run), other and _progress(other), [chart.size for chart in self._charts])
        if drawn != self._drawn:
            self._drawn = drawn
            for chart in self._charts:
                self._draw(chart, run, other)

    def turn(self, by: int) -> None:
        self.scroll_relative(y=by * self.size.height, animate=False)

    def on_resize(self) -> None:
        columns = max(1, self.size.width // _MIN_WIDTH)
        rows = -(-len(self._charts) // columns)
        self.styles.grid_size_columns = columns
        self.styles.grid_rows = str(max(_MIN_HEIGHT, self.size.height // rows))
        self.call_after_refresh(lambda: self.show(*self._runs))

    def _draw(self, chart: Chart, run: AttachedRun | None, other: AttachedRun | None) -> None:
        if run is None:
            chart.show([])
            return
        metric, history = self._charts[chart], run.history
        width = max(_MIN_WIDTH, chart.size.width) - _FRAME_WIDTH
        curves, note = metric.curves(history, RUN_STYLE, width * DOTS_ACROSS), ""
        if other is not None:
            curves = [*metric.curves(other.history, COMPARED_STYLE, width // _MARKERS_APART), *curves]
            note = f"{sanitise(other.folder.name)} {metric.value(other.history, COMPARED_STYLE)}"
        chart.show(
            curves,
            note,
            value=metric.value(history, RUN_STYLE),
            lowest=metric.lowest,
            lines=[history.quantised.step] if history.quantised else [],
            pointers=history.resets if metric.of_codes else [],
        )


def _progress(run: AttachedRun) -> tuple[object, ...]:
    history = run.history
    return id(history), history.latest, len(history.validations), len(history.resets), history.quantised
