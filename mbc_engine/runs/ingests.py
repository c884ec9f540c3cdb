"""Ingests into one bank: the log of their events, and the history read from it.

The log keeps the last ingest in full; of earlier ones, only the final state of the bank, without names of documents.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from filelock import Timeout

from mbc_engine.atomic_write import PRIVATE_FILE, atomic_write, make_private_folder
from mbc_engine.events import (
    ContentLost,
    DocumentsIngested,
    Event,
    FileSkipped,
    IngestFinished,
    IngestStarted,
    TextsRecoded,
)
from mbc_engine.runs.event_log import EventLog, Stamped, is_held, parse_line, work_lock

_ENDS: Final = 10_000
_SKIPPED: Final = 1000
_SOURCES: Final = 200
# Reports, at most two a second, that the current rate is computed from.
_RECENT: Final = 20
_PACE: Final = 600


def recorded(events: Iterable[Event], path: Path) -> Iterator[Event]:
    """Pass on the events of ingests and record them in a log.

    The first ingest is recorded as it runs; a further one, of a watch, once it has changed something. An ingest that
    begins while another process records one, or whose log cannot be written, is not recorded.
    """
    log: EventLog | None = None
    waiting: list[Event] = []
    ingests, is_kept = 0, True
    with ExitStack() as opened:  # the log and its lock, while an ingest runs
        for event in events:
            if isinstance(event, IngestStarted):
                opened.close()  # after an interrupted one
                log, waiting = None, []
                ingests, is_kept = ingests + 1, False
            if isinstance(event, TextsRecoded) and log is None:  # of a watch, while nothing changes
                yield event
                continue
            waiting.append(event)
            if not is_kept and (ingests == 1 or _changes_the_bank(event)):
                log, is_kept = _open(path, opened), True
            if is_kept:
                log, waiting = _written(log, waiting, opened), []
            yield event
            if isinstance(event, IngestFinished):
                opened.close()
                log = None


def _written(log: EventLog | None, events: Iterable[Event], opened: ExitStack) -> EventLog | None:
    if log is None:
        return None
    try:
        for event in events:
            log.append(event)
    except OSError:
        opened.close()
        return None
    return log


def is_recorded(path: Path) -> bool:
    """Whether a running ingest is recorded in this log."""
    return is_held(path.with_suffix(".lock"))


def forget_names(path: Path) -> None:
    """Reduce the log to the ends of ingests, if there is one. While an ingest runs, its own part stays until the next."""
    with suppress(OSError, Timeout):
        if path.exists():
            with work_lock(path.with_suffix(".lock")):
                _keep_ends(path)


def _keep_ends(path: Path) -> None:
    with path.open("rb") as file:
        ends = deque((_nameless(line) for line in file if _is_end(line)), maxlen=_ENDS)
    with atomic_write(path) as file:
        file.writelines(ends)


def _open(path: Path, opened: ExitStack) -> EventLog | None:
    """Open the log, reduced to the ends of earlier ingests, or return None if that fails; `opened` closes it."""
    with suppress(OSError, Timeout), ExitStack() as opening:
        make_private_folder(path.parent)
        opening.enter_context(work_lock(path.with_suffix(".lock")))
        path.touch(PRIVATE_FILE)  # it names files
        _keep_ends(path)
        log = EventLog(path)
        opening.callback(log.close)
        opened.push(opening.pop_all())
        return log
    return None


def _changes_the_bank(event: Event) -> bool:
    match event:
        case DocumentsIngested():
            return event.documents > 0 or event.chunks > 0
        case IngestFinished():
            return event.documents > 0 or event.removed > 0
    return False


def _is_end(line: bytes) -> bool:
    try:
        # Most lines can be ruled out without parsing them.
        return b'"IngestFinished"' in line and isinstance(parse_line(line)[1], IngestFinished)
    except ValueError:
        return False


def _nameless(line: bytes) -> bytes:
    """An event's line without the names of documents."""
    record = json.loads(line)
    if not any(record[name] for name in record if name.endswith("sources")):
        return line
    return json.dumps({name: value for name, value in record.items() if not name.endswith("sources")}).encode() + b"\n"


# Events do not show that an ingest was interrupted; see `is_recorded`.
IngestState: TypeAlias = Literal["running", "finished", "stopped", "interrupted"]


class IngestHistory:
    """Folds the events of one bank's ingests, in order; times are in seconds since the epoch."""

    def __init__(self) -> None:
        self.state: IngestState | None = None  # of the current or last ingest
        self.growth: list[tuple[float, IngestFinished]] = []
        self.started: IngestStarted | None = None
        self.began: float | None = None
        self.reported: DocumentsIngested | None = None
        self.recoded: TextsRecoded | None = None  # once the current ingest is recoding texts
        self.finished: IngestFinished | None = None
        self.skipped: deque[FileSkipped] = deque(maxlen=_SKIPPED)  # the last of `skips` files, rows or parts of them
        self.skips = 0
        self.sources: deque[str] = deque(maxlen=_SOURCES)  # of the latest documents, newest last
        self.pace: deque[float] = deque(maxlen=_PACE)  # `rate` after each report of the last few minutes
        self._reports: deque[DocumentsIngested] = deque(maxlen=_RECENT + 1)

    def add(self, events: Iterable[Stamped]) -> None:
        for time, event in events:
            match event:
                case IngestStarted():
                    self.state = "running"
                    self.started, self.began, self.reported, self.finished = event, time, None, None
                    self.recoded = None
                    self.skipped.clear()
                    self.skips = 0
                    self.pace.clear()
                    self._reports.clear()
                case FileSkipped() | ContentLost():
                    self.skipped.append(FileSkipped(event.source, event.reason))
                    self.skips += 1
                case DocumentsIngested():
                    self.reported = event
                    self._reports.append(event)
                    if (rate := self.rate) is not None:
                        self.pace.append(rate)
                    for source in event.sources:  # all rows of a table have the same
                        if not self.sources or self.sources[-1] != source:
                            self.sources.append(source)
                case TextsRecoded():
                    self.recoded = event
                case IngestFinished():
                    self.state = "finished" if event.is_complete else "stopped"
                    self.finished = event
                    self.growth.append((time, event))

    @property
    def size_done(self) -> int:
        return self.reported.size if self.reported else 0

    @property
    def rate(self) -> float | None:
        if len(self._reports) < 2 or self._seconds <= 0:
            return None
        return (self._reports[-1].chunks - self._reports[0].chunks) / self._seconds

    @property
    def seconds_left(self) -> float | None:
        """How long the rest will take at the recent rate; None if that is unknown, as for a stream."""
        if self.state == "running" and (own := self.recoded):
            return own.seconds * (own.chunks - own.done) / own.done if own.done else None
        if self.started is None or not self.started.size or len(self._reports) < 2:
            return None
        if self.state != "running":
            return 0.0
        done = self._reports[-1].size - self._reports[0].size
        return (self.started.size - self.size_done) * self._seconds / done if done > 0 else None

    @property
    def _seconds(self) -> float:
        return self._reports[-1].seconds - self._reports[0].seconds
