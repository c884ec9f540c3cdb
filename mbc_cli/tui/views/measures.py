"""What of a training is plotted, one measure a plot, and how a second run is told from the first."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from mbc_cli.tui.widgets.axis import short
from mbc_cli.tui.widgets.chart import Curve
from mbc_engine.work.run_history import RunHistory


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
            series = history.series(self.field, points)
            curves.append(Curve(series.steps, series.values * self.scale, look.colour, look.series))
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
