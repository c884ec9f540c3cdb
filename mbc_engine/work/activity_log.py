"""The log of ingests into one bank: the last one whole, of those before it how the bank was in the end."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from filelock import Timeout

from mbc_engine.events import DocumentsIngested, Event, IngestFinished, IngestStarted
from mbc_engine.whole_file import PRIVATE_FILE, make_private_folder, whole_file
from mbc_engine.work.event_log import EventLog, parse_line
from mbc_engine.work.lock import is_held, work_lock

_ENDS: Final = 10_000


def recorded(events: Iterable[Event], path: Path) -> Iterator[Event]:
    """Pass the events of ingests on and keep them in a log.

    The first ingest can be followed as it goes; a further one, of a watch, is kept once it has changed something. An
    ingest that begins while another process records one, or whose log cannot be written, leaves nothing.
    """
    record, is_first = _Record(path, at_once=True), True
    try:
        for event in events:
            if isinstance(event, IngestStarted):
                record.end()  # one that was broken off
                record, is_first = _Record(path, at_once=is_first), False
            record.keep(event)
            yield event
            if isinstance(event, IngestFinished):
                record.end()
    finally:
        record.end()


def is_recorded(path: Path) -> bool:
    """Whether an ingest is at work that keeps its events in this log."""
    return is_held(_lock_of(path))


class _Record:
    """What is kept of one ingest. The log is its own as long as it goes on, not while a watch waits for the next.

    Args:
        path: the log.
        at_once: from its first event on; otherwise, once it has changed the bank.
    """

    def __init__(self, path: Path, *, at_once: bool) -> None:
        self._path, self._at_once = path, at_once
        self._has_begun = False
        self._waiting: list[Event] = []
        self._log: EventLog | None = None
        self._opened = ExitStack()

    def keep(self, event: Event) -> None:
        """Write an event, or let it wait."""
        self._waiting.append(event)
        if not self._has_begun and (self._at_once or _tells_of_change(event)):
            self._begin()
        if self._has_begun:
            self._write()

    def end(self) -> None:
        """Leave the log to others."""
        with suppress(OSError):
            self._opened.close()
        self._log = None

    def _begin(self) -> None:
        """Take the log, if that can be had."""
        self._has_begun = True
        with suppress(OSError, Timeout), ExitStack() as opened:
            make_private_folder(self._path.parent)
            opened.enter_context(work_lock(_lock_of(self._path)))
            self._path.touch(PRIVATE_FILE)  # it names what was skipped
            _reduce(self._path)
            self._log = EventLog(self._path)
            opened.callback(self._log.close)
            self._opened = opened.pop_all()

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._log is None:
            return
        try:
            for event in waiting:
                self._log.append(event)
        except OSError:
            self.end()


def _tells_of_change(event: Event) -> bool:
    match event:
        case DocumentsIngested():
            return event.documents > 0 or event.chunks > 0
        case IngestFinished():
            return event.documents > 0 or event.removed > 0
    return False


def _reduce(path: Path) -> None:
    """Keep of a log how its ingests ended."""
    if not path.exists():
        return
    with path.open("rb") as file:
        ends = deque((line for line in file if _is_end(line)), maxlen=_ENDS)
    with whole_file(path) as file:
        file.writelines(ends)


def _is_end(line: bytes) -> bool:
    try:
        # Most lines are not, which is seen without taking them apart.
        return b'"IngestFinished"' in line and isinstance(parse_line(line).event, IngestFinished)
    except ValueError:
        return False


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")
