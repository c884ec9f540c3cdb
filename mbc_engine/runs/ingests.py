"""The log of ingests into one bank: the last one whole, of those before it how the bank was in the end.

Ingests into one bank as their events tell them: how the bank grew, and how far the present ingest is.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from filelock import Timeout

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.runs.event_log import EventLog, Stamped, is_held, parse_line, work_lock

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
    with atomic_write(path) as file:
        file.writelines(ends)


def _is_end(line: bytes) -> bool:
    try:
        # Most lines are not, which is seen without taking them apart.
        return b'"IngestFinished"' in line and isinstance(parse_line(line).event, IngestFinished)
    except ValueError:
        return False


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".lock")


_SKIPPED: Final = 1000
_SOURCES: Final = 200
# Reports, two a second at most, that say how fast an ingest is now.
_RECENT: Final = 20
_PACE: Final = 600


class IngestState(StrEnum):
    """What an ingest is at. That it was interrupted its events cannot tell, see `is_recorded` in `activity_log.py`."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Growth:
    """A bank at the end of an ingest; sizes in bytes."""

    time: float
    documents: int
    chunks: int
    code_bytes: int
    file_bytes: int


class IngestHistory:
    """Folds the events of ingests into one bank, in their order.

    Attributes:
        state: what the present or last ingest is at; None before the first.
        growth: the bank after each ingest.
        started: what the present ingest has to do, and since when (`began`).
        reported: how far it is.
        finished: how it ended.
        skipped: the last files or rows that it skipped; `skips` counts all of them.
        sources: names of the documents last dealt with, the newest last.
        pace: `rate` as it was after reports, by the seconds since the ingest began; of the last few minutes.
        last_time: when the last event was, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.state: IngestState | None = None
        self.growth: list[Growth] = []
        self.started: IngestStarted | None = None
        self.began: float | None = None
        self.reported: DocumentsIngested | None = None
        self.finished: IngestFinished | None = None
        self.skipped: deque[FileSkipped] = deque(maxlen=_SKIPPED)
        self.skips = 0
        self.sources: deque[str] = deque(maxlen=_SOURCES)
        self.pace: deque[tuple[float, float]] = deque(maxlen=_PACE)
        self.last_time: float | None = None
        self._reports: deque[DocumentsIngested] = deque(maxlen=_RECENT + 1)

    def add(self, events: Iterable[Stamped]) -> None:
        """Take further events in."""
        for time, event in events:
            self.last_time = time
            match event:
                case IngestStarted():
                    self.state = IngestState.RUNNING
                    self.started, self.began, self.reported, self.finished = event, time, None, None
                    self.skipped.clear()
                    self.skips = 0
                    self.pace.clear()
                    self._reports.clear()
                case FileSkipped():
                    self.skipped.append(event)
                    self.skips += 1
                case DocumentsIngested():
                    self.reported = event
                    self._reports.append(event)
                    if (rate := self.rate) is not None:
                        self.pace.append((event.seconds, rate))
                    if event.source and (not self.sources or self.sources[-1] != event.source):
                        self.sources.append(event.source)
                case IngestFinished():
                    self.state = IngestState.FINISHED if event.is_complete else IngestState.STOPPED
                    self.finished = event
                    self.growth.append(
                        Growth(time, event.bank_documents, event.bank_chunks, event.code_bytes, event.file_bytes)
                    )

    @property
    def size_done(self) -> int:
        """Bytes of the present ingest's files that have been dealt with."""
        return self.reported.size if self.reported else 0

    @property
    def rate(self) -> float | None:
        """Chunks a second of late; None as long as that is unknown."""
        if len(self._reports) < 2 or self._seconds <= 0:
            return None
        return (self._reports[-1].chunks - self._reports[0].chunks) / self._seconds

    @property
    def seconds_left(self) -> float | None:
        """How long the rest will take at the late pace; None as long as that is unknown, as of a stream's."""
        if self.started is None or not self.started.size or len(self._reports) < 2:
            return None
        if self.state is not IngestState.RUNNING:
            return 0.0
        done = self._reports[-1].size - self._reports[0].size
        return (self.started.size - self.size_done) * self._seconds / done if done > 0 else None

    @property
    def _seconds(self) -> float:
        return self._reports[-1].seconds - self._reports[0].seconds
