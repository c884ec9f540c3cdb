"""Trainings started from the dashboard, and what is asked of trainings at work in whatever process."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_cli.runs import find_run, new_run
from mbc_cli.tui.jobs.child import Child, Ended
from mbc_cli.tui.jobs.thread import start_thread
from mbc_engine.work.run_folder import Request, make_request

# What `mbc train` ends with when it is done, and when it was stopped.
_EXPECTED: Final = (0, 130)


@dataclass(frozen=True)
class Plan:
    """A training to start, as its command takes it.

    Attributes:
        run: a name or a path; "" for the preset's name and a number.
        validation: "" to hold back part of the data.
    """

    preset: str
    data: tuple[str, ...]
    validation: str = ""
    run: str = ""
    settings: tuple[str, ...] = ()


@dataclass
class TrainingEnded(Message):
    """A training that was started here is at work no more; `words` say why if it ended before its time, else ""."""

    run: Path
    words: str


@dataclass
class RequestFailed(Message):
    """Something could not be asked of a training, and why."""

    run: Path
    words: str


class Trainings:
    """Starts trainings and asks things of them. Nothing here waits for a training.

    Args:
        runs: the folder of runs.
        post: takes messages; it may be called in any thread.
    """

    def __init__(self, runs: Path, post: Callable[[Message], object]) -> None:
        self._runs, self._post = runs, post
        self._children: dict[Path, Child] = {}
        self._requests: dict[Path, Request | None] = {}
        self._asking = threading.Lock()
        self._is_over = False

    def is_running(self, run: Path) -> bool:
        """Whether a training that was started here runs in the folder, at work or not yet."""
        return run in self._children and self._children[run].is_running

    def start(self, plan: Plan) -> Path:
        """Start a new training; the folder of its run."""
        run = find_run(plan.run, self._runs) if plan.run else new_run(plan.preset, self._runs)
        named = [("--preset", plan.preset), *(("--data", spec) for spec in plan.data), ("--run", str(run))]
        if plan.validation:
            named.append(("--validation", plan.validation))
        named += [("--set", setting) for setting in plan.settings]
        # An option and its value as one word: a value may begin with a dash.
        self._begin(run, [f"{name}={value}" for name, value in named])
        return run

    def resume(self, run: Path) -> None:
        """Go on with a training that was stopped or cut off."""
        self._begin(run, ["--resume", f"--run={run}"])

    def ask(self, run: Path, request: Request | None) -> None:
        """Ask the training at work in a folder for something, or to go on."""
        self._requests[run] = request
        start_thread("request", lambda: self._make_request(run), self._post)

    def close(self) -> None:
        """Tell nothing more. The trainings go on."""
        self._is_over = True

    def _begin(self, run: Path, arguments: Sequence[str]) -> None:
        try:
            self._children[run] = Child(["train", *arguments], lambda ended: self._ended(run, ended))
        except (OSError, ValueError) as error:  # such as words that no command line can hold
            self._tell(TrainingEnded(run, f"It cannot be started: {error}"))

    def _ended(self, run: Path, ended: Ended) -> None:
        self._tell(TrainingEnded(run, ended.trouble(_EXPECTED)))

    def _make_request(self, run: Path) -> None:
        try:
            with self._asking:  # of two threads the later may be the first; either asks for what was wanted last
                make_request(run, self._requests[run])
        except OSError as error:
            self._tell(RequestFailed(run, f"It cannot be asked: {error}"))

    def _tell(self, message: Message) -> None:
        if not self._is_over:
            self._post(message)
