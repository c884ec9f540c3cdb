"""A training in plots, one a measure, beside those of another if wanted."""

import time
from typing import Final

from mbc_cli.text import plain
from mbc_cli.tui.known import Attached
from mbc_cli.tui.views.measures import FIRST, MEASURES, SECOND, Measure
from mbc_cli.tui.widgets.braille import DOTS_ACROSS
from mbc_cli.tui.widgets.chart import Chart
from mbc_cli.tui.widgets.plots import Plots
from mbc_engine.work.run_history import RunHistory

# Seconds between two drawings. Nobody reads a dozen curves faster.
_EVERY: Final = 1.0
# Cells between two characters of a series, so that a line behind them is seen.
_APART: Final = 4
_MEASURES: Final = {measure.name: measure for measure in MEASURES}


class RunPlots(Plots):
    """Plots of all measures."""

    def __init__(self) -> None:
        super().__init__({measure.name: measure.title for measure in MEASURES}, id="plots")
        self._plotted: tuple[object, ...] = (None,)
        self._next, self._is_waiting = 0.0, False
        self._runs: tuple[Attached | None, Attached | None] = (None, None)

    def show(self, run: Attached | None, other: Attached | None) -> None:
        """Draw the plots in sight; if they were drawn a moment ago, when that is over.

        Args:
            run: the training looked at, if any.
            other: one to draw beside it, if any.
        """
        self._runs = (run, other)
        looked_at = (run and run.folder, other and other.folder, self.in_sight, self.size)
        plotted = (looked_at, run and _so_far(run.history), other and _so_far(other.history))
        if plotted == self._plotted or any(own is not None and own.is_behind for own in (run, other)):
            return
        now = time.monotonic()
        if looked_at == self._plotted[0] and now < self._next:
            if not self._is_waiting:
                self._is_waiting = True
                self.set_timer(self._next - now, self._show_at_last)
            return
        self._plotted, self._next = plotted, now + _EVERY
        for chart in self.in_sight:
            self._draw(chart, _MEASURES[str(chart.id)], run, other)

    def _show_at_last(self) -> None:
        self._is_waiting = False
        self.show(*self._runs)

    def _draw(self, chart: Chart, measure: Measure, run: Attached | None, other: Attached | None) -> None:
        if run is None:
            chart.show([])
            return
        curves = measure.curves(run.history, FIRST, self.columns_each * DOTS_ACROSS)
        notes = [self.place if chart is self.in_sight[-1] else ""]
        if other is not None:
            curves = [*measure.curves(other.history, SECOND, self.columns_each // _APART), *curves]
            notes.insert(0, f"{plain(other.folder.name)} {measure.value(other.history, SECOND)}")
        history = run.history
        chart.show(
            curves,
            " · ".join(filter(None, notes)),
            value=measure.value(history, FIRST),
            lowest=measure.lowest,
            lines=[history.quantised.step] if history.quantised else [],
            pointers=[reset.step for reset in history.resets] if measure.of_codes else [],
        )


def _so_far(history: RunHistory) -> tuple[object, ...]:
    """What tells whether a history has grown."""
    return id(history), history.latest, len(history.validations), len(history.resets), history.quantised
