"""Logs that other processes write, followed as they grow, and whether anyone is at work on them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from textual.message import Message

from mbc_cli.tui.jobs.lookout import Watch
from mbc_cli.tui.known import Attached
from mbc_cli.tui.messages import IngestLogged, RunLogged, UsageSeen
from mbc_engine.work.activity_log import is_recorded
from mbc_engine.work.event_log import EventFollower, Followed
from mbc_engine.work.run_folder import EVENTS, is_at_work, read_usage

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
