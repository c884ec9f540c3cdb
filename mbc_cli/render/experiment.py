"""An experiment at work: its stages as lines, the one in progress as bars."""

from functools import singledispatchmethod
from pathlib import Path

from mbc_cli.render.progress import ProgressView
from mbc_cli.text import counted, plain, seconds
from mbc_engine.events import (
    DocumentsAdapted,
    Event,
    ExperimentFinished,
    QuestionsAnswered,
    RateTried,
    StageFinished,
    StageSkipped,
    StageStarted,
    StatesCached,
    TrainStarted,
    TrainStep,
    TuningStep,
    Validated,
)

_ALL = "Stages"
_BARS = ("Reading texts", "Training", "Tuning", "Taking in", "Answering")


class ExperimentView(ProgressView):
    """Follows an experiment by its events.

    Args:
        folder: the experiment's.
        way_on: how to go on with it after a stop.
    """

    def __init__(self, folder: Path, way_on: str) -> None:
        super().__init__()
        self._folder, self._way_on = folder, way_on
        self._total_steps = self._kept = 0
        self._end: ExperimentFinished | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the experiment came to its end."""
        return self._end is not None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: StageStarted) -> None:
        self._tell_kept()
        self.bar(_ALL, event.total, completed=event.number - 1, note=f"{plain(event.cell)}: {plain(event.stage)}")

    @show.register
    def _(self, event: StageFinished) -> None:
        self._end_bars()
        if event.was_kept:
            self._kept += 1
        else:
            self.line(f"{plain(event.cell)}: {plain(event.stage)}: {seconds(event.seconds)}")

    @show.register
    def _(self, event: StageSkipped) -> None:
        self._end_bars()
        if event.follows is None:
            self.line(f"{plain(event.cell)}: {plain(event.stage)}: passed over: {plain(event.reason)}", "yellow")

    @show.register
    def _(self, event: StatesCached) -> None:
        self.bar("Reading texts", event.total, completed=event.done)

    @show.register
    def _(self, event: TrainStarted) -> None:
        self._total_steps = event.total_steps
        self.bar("Training", event.total_steps, completed=event.step)

    @show.register
    def _(self, event: TrainStep) -> None:
        self.bar("Training", self._total_steps, completed=event.step, note=f"loss {event.loss:.3f}")

    @show.register
    def _(self, event: Validated) -> None:
        self.line(f"  step {event.step:,}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %", "dim")

    @show.register
    def _(self, event: TuningStep) -> None:
        self.bar("Tuning", event.total_steps, completed=event.step, note=f"loss {event.loss:.3f}")

    @show.register
    def _(self, event: RateTried) -> None:
        told = f"exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %"
        self.line(f"  learning rate {event.rate:g}: {told}", "dim")

    @show.register
    def _(self, event: DocumentsAdapted) -> None:
        self.bar("Taking in", event.total, completed=event.done)

    @show.register
    def _(self, event: QuestionsAnswered) -> None:
        self.bar("Answering", event.total, completed=event.done)

    @show.register
    def _(self, event: ExperimentFinished) -> None:
        self._tell_kept()
        self._end = event
        self.remove_bar(_ALL)

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.tell("Stopping; Ctrl-C again ends at once. Stages that are done are kept.")

    def stopped(self) -> None:
        """Say how to go on."""
        self.tell(f"Stopped. {self._way_on}")

    def _tell_kept(self) -> None:
        if self._kept:
            was = "was" if self._kept == 1 else "were"
            self.line(f"{plain(self._folder)}: {counted(self._kept, 'stage')} {was} done before.")
            self._kept = 0

    def _end_bars(self) -> None:
        for name in _BARS:
            self.remove_bar(name)
