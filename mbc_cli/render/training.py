"""A training on the terminal, or as JSON Lines."""

import shlex
import sys
from functools import singledispatchmethod
from json import dumps
from pathlib import Path

from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out
from mbc_cli.text import counted, plain, seconds
from mbc_engine.events import (
    Event,
    QuantisationStarted,
    StatesCached,
    TrainFinished,
    TrainPaused,
    TrainResumed,
    TrainStarted,
    TrainStep,
    Validated,
)
from mbc_engine.training.launch import is_launched


class TrainView(ProgressView):
    """Follows a training by its events.

    Args:
        run: the run's folder.
        name: what --run takes to go on with it.
    """

    def __init__(self, run: Path, name: str) -> None:
        super().__init__()
        self._run, self._name = run, name
        self._total = 0
        self._end: TrainFinished | None = None

    @property
    def is_finished(self) -> bool:
        """Whether training came to its end."""
        return self._end is not None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: StatesCached) -> None:
        self.bar("Reading texts", event.total, completed=event.done)
        if not self.is_live and event.done == event.total:
            self.line(f"Read {counted(event.total, 'text')} once for all epochs.")

    @show.register
    def _(self, event: TrainStarted) -> None:
        self._total = event.total_steps
        self.bar("Training", event.total_steps, completed=event.step)
        self.line(
            f"{plain(self._run)}: {counted(event.examples, 'question')} about {counted(event.documents, 'document')}, "
            f"{event.trainable_parameters / 1e6:.3g} M trainable parameters, "
            + (f"going on after step {event.step:,} of " if event.step else "")
            + f"{event.total_steps:,} steps"
        )

    @show.register
    def _(self, event: TrainStep) -> None:
        route = "" if event.route_accuracy is None else f" · source {event.route_accuracy:.0%}"
        note = f"loss {event.loss:.3f}{route} · {event.examples_per_second:.0f} questions/s"
        self.bar("Training", self._total, completed=event.step, note=note)

    @show.register
    def _(self, event: QuantisationStarted) -> None:
        self.line(f"step {event.step:,}: documents are codes from here on")

    @show.register
    def _(self, event: Validated) -> None:
        source = "" if event.first_source is None else f" · source first {event.first_source:.1f} %"
        self.line(
            f"step {event.step:,}, epoch {event.epoch + 1}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %"
            f"{source} ({counted(event.questions, 'question')}, {counted(event.documents, 'document')})"
            + (" · best so far" if event.is_best else ""),
            "bold" if event.is_best else "",
        )

    @show.register
    def _(self, event: TrainPaused) -> None:
        name = shlex.quote(plain(self._name))
        self.bar("Training", self._total, completed=event.step, note="paused")
        self.line(f"step {event.step:,}: paused; go on with: mbc runs resume {name}")

    @show.register
    def _(self, event: TrainResumed) -> None:
        self.line(f"step {event.step:,}: going on")

    @show.register
    def _(self, event: TrainFinished) -> None:
        self._end = event

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        again = "" if is_launched() else "; Ctrl-C again ends at once and goes back to the last snapshot"
        self.tell(f"Stopping after this step{again}.")

    def stopped(self) -> None:
        """Say how to go on."""
        self.tell(f"Stopped. {self.way_on}")

    @property
    def way_on(self) -> str:
        """How to go on after a stop or an end at once."""
        return f"Go on with: mbc train --resume --run {shlex.quote(plain(self._name))}"

    def finished(self) -> None:
        """The model's folder on stdout; how long it took and what to do with it on stderr."""
        assert self._end is not None, "training has not come to its end"
        notes.print(f"Trained {self._end.step:,} steps in {seconds(self._end.seconds)}. The model:")
        out.print(plain(self._end.model))
        model = shlex.quote(plain(self._end.model))
        notes.print(f"Use it with: mbc ingest FOLDER --model {model} --bank my.mbc")
        notes.print(f'             mbc ask "..." --model {model} --bank my.mbc')


class JsonTrainView(TrainView):
    """Prints each event as one line of JSON on stdout, at once; nothing is drawn."""

    def show(self, event: Event) -> None:
        """Print an event."""
        print(dumps(event.to_json()), flush=True, file=sys.stdout)
        if isinstance(event, TrainFinished):
            self._end = event

    def finished(self) -> None:
        """The last event has said it."""
