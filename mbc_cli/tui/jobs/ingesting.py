"""An ingest that is begun here, in a process of its own. How far it is, its log tells; how it ended, this does."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_cli.tui.jobs.child import Child, Ended
from mbc_cli.tui.places import Places

# What `mbc ingest` ends with when it is done, and when it was stopped; the latter also by a second signal.
_EXPECTED: Final = (0, 130, -2)


@dataclass(frozen=True)
class IngestPlan:
    """What is to be memorised, and how, as its command takes it.

    Attributes:
        path: a file or folder.
        ignore: patterns of what is left out.
    """

    path: Path
    watch: bool = False
    prune: bool = False
    ignore: tuple[str, ...] = ()


@dataclass
class IngestEnded(Message):
    """An ingest that was begun here is over; `words` say what went wrong, "" if nothing did."""

    plan: IngestPlan
    words: str


class Ingesting:
    """Begins ingests, one at a time.

    Attributes:
        plan: the one begun last; None before the first.
        stops: how often it was asked to stop.

    Args:
        places: the bank and the model.
        post: takes messages; it is called in any thread.
    """

    def __init__(self, places: Places, post: Callable[[Message], object]) -> None:
        self._places, self._post = places, post
        self._child: Child | None = None
        self.plan: IngestPlan | None = None
        self.stops = 0

    @property
    def is_running(self) -> bool:
        """Whether the process is there, at work or not yet."""
        return self._child is not None and self._child.is_running

    def start(self, plan: IngestPlan) -> None:
        """Begin one."""
        # An option and its value as one word, and paths after the last: either may begin with a dash.
        arguments = ["ingest", f"--bank={self._places.bank}", f"--model={self._places.model}"]
        arguments += [] if self._places.device is None else [f"--device={self._places.device}"]
        arguments += [f"--ignore={pattern}" for pattern in plan.ignore]
        arguments += ["--watch"] * plan.watch + ["--prune"] * plan.prune
        self.plan, self.stops = plan, 0
        try:
            self._child = Child([*arguments, "--", str(plan.path.absolute())], lambda ended: self._ended(plan, ended))
        except (OSError, ValueError) as error:  # such as a path that no command line can hold
            self._post(IngestEnded(plan, f"It cannot be started: {error}"))

    def stop(self) -> None:
        """Ask it to end and save what is encoded; a second time, at once."""
        if self._child is not None:
            self.stops += 1
            self._child.stop()

    def close(self) -> None:
        """The dashboard ends. An ingest goes on to its end; a watch, which has none, is asked to stop."""
        if self.is_running and self.plan is not None and self.plan.watch:
            self.stop()

    def _ended(self, plan: IngestPlan, ended: Ended) -> None:
        self._post(IngestEnded(plan, ended.trouble(_EXPECTED)))
