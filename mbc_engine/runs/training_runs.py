"""A training run's folder, its history built from events, and a run followed from another process.

The running training holds `lock` and writes `usage.safetensors`; other processes write `request` to stop it, which it
checks between steps.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from itertools import pairwise
from math import nan
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from mbc_engine import events
from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import ConfigError
from mbc_engine.runs.event_log import EventFollower, LogUpdate, Stamped, is_held, work_lock

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COMMAND = "command.json"
EVENTS = "events.jsonl"
SNAPSHOT = "snapshot.safetensors"
LOCK = "lock"
TRACKED = "tracked"
_REQUEST = "request"
_USAGE = "usage.safetensors"
# The fields of a step that have curves.
CURVES: Final = tuple(field.name for field in fields(events.TrainStep) if field.name != "step")
# Steps that the current speed is computed from.
_RECENT: Final = 50
# Events do not show that a training was interrupted; see `FollowedRun.state`.
RunState: TypeAlias = Literal["preparing", "training", "stopped", "finished", "interrupted"]


def request_stop(run: Path) -> None:
    """Ask the running training to stop after the step in progress."""
    (run / _REQUEST).touch()


def withdraw_stop(run: Path) -> None:
    """Remove the request to stop, if there is one."""
    (run / _REQUEST).unlink(missing_ok=True)


def is_stop_requested(run: Path) -> bool:
    """Whether somebody asks the training to stop."""
    return os.path.exists(run / _REQUEST)


@contextmanager
def hold_folder(folder: Path, what: str, *, resuming: str) -> Iterator[None]:
    """Create a folder, and work in it alone; `what` is the work, and `resuming` tells how it continues after an error.

    Raises ConfigError if another process works there, or files cannot be read or written.
    """
    from filelock import Timeout
    from safetensors import SafetensorError

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with work_lock(folder / LOCK):  # released by the system however the process ends
            yield
    except Timeout as error:
        hint = "Wait for it, or use another --run."
        raise ConfigError(f"Another {what} is running in {folder}.", hint=hint) from error
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"The {what} in {folder} cannot read or write its files: {error}.",
            hint=f"Check the path and free disk space; {resuming}.",
        ) from error


def is_running(run: Path) -> bool:
    """Whether a training is running in the folder, in any process."""
    return is_held(run / LOCK)


def write_usage(run: Path, usage: "NDArray[np.float32]", step: int) -> None:
    """Publish the codes' usage [levels, positions, num_codes] after `step` steps for other processes."""
    from safetensors.numpy import save

    with suppress(OSError), atomic_write(run / _USAGE) as file:  # training goes on if this fails
        file.write(save({"usage": usage}, {"step": str(step)}))


def read_usage(run: Path) -> "NDArray[np.float32] | None":
    """The latest published usage of codes [levels, positions, num_codes], finite; None if there is none."""
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        usage: NDArray[np.float32] = load((run / _USAGE).read_bytes())["usage"]
    except (OSError, SafetensorError, KeyError):
        return None
    is_valid = usage.dtype == np.float32 and usage.ndim == 3 and usage.size > 0 and np.isfinite(usage).all()
    return usage if is_valid else None


def runs_in(folder: Path) -> list[Path]:
    """The runs in a folder, most recently changed first."""
    changed = {}
    with suppress(OSError):
        for run in folder.iterdir():
            with suppress(OSError):
                changed[run] = (run / EVENTS).stat().st_mtime_ns
    return sorted(changed, key=lambda run: (-changed[run], run.name))


