"""One thread that looks, a few times a second, at everything other processes may change, and posts what is new.

A bank that other processes change, looked at as a whole whenever it did.

Logs that other processes write, followed as they grow, and whether anyone is at work on them.

The folder of training runs: which there are, and what they are at.

The terminal itself, which may go without a word: where no signal tells of that, reading from it never ends.
"""

import os
import select
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_cli.tui.state import (
    Attached,
    BankChanged,
    BankMissing,
    BankSeen,
    IngestLogged,
    RunLogged,
    RunsChanged,
    RunSeen,
    UsageSeen,
)
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import MBCError
from mbc_engine.machine import SlowDown
from mbc_engine.runs.event_log import EventFollower, Followed
from mbc_engine.runs.ingests import is_recorded
from mbc_engine.runs.training_runs import EVENTS, FollowedRun, is_at_work, read_usage, runs_in

# Slower than a person notices, faster than a second even when a look takes its time.
_EVERY_SECONDS: Final = 0.25


class Watch(ABC):
    """Something that can be looked at again and again."""

    @abstractmethod
    def look(self) -> Iterator[Message]:
        """What has changed since the last look."""

    def close(self) -> None:  # noqa: B027  # most have nothing open
        """Let go of what is open, if anything is. It runs in the thread that looks."""


class Lookout:
    """Looks at watches, which come and go by name, until it is stopped.

    Args:
        post: takes messages; it is called in the lookout's own thread.
    """

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._watches: dict[str, Watch] = {}
        self._gone: list[Watch] = []
        self._guard = threading.Lock()
        self._awake, self._is_over = threading.Event(), False

    def put(self, name: str, watch: Watch | None) -> None:
        """Look at this from now on under a name, in place of what had it; None looks at nothing."""
        with self._guard:
            if before := self._watches.pop(name, None):
                self._gone.append(before)
            if watch is not None:
                self._watches[name] = watch
        self._awake.set()

    def stop(self) -> None:
        """Come to an end soon."""
        self._is_over = True
        self._awake.set()

    def run(self) -> None:
        """Look until stopped."""
        while not self._is_over:
            self._awake.clear()
            with self._guard:
                watches, gone, self._gone = list(self._watches.values()), self._gone, []
            for watch in gone:
                watch.close()
            for watch in watches:
                for message in watch.look():
                    if self._is_over:
                        break
                    self._post(message)
            self._awake.wait(_EVERY_SECONDS)
        for watch in [*self._watches.values(), *self._gone]:
            watch.close()


class BankWatch(Watch):
    """Watches the bank at a path, whether there is one or not.

    Args:
        path: the bank's file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bank: MemoryBank | None = None
        self._version: tuple[int, int] | None = None
        self._told: str | None = None
        self._rest = SlowDown(share=0.1, least=0.25)

    def look(self) -> Iterator[Message]:
        """The bank if it has changed, or why it cannot be seen."""
        began = time.monotonic()
        if not self._rest.is_due(began):
            return
        try:
            if self._bank is not None and self._bank.is_replaced():
                self.close()
            if self._bank is None:
                self._bank = MemoryBank.open(self._path, read_only=True)
            version = self._bank.version()
            if version == self._version:
                return
            seen = _seen(self._bank, self._path)
            self._version = version
        except MBCError as error:
            was_new = self._version is None
            self.close()
            # One that was read before has perhaps been encoded anew; the next look opens what is there now.
            if was_new and self._told != error.message:
                self._told = error.message
                yield BankMissing(error)
            return
        self._told = None
        self._rest.took(began, time.monotonic())
        yield BankChanged(seen)

    def close(self) -> None:
        """Close the bank."""
        if self._bank is not None:
            self._bank.close()
        self._bank = self._version = None


def _seen(bank: MemoryBank, path: Path) -> BankSeen:
    with bank.snapshot():
        return BankSeen(bank.name, path, bank.header, bank.totals(), bank.sizes(), bank.counts())


# So many events that the app, which takes them in between two keys, is not held up by a long log.
_SLICE: Final = 2_000


class IngestWatch(Watch):
    """Follows the ingests into a bank.

    Args:
        log: where they keep their events; it need not be there yet.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._follower = log, EventFollower(log)
        self._was_at_work: bool | None = None

    def look(self) -> Iterator[Message]:
        """All that was written since the last look, a slice a message."""
        at_work = is_recorded(self._log)  # before reading: who ends after this has written all it will
        for followed in _slices(self._follower, self._was_at_work != at_work):
            self._was_at_work = at_work
            yield IngestLogged(followed, at_work)


class RunWatch(Watch):
    """Follows a training run.

    Args:
        attached: which, as the app knows it.
    """

    def __init__(self, attached: Attached) -> None:
        self._attached, self._run = attached, attached.folder
        self._follower = EventFollower(self._run / EVENTS)
        self._was_at_work: bool | None = None

    def look(self) -> Iterator[Message]:
        """All that was written since the last look, a slice a message, and how the codes are used by now."""
        at_work = is_at_work(self._run)
        has_news = False
        for followed in _slices(self._follower, self._was_at_work != at_work):
            self._was_at_work, has_news = at_work, True
            yield RunLogged(self._attached, followed, at_work)
        if has_news and (usage := read_usage(self._run)) is not None:
            yield UsageSeen(self._attached, usage)


def _slices(follower: EventFollower, must_tell: bool) -> Iterator[Followed]:
    """What is new in a log; nothing at all if nothing is, unless there is something to tell anyway."""
    followed = follower.poll(most=_SLICE)
    if followed.events or followed.is_anew or must_tell:
        yield followed
    while followed.has_more:
        followed = follower.poll(most=_SLICE)
        yield followed


# Seconds of reading logs in one look, and lines between two looks at the clock.
_LONGEST: Final = 0.1
_RUNS_WATCH_SLICE: Final = 20_000


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
        seen = tuple(map(_runs_watch_seen, self._runs.values()))
        if seen != self._last:
            self._last = seen
            yield RunsChanged(seen)


def _followed(folder: Path) -> FollowedRun:
    return FollowedRun(folder, has_curves=False)


def _read(run: FollowedRun, until: float) -> bool:
    """Read on, a slice at least; whether there is more."""
    while (has_more := run.update(most=_RUNS_WATCH_SLICE).has_more) and time.monotonic() < until:
        pass
    return has_more


def _runs_watch_seen(run: FollowedRun) -> RunSeen:
    return RunSeen(run.folder, run.state, run.history.step, run.history.best)


_HUNG_UP: Final = 128 + signal.SIGHUP


class TerminalWatch(Watch):
    """Ends the process when its terminal is gone. There is nothing to restore, and nobody to tell.

    Args:
        descriptor: what is read from the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._poll = select.poll()
        self._poll.register(descriptor, 0)  # hanging up is told without being asked for

    def look(self) -> Iterator[Message]:
        """Nothing, as long as the terminal is there."""
        if any(mask & select.POLLHUP for _, mask in self._poll.poll(0)):
            os._exit(_HUNG_UP)
        yield from ()
