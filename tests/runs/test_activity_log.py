"""The log of ingests: the last one in full, and how earlier ones ended."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.runs import ingests as activity_log
from mbc_engine.runs.event_log import EventFollower, EventLog, read_events
from mbc_engine.runs.ingests import is_recorded, recorded

STARTED = IngestStarted(2, 20)
CHANGED, UNCHANGED = DocumentsIngested(1, 1, 1, 20, 0.5, ("/a",)), DocumentsIngested(0, 0, 2, 20, 0.5, ("/b",))
SKIPPED = FileSkipped('/"IngestFinished".png', "is a .png file")


def end(documents: int, removed: int = 0) -> IngestFinished:
    return IngestFinished(documents, 1, 0, removed, 0, 1.0, 0.5, True, documents, documents, 1, 27, 100, 500)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "activity" / "memory.jsonl"


def kept(path: Path) -> list[Event]:
    return list(read_events(path))


def test_an_ingest_is_kept_as_it_goes_even_if_it_changes_nothing(path: Path) -> None:
    events = [STARTED, SKIPPED, UNCHANGED, end(0)]
    seen = []
    for event in recorded(iter(events), path):
        seen.append(event)
        assert kept(path) == seen
    assert seen == events


def test_of_earlier_ingests_only_their_ends_are_kept(path: Path) -> None:
    for documents in (1, 2, 3):
        list(recorded([STARTED, SKIPPED, CHANGED, end(documents)], path))
    assert kept(path) == [end(1), end(2), STARTED, SKIPPED, CHANGED, end(3)]


def test_ends_keep_their_times(path: Path) -> None:
    list(recorded([STARTED, end(1)], path))
    before = path.read_bytes().splitlines()[1]
    list(recorded([STARTED], path))
    assert path.read_bytes().splitlines()[0] == before


def test_a_watch_leaves_nothing_of_what_changed_nothing(path: Path) -> None:
    first = [STARTED, UNCHANGED, end(0)]
    nothing = [STARTED, SKIPPED, UNCHANGED, end(0)]
    pruned = [STARTED, UNCHANGED, end(0, removed=1)]
    changed = [STARTED, SKIPPED, CHANGED, end(1)]
    assert list(recorded([*first, *nothing], path)) == [*first, *nothing]
    assert kept(path) == first
    list(recorded([*first, *nothing, *changed, *nothing], path))
    assert kept(path) == [end(0), end(0), *changed]
    list(recorded([*first, *pruned, *nothing], path))
    assert kept(path)[-3:] == pruned


def test_a_change_in_a_watch_is_seen_before_its_end(path: Path) -> None:
    events = recorded([STARTED, end(0), STARTED, UNCHANGED, CHANGED, end(1)], path)
    for _ in range(4):
        next(events)
    assert kept(path) == [STARTED, end(0)]
    next(events)
    assert kept(path) == [end(0), STARTED, UNCHANGED, CHANGED]
    events.close()


def test_an_ingest_in_a_watch_that_is_broken_off_is_followed_by_the_next(path: Path) -> None:
    list(recorded([STARTED, CHANGED, STARTED, CHANGED, end(2)], path))
    assert kept(path) == [STARTED, CHANGED, end(2)]


def test_a_follower_sees_that_a_log_was_reduced(path: Path) -> None:
    follower = EventFollower(path)
    list(recorded([STARTED, CHANGED, end(1)], path))
    assert len(follower.poll().events) == 3
    list(recorded([STARTED], path))
    log_update = follower.poll()
    assert log_update.is_restarted
    assert [event for _, event in log_update.events] == [end(1), STARTED]


def test_the_second_of_two_ingests_at_once_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbc_engine.runs.event_log._PATIENCE", 0.0)
    first = recorded([STARTED, CHANGED, end(1)], path)
    next(first)
    assert is_recorded(path)
    assert list(recorded([STARTED, CHANGED, end(2)], path)) == [STARTED, CHANGED, end(2)]
    list(first)
    assert kept(path) == [STARTED, CHANGED, end(1)]
    assert not is_recorded(path)


def test_between_the_ingests_of_a_watch_others_are_kept(path: Path) -> None:
    watch = recorded([STARTED, end(1), STARTED, CHANGED, end(3)], path)
    next(watch)
    next(watch)
    next(watch)
    list(recorded([STARTED, CHANGED, end(2)], path))
    list(watch)
    assert kept(path) == [end(1), end(2), STARTED, CHANGED, end(3)]


def test_an_ingest_that_fails_leaves_the_log_to_others(path: Path) -> None:
    def failing() -> Iterator[Event]:
        yield STARTED
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        list(recorded(failing(), path))
    assert not is_recorded(path)
    assert kept(path) == [STARTED]


def test_only_the_latest_ends_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_log, "_ENDS", 3)
    for documents in range(6):
        list(recorded([STARTED, end(documents)], path))
    assert [event.documents for event in kept(path) if isinstance(event, IngestFinished)] == [2, 3, 4, 5]


def test_damaged_lines_of_a_log_go(path: Path) -> None:
    list(recorded([STARTED, end(1)], path))
    with path.open("ab") as file:
        file.write(b'\xff\n{"event": "IngestFinished"}\n{"time": 1, "event": "IngestFin')
    list(recorded([STARTED, end(2)], path))
    assert kept(path) == [end(1), STARTED, end(2)]


def test_a_log_that_cannot_be_begun_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert list(recorded([STARTED, end(1)], tmp_path / "file" / "log.jsonl")) == [STARTED, end(1)]


def test_a_log_that_cannot_be_written_any_more_stops_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(log: EventLog, event: Event) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventLog, "append", full)
    assert list(recorded([STARTED, CHANGED, end(1)], path)) == [STARTED, CHANGED, end(1)]
    assert not is_recorded(path)
