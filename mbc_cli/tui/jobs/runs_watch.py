"""The folder of training runs: which there are, and what they are at."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_cli.tui.jobs.lookout import Watch
from mbc_cli.tui.known import RunSeen
from mbc_cli.tui.messages import RunsChanged
from mbc_engine.slow_down import SlowDown
from mbc_engine.work.followed_run import FollowedRun
from mbc_engine.work.run_folder import runs_in

# Seconds of reading logs in one look, and lines between two looks at the clock.
_LONGEST: Final = 0.1
_SLICE: Final = 20_000


class RunsWatch(Watch):
    """Watches a folder of runs.

    Args:
        folder: where runs lie.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[Path, FollowedRun] = {}
        self._last: tuple[RunSeen, ...] | None = None
        self._rest = SlowDown(share=0.02, least=1.0)

    def look(self) -> Iterator[Message]:
        """The runs, if they are others than before or are at something else."""
        began = time.monotonic()
        if not self._rest.is_due(began):
            return
        self._runs = {folder: self._runs.get(folder) or _followed(folder) for folder in runs_in(self._folder)}
        # All of them are read, not only listed: no reason for whoever waits behind this to wait until that is done.
        has_more = [_read(run, until=began + _LONGEST) for run in self._runs.values()]
        if not any(has_more):
            self._rest.took(began, time.monotonic())
        seen = tuple(map(_seen, self._runs.values()))
        if seen != self._last:
            self._last = seen
            yield RunsChanged(seen)


def _followed(folder: Path) -> FollowedRun:
    return FollowedRun(folder, has_curves=False)


def _read(run: FollowedRun, until: float) -> bool:
    """Read on, a slice at least; whether there is more."""
    while (has_more := run.update(most=_SLICE).has_more) and time.monotonic() < until:
        pass
    return has_more


def _seen(run: FollowedRun) -> RunSeen:
    return RunSeen(run.folder, run.state, run.history.progress, run.history.best)
