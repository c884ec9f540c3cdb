"""Events stored as JSON Lines, which can be read while they are still being written, even by another process.

A line is one object: the event's name under `event`, the seconds since the epoch under `time`, and its fields. Locks
tell other processes that work is in progress; the system releases them however the process ends.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from mbc_engine.atomic_write import PRIVATE_FILE
from mbc_engine.events import Event

if TYPE_CHECKING:
    from filelock import FileLock
    from pydantic import TypeAdapter

# The largest number of seconds since the epoch that is a valid date on all platforms.
_END_OF_TIME: Final = 1e11
# Beyond 64 bits, an integer counts nothing, and may be too large for a float.
_MAX_INTEGER: Final = (1 << 63) - 1
# When an event was logged, in seconds since the epoch, and the event.
Stamped: TypeAlias = tuple[float, Event]


class EventLog:
    """An append-only JSON Lines file of events."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab")

    def append(self, event: Event) -> None:
        line = json.dumps({"time": round(time.time(), 3), **event.to_json()}, ensure_ascii=False)
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def position(self) -> int:
        """Bytes written so far, to `rewind` to after a crash. Everything before it is on disk."""
        os.fsync(self._file.fileno())
        return self._file.tell()

    def rewind(self, position: int) -> None:
        self._file.truncate(min(position, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class LogUpdate:
    """What was appended to a log since the last poll; all of it if `is_restarted`: truncated or replaced."""

    events: list[Stamped]
    is_restarted: bool = False
    has_more: bool = False  # further lines are already there


_NOTHING = LogUpdate([])


class EventFollower:
    """Reads what is appended to a log, which need not exist yet; lines that are not events are skipped.

    Of consecutive events of the kind `latest_only`, only the last is parsed, which is twenty times as fast.
    """

    def __init__(self, path: Path, latest_only: type[Event] | None = None) -> None:
        self._path = path
        self._skimmed = f'"event": "{latest_only.__name__}"'.encode() if latest_only else None
        self._idle: tuple[int, int, int] | None = None  # the file's status when it was last read to the end
        self._position, self._last = 0, b""  # where reading ended, and the line before it

    def poll(self, most: int | None = None) -> LogUpdate:
        """What has happened since the last poll, in at most `most` lines; if nothing, this costs one `stat`."""
        try:
            if self._idle == _looks(self._path.stat()):
                return _NOTHING
            with self._path.open("rb") as file:
                looks = _looks(os.fstat(file.fileno()))
                is_restarted = self._seek(file)
                events, lines = self._read(file, most)
        except FileNotFoundError:
            is_restarted = self._position > 0
            self._idle, self._position, self._last = None, 0, b""
            return LogUpdate([], is_restarted)
        except OSError:
            return _NOTHING
        has_more = lines == most and self._position < looks[1]
        self._idle = None if has_more else looks
        return LogUpdate(events, is_restarted, has_more)

    def _seek(self, file: BinaryIO) -> bool:
        # A resumed training truncates its log, which may have grown past this position again.
        file.seek(self._position - len(self._last))
        is_restarted = file.read(len(self._last)) != self._last
        if is_restarted:
            self._position, self._last = file.seek(0), b""
        return is_restarted

    def _read(self, file: BinaryIO, most: int | None) -> tuple[list[Stamped], int]:
        kept: list[bytes] = []
        lines, was_skimmed = 0, False
        for line in islice(file, most):
            if not line.endswith(b"\n"):
                break
            lines += 1
            self._position += len(line)
            self._last = line
            is_skimmed = self._skimmed is not None and self._skimmed in line
            if is_skimmed and was_skimmed:
                kept.pop()
            kept.append(line)
            was_skimmed = is_skimmed
        events: list[Stamped] = []
        for line in kept:
            with suppress(ValueError):
                events.append(parse_line(line))
        return events, lines


def read_events(path: Path) -> list[Event]:
    """The events that a log, which need not exist, has so far; lines that are not events are skipped."""
    return [event for _, event in EventFollower(path).poll().events]


def _looks(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def parse_line(line: bytes) -> Stamped:
    """The event on a line, with its time; unknown fields are ignored. Raises ValueError if it is not an event."""
    from pydantic_core import from_json

    try:
        record = from_json(line, cache_strings="keys")
        stamp, kind = float(record["time"]), record["event"]
        if not 0 <= stamp < _END_OF_TIME:
            raise ValueError(f"{stamp} is not a time")
        for value in record.values():
            if type(value) is int and abs(value) > _MAX_INTEGER:
                raise ValueError("a number is too large")
        return stamp, _validator(kind).validate_json(line, strict=True)
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(repr(error)) from error


@cache
def _validator(kind: str) -> "TypeAdapter[Event]":
    from pydantic import TypeAdapter

    return TypeAdapter(Event.kinds[kind])


# Seconds to wait for a lock: checking one holds it for an instant, far less than this.
_PATIENCE: Final = 1.0


def work_lock(path: Path) -> "FileLock":
    """A lock to hold while working. Acquiring it raises `filelock.Timeout` if another process holds it."""
    from filelock import FileLock

    return FileLock(path, timeout=_PATIENCE, mode=PRIVATE_FILE)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock."""
    from filelock import FileLock, Timeout

    try:
        if not path.exists():
            return False
        with FileLock(path, timeout=0, mode=PRIVATE_FILE):
            return False
    except Timeout:
        return True
    except OSError:  # another user's folder
        return False
