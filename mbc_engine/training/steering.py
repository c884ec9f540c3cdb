"""What comes after a step: the next one, a snapshot, a pause or the end, the same in all processes."""

import threading
from enum import IntEnum
from pathlib import Path
from typing import Final

from mbc_engine.training.processes import Processes
from mbc_engine.work.run_folder import Request, request_in


class Coming(IntEnum):
    """What comes after a step; of what several processes wish for the highest."""

    STEP = 0
    SNAPSHOT = 1
    PAUSE = 2
    STOP = 3


_ASKED: Final = {Request.PAUSE: Coming.PAUSE, Request.STOP: Coming.STOP}


class Steering:
    """Hears what is asked of a training, by its caller or in its folder.

    Args:
        processes: those that have to do the same.
        run: the run's folder.
        stop: the caller's.
    """

    def __init__(self, processes: Processes, run: Path, stop: threading.Event) -> None:
        self._processes, self._run, self._stop = processes, run, stop

    def asked(self) -> Coming | None:
        """What is asked of this process.

        The main process alone looks into the folder: the others might find there what was asked of an earlier training,
        before the main process has removed it.
        """
        if self._stop.is_set():
            return Coming.STOP
        request = request_in(self._run) if self._processes.is_main else None
        return None if request is None else _ASKED[request]

    def coming(self, *, is_due: bool = False) -> Coming:
        """What all processes do now: what is asked for, a snapshot if it `is_due` in one of them, or the next step."""
        return Coming(self._processes.highest(self.asked() or (Coming.SNAPSHOT if is_due else Coming.STEP)))
