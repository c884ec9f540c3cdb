"""What of a training is plotted, one measure a plot, and how a second run is told from the first.

A training in plots, one a measure, beside those of another if wanted.
"""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np

from mbc_cli.text import plain
from mbc_cli.tui.state import Attached
from mbc_cli.tui.widgets.chart import Chart, Curve, Plots
from mbc_cli.tui.widgets.plot import DOTS_ACROSS, short
from mbc_engine.runs.training_runs import RunHistory


@dataclass(frozen=True)
class Look:
    """How everything of one run is drawn.

    Attributes:
        colour: a variable of the theme.
        series: the character of what is measured in every step; None for a line.
        full, hollow: the characters of what is measured in validations.
    """

    colour: str
    series: str | None
    full: str
    hollow: str


FIRST: Final = Look("text-primary", None, "●", "○")
SECOND: Final = Look("text-warning", "+", "◆", "◇")


@dataclass(frozen=True)
class Measure:
    """Something measured in every step.

    Attributes:
        name: a word for it.
        title: what stands above the plot.
        field: of `TrainStep`; None for what only validations measure.
        validated: fields of `Validated` drawn beside it, in percent.
        scale: what the field is multiplied by.
        lowest: where its axis begins; None to let the values say.
        of_codes: whether resets of codes show in it.
    """

    name: str
    title: str
    field: str | None
    validated: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0
    lowest: float | None = None
    of_codes: bool = False

    def curves(self, history: RunHistory, look: Look, points: int) -> list[Curve]:
        """What is to be drawn of a run, a series as so many points at most."""
        curves = []
        if self.field is not None:
            at, values = history.series(self.field, points)
            curves.append(Curve(at, values * self.scale, look.colour, look.series))
        steps = [own.step for own in history.validations]
        for (field, _), marker in zip(self.validated, (look.full, look.hollow), strict=False):
            values = np.array([getattr(own, field) for own in history.validations], float)
            if self.field is None and look.series is None:
                curves.append(Curve(steps, values, look.colour))
            curves.append(Curve(steps, values, look.colour, marker))
        return curves

    def value(self, history: RunHistory, look: Look) -> str:
        """The last values of a run in words, with the characters they are drawn by; "" before the first."""
        values = []
        if self.field is not None and history.latest is not None:
            latest = getattr(history.latest, self.field)
            if latest is not None:
                values.append(f"{look.series or ''} {short(latest * self.scale)}".lstrip())
        if history.validations:
            last = history.validations[-1]
            for (field, name), marker in zip(self.validated, (look.full, look.hollow), strict=False):
                if (value := getattr(last, field)) is not None:
                    values.append(f"{marker} {name} {value:.1f}")
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
            pointers=history.resets if measure.of_codes else [],
        )


def _so_far(history: RunHistory) -> tuple[object, ...]:
    """What tells whether a history has grown."""
    return id(history), history.latest, len(history.validations), len(history.resets), history.quantised
