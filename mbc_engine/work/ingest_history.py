"""Ingests into one bank as their events tell them: how the bank grew, and how far the present ingest is."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mbc_engine.events import DocumentsIngested, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.work.event_log import Stamped

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
