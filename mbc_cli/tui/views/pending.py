"""What was begun with trainings, or asked of them, from here, as far as it has not come about."""

from pathlib import Path
from typing import Final

from mbc_cli.tui.known import Attached
from mbc_engine.work.run_folder import Request
from mbc_engine.work.run_history import RunState

# Before a process that was started is at work.
STARTING: Final = "starting"
_ASKED: Final = {
    Request.PAUSE: "will pause after this step",
    Request.STOP: "will stop after this step",
    None: "will go on",
}
# What has come about in a state.
_REACHED: Final = {RunState.PAUSED: (Request.PAUSE,), RunState.TRAINING: (None,)}


class Pending:
    """Beginnings, requests and failures of trainings, by their folders."""

    def __init__(self) -> None:
        self._asked: dict[Path, Request | None] = {}  # None is to go on
        self._starting: set[Path] = set()
        self._failed: dict[Path, str] = {}

    def begin(self, run: Path) -> None:
        """A process was started, and is not yet at work."""
        self._failed.pop(run, None)
        self._starting.add(run)

    def fail(self, run: Path, words: str) -> None:
        """It has ended before its time; `words` say why."""
        self._failed[run] = words

    def ask(self, run: Path, request: Request | None) -> None:
        """It was asked for something, or to go on."""
        self._asked[run] = request

    def refuse(self, run: Path) -> None:
        """It could not be asked."""
        self._asked.pop(run, None)

    def settle(self, run: Attached, *, is_running: bool) -> None:
        """Forget what has come about, the process started here being there or not."""
        if not run.at_work or self._asked.get(run.folder) in _REACHED.get(run.state, ()):
            self._asked.pop(run.folder, None)
        if run.at_work or not is_running:
            self._starting.discard(run.folder)

    def state(self, run: Attached) -> str:
        """What the training is at."""
        return STARTING if run.folder in self._starting else run.state

    def waits(self, run: Attached) -> bool:
        """Whether the training is paused, or will be."""
        return run.state is RunState.PAUSED or self._asked.get(run.folder) is Request.PAUSE

    def words(self, run: Attached) -> str:
        """What else is to be said of it."""
        if run.folder in self._asked:
            return _ASKED[self._asked[run.folder]]
        return "" if run.at_work else self._failed.get(run.folder, "")