class RunHistory:
    """Folds the events of one training, in order."""

    def __init__(self) -> None:
        self.state: RunState = "preparing"
        self.started: events.TrainStarted | None = None  # or last resumed
        self.cached: events.Progressed | None = None  # reading texts before training begins
        self.latest: events.TrainStep | None = None
        self.validations: list[events.Validated] = []
        self.best: events.Validated | None = None  # its model is the run's result
        self.resets: list[int] = []  # steps in which dead codes were reset
        self.codes_reset = 0
        self.quantised: events.QuantisationStarted | None = None
        self.checkpoints: list[int] = []  # steps of all snapshots
        self.finished: events.TrainFinished | None = None
        self.last_time: float | None = None  # seconds since the epoch
        self._steps, self._times = array("d"), array("d")
        self._curves = {name: array("d") for name in CURVES}

    def add(self, stamped: Iterable[Stamped]) -> None:
        for time, event in stamped:
            self.last_time = time
            match event:
                case events.TrainStep():  # first, as nearly all events are steps
                    self._add_step(time, event)
                case events.Progressed():
                    self.cached = event
                case events.TrainStarted():
                    self.state, self.started = "training", event
                case events.TrainStateChanged():
                    self.state = "stopped" if event.state == "stopped" else "training"
                case events.QuantisationStarted():
                    self.quantised = event
                case events.Validated():
                    self.validations.append(event)
                    self.best = event if event.is_best else self.best
                case events.CheckpointSaved():
                    self.checkpoints.append(event.step)
                case events.TrainFinished():
                    self.state, self.finished = "finished", event

    def _add_step(self, time: float, step: events.TrainStep) -> None:
        self.state, self.latest = "training", step
        self._steps.append(step.step)
        self._times.append(time)
        values = vars(step)
        for name, curve in self._curves.items():
            value = values[name]
            curve.append(nan if value is None else value)
        if step.reset_codes:
            self.resets.append(step.step)
            self.codes_reset += step.reset_codes

    @property
    def step(self) -> int:
        return self.latest.step if self.latest else self.started.step if self.started else 0

    @property
    def total_steps(self) -> int:
        return self.started.total_steps if self.started else 0

    @property
    def throughput(self) -> float | None:
        recent = self._curves["examples_per_second"][-_RECENT:]
        return fmean(recent) if recent else None

    @property
    def seconds_left(self) -> float | None:
        """How long the remaining steps will take at the recent speed, validations aside; None if unknown."""
        if self.state == "finished":
            return 0.0
        # The median, as some steps are followed by a validation or a snapshot.
        paces = [later - earlier for earlier, later in pairwise(self._times[-_RECENT - 1 :])]
        return (self.total_steps - self.step) * median(paces) if paces else None

    def series(self, field: str, points: int) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        """The curve of one of `CURVES`: steps and values, both [at most `points`]; a missing value is NaN.

        If there are more steps, neighbours are merged, and each point is the mean of those that have a value.
        """
        import numpy as np

        steps, values = np.array(self._steps), np.array(self._curves[field])
        if len(steps) <= points:
            return steps, values
        starts = np.arange(points) * len(steps) // points
        sizes = np.diff(starts, append=len(steps))
        has_value = ~np.isnan(values)
        counts = np.add.reduceat(has_value, starts, dtype=np.int64)
        sums = np.add.reduceat(np.where(has_value, values, 0.0), starts)
        means = np.divide(sums, counts, out=np.full(points, nan), where=counts > 0)
        return np.add.reduceat(steps, starts) / sizes, means


class FollowedRun:
    """A run and its history as read so far; without curves it has only the last step.

    Attributes:
        is_running: whether a process was training when the log was last read.
        is_behind: whether the log has more to read.
        usage: the last known EMA of its codes, [levels, codebooks, codes].
    """

    def __init__(self, folder: Path, *, has_curves: bool = True) -> None:
        self.folder = folder
        self.history = RunHistory()
        self.is_running = self.is_behind = False
        self.usage: NDArray[np.float32] | None = None
        self._follower = EventFollower(folder / EVENTS, latest_only=None if has_curves else events.TrainStep)

    def update(self) -> LogUpdate:
        """Read what was appended to the log."""
        running, log_update = is_running(self.folder), self._follower.poll()
        self.add(log_update, running)
        return log_update

    def add(self, log_update: LogUpdate, running: bool, usage: "NDArray[np.float32] | None" = None) -> None:
        """Add what was read elsewhere; the history is a new object if the log started anew."""
        if log_update.is_restarted:
            self.history = RunHistory()
        self.history.add(log_update.events)
        self.is_running, self.is_behind = running, log_update.has_more
        self.usage = self.usage if usage is None else usage

    @property
    def state(self) -> RunState:
        """The training's state: interrupted if it has not ended and no process is running it."""
        state = self.history.state
        return state if self.is_running or state in ("stopped", "finished") else "interrupted"

    @property
    def is_stopping(self) -> bool:
        """Whether it is being trained, and somebody has asked it to stop."""
        return self.state in ("preparing", "training") and is_stop_requested(self.folder)
