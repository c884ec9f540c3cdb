"""Long work in a process of its own: an `mbc` command, which the dashboard follows by its log like anybody else's.

An ingest that is begun here, in a process of its own. How far it is, its log tells; how it ended, this does.

Threads that do not keep the program from ending, and whose errors are the app's.

Trainings started from the dashboard, and what is asked of trainings at work in whatever process.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from textual.message import Message

from mbc_cli.runs import find_run, new_run
from mbc_cli.text import plain
from mbc_cli.tui.state import Places
from mbc_engine.runs.training_runs import Request, make_request

# What is kept of a process's last words.
_LAST_BYTES: Final = 4096
_LAST_LINES: Final = 2


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code.
        words: the last lines it wrote on stderr, made harmless; "" where it said nothing.
    """

    code: int
    words: str

    def trouble(self, expected: Collection[int]) -> str:
        """Why it ended, "" with a code that was to be expected."""
        return "" if self.code in expected else self.words or f"It ended with code {self.code}."


class Child:
    """A command at work, in a session of its own: what ends the dashboard does not end it.

    Args:
        arguments: what would be typed after `mbc`.
        ended: is told how it ended, in a thread of its own.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, arguments: Sequence[str], ended: Callable[[Ended], object]) -> None:
        self._words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe that nobody empties would fill
        self._process = subprocess.Popen(  # noqa: S603  # mbc itself
            [sys.executable, "-m", "mbc_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._words,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,
        )
        threading.Thread(target=self._wait, args=(ended,), daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether it is still at work."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Ask it to finish what it is at and end, as Ctrl-C does; a second time ends it at once."""
        if self.is_running:
            self._process.send_signal(signal.SIGINT)

    def _wait(self, ended: Callable[[Ended], object]) -> None:
        code = self._process.wait()
        with self._words as words:
            words.seek(0, os.SEEK_END)
            words.seek(max(0, words.tell() - _LAST_BYTES))
            lines = words.read().decode(errors="replace").splitlines()
        ended(Ended(code, " ".join(plain(line).strip() for line in lines[-_LAST_LINES:])))


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


@dataclass
class Crashed(Message):
    """A job came upon an error that nobody expected."""

    error: BaseException


def start_thread(name: str, work: Callable[[], object], post: Callable[[Message], object]) -> threading.Thread:
    """Do something beside the dashboard. The dashboard's end does not wait for it: a model that is being loaded cannot
    be stopped.

    Args:
        name: what it is.
        work: what to do.
        post: takes a message if that raises anything.
    """

    def run() -> None:
        try:
            work()
        # It would end just this thread, and leave the dashboard waiting.
        except BaseException as error:  # noqa: BLE001
            post(Crashed(error))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


# What `mbc train` ends with when it is done, and when it was stopped.
_TRAININGS_EXPECTED: Final = (0, 130)


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
        self._tell(TrainingEnded(run, ended.trouble(_TRAININGS_EXPECTED)))

    def _make_request(self, run: Path) -> None:
        try:
            with self._asking:  # of two threads the later may be the first; either asks for what was wanted last
                make_request(run, self._requests[run])
        except OSError as error:
            self._tell(RequestFailed(run, f"It cannot be asked: {error}"))

    def _tell(self, message: Message) -> None:
        if not self._is_over:
            self._post(message)
