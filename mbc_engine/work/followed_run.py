"""A training run followed from outside: what its log tells, and whether anyone is at work on it."""

from pathlib import Path

from mbc_engine.events import TrainStep
from mbc_engine.work.event_log import EventFollower, Followed
from mbc_engine.work.run_folder import EVENTS, is_at_work
from mbc_engine.work.run_history import RunHistory, RunState


class FollowedRun:
    """A run and its history, as far as it was read.

    Args:
        folder: the run's folder.
        has_curves: whether the history gets every step; otherwise it tells how far the training is and how good.
    """

    def __init__(self, folder: Path, *, has_curves: bool = True) -> None:
        self.folder = folder
        self.history = RunHistory()
        self._follower = EventFollower(folder / EVENTS, skims=None if has_curves else TrainStep)

    def update(self, most: int | None = None) -> Followed:
        """Read on in the log, at most so many events; the history is another object if the log began anew."""
        followed = self._follower.poll(most)
        if followed.is_anew:
            self.history = RunHistory()
        self.history.add(followed.events)
        return followed

    @property
    def state(self) -> RunState:
        """What the training is at now: interrupted if it did not come to an end and nobody is at work on it."""
        return self.history.state_beside(is_at_work(self.folder))
