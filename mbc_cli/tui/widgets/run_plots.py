"""A training in plots, one for each measure, as many as there is room for, beside those of another training if wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from textual import events
from textual.app import ComposeResult
from textual.containers import Grid
from textual.reactive import reactive

from mbc_cli.text import plain
from mbc_cli.tui.state import AttachedRun
from mbc_cli.tui.widgets.chart import DOTS_ACROSS, Chart, PlotCurve, short
from mbc_engine.runs.training_runs import RunHistory

# How a run is drawn: its colour, the marker of each step (None for a line), the markers of validations.
Look = tuple[str, str | None, tuple[str, str]]
FIRST: Final[Look] = ("text-primary", None, ("●", "○"))
SECOND: Final[Look] = ("text-warning", "+", ("◆", "◇"))
_MARKERS_APART: Final = 4  # cells between two markers of a series, so that a line behind them is seen
_MIN_WIDTH, _MIN_HEIGHT = 38, 9  # of a plot
_FRAME_WIDTH: Final = 6  # the border and the numbers
_MIN_PLOTS: Final = 6  # where there is room for fewer, one large plot is better


@dataclass(frozen=True)
class Measure:
    """Something measured in training: a field of `TrainStep`, and fields of `Validated` with their names, in percent.

    The axis includes `lowest`; resets of codes show in measures `of_codes`.
    """

    name: str
    title: str
    field: str | None
    validated: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0
    lowest: float | None = None
    of_codes: bool = False

    def curves(self, history: RunHistory, look: Look, points: int) -> list[PlotCurve]:
        curves, (colour, marker, validation_markers) = [], look
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

    def value(self, history: RunHistory, look: Look) -> str:
        """The last values of a run with the markers they are drawn by; "" before the first."""
        values, (_, marker, validation_markers) = [], look
        if self.field is not None and history.latest is not None:
            latest = getattr(history.latest, self.field)
            if latest is not None:
                values.append(f"{marker or ''} {short(latest * self.scale)}".lstrip())
        if history.validations:
            last = history.validations[-1]
            for (field, name), validation_marker in zip(self.validated, validation_markers, strict=False):
                if (value := getattr(last, field)) is not None:
                    values.append(f"{validation_marker} {name} {value:.1f}")
        return "  ".join(values)


MEASURES: Final = (
    Measure("loss", "Loss", "loss"),
    Measure("answers", "Answers, %", None, (("f1", "F1"), ("exact_match", "EM")), lowest=0),
    Measure("source", "Right source, %", "route_accuracy", (("first_source", "val."),), scale=100, lowest=0),
    Measure("question", "Question loss", "question_loss"),
    Measure("routing", "Routing loss", "route_loss"),
    Measure("reconstruction", "Reconstruction loss", "reconstruction_loss"),
    Measure("quantisation", "Quantisation loss", "vq_loss", of_codes=True),
    Measure("perplexity", "Perplexity of codes", "perplexity", lowest=0, of_codes=True),
    Measure("dead", "Dead codes", "dead_codes", lowest=0, of_codes=True),
    Measure("variance", "Document variance", "document_variance"),
    Measure("rate", "Learning rate", "learning_rate", lowest=0),
    Measure("speed", "Questions a second", "examples_per_second", lowest=0),
)


class RunPlots(Grid, can_focus=True):
    """Plots of all measures in rows. Where they have no room, some are shown, and the others can be turned to.

    `place` says which are visible, as `1-6 of 12`; "" if all are.
    """

    place: reactive[str] = reactive("")

    def __init__(self) -> None:
        super().__init__(id="plots")
        self._charts = {Chart(measure.title, id=measure.name): measure for measure in MEASURES}
        self._first, self._shape = 0, (0, 0)
        self._is_single: bool | None = None  # None until somebody zooms
        self._runs: tuple[AttachedRun | None, AttachedRun | None] = (None, None)
        self._drawn: tuple[object, ...] = (None,)

    def compose(self) -> ComposeResult:
        yield from self._charts

    @property
    def visible_charts(self) -> Sequence[Chart]:
        rows, columns = self._shape
        return [*self._charts][self._first : self._first + rows * columns]

    def show(self, run: AttachedRun | None, other: AttachedRun | None) -> None:
        """Draw a run, if any, and the one it is compared with, if any, in the visible plots."""
        self._runs = (run, other)
        drawn = (run and _progress(run), other and _progress(other), self.visible_charts, self.size)
        if drawn == self._drawn or any(own is not None and own.is_behind for own in (run, other)):
            return
        self._drawn = drawn
        for chart in self.visible_charts:
            self._draw(chart, run, other)

    def turn(self, by: int) -> None:
        page = self._shape[0] * self._shape[1]
        pages = -(-len(self._charts) // page)
        self._first = (self._first // page + by) % pages * page
        self.on_resize()

    def zoom(self, chart: Chart | None = None) -> None:
        """Show one plot alone, the first visible one unless it is given, or as many as there is room for again."""
        if chart is not None:
            self._first = [*self._charts].index(chart)
        self._is_single = self._shape != (1, 1)
        self.on_resize()

    def on_click(self, event: events.Click) -> None:
        if isinstance(event.widget, Chart):
            self.zoom(event.widget)

    def on_resize(self) -> None:
        self._shape = rows, columns = self._fitting()
        page = rows * columns
        self._first = min(self._first // page * page, (len(self._charts) - 1) // page * page)
        self.styles.grid_size_rows, self.styles.grid_size_columns = rows, columns
        visible = self.visible_charts
        for chart in self._charts:
            chart.set_class(chart in visible, "-visible")
        last = f"-{self._first + len(visible)}" if len(visible) > 1 else ""
        is_all = len(visible) == len(self._charts)
        self.place = "" if is_all else f"{self._first + 1}{last} of {len(self._charts)}"
        self.show(*self._runs)

    def _fitting(self) -> tuple[int, int]:
        rows, columns = max(1, self.size.height // _MIN_HEIGHT), max(1, self.size.width // _MIN_WIDTH)
        if rows * columns < _MIN_PLOTS if self._is_single is None else self._is_single:
            return 1, 1
        columns = min(columns, -(-len(self._charts) // rows))
        return min(rows, -(-len(self._charts) // columns)), columns

    def _draw(self, chart: Chart, run: AttachedRun | None, other: AttachedRun | None) -> None:
        if run is None:
            chart.show([])
            return
        measure, history = self._charts[chart], run.history
        width = max(_MIN_WIDTH, self.size.width // max(1, self._shape[1])) - _FRAME_WIDTH
        curves = measure.curves(history, FIRST, width * DOTS_ACROSS)
        notes = [self.place if chart is self.visible_charts[-1] else ""]
        if other is not None:
            curves = [*measure.curves(other.history, SECOND, width // _MARKERS_APART), *curves]
            notes.insert(0, f"{plain(other.folder.name)} {measure.value(other.history, SECOND)}")
        chart.show(
            curves,
            " · ".join(filter(None, notes)),
            value=measure.value(history, FIRST),
            lowest=measure.lowest,
            lines=[history.quantised.step] if history.quantised else [],
            pointers=history.resets if measure.of_codes else [],
        )


def _progress(run: AttachedRun) -> tuple[object, ...]:
    history = run.history
    return id(history), history.latest, len(history.validations), len(history.resets), history.quantised
