"""The log of ingests, the last in full and the ends of earlier ones, and the history computed from it."""

from dataclasses import replace

import pytest

from mbc_engine.events import DocumentsIngested, FileSkipped, IngestFinished, IngestStarted, TextsRecoded
from mbc_engine.runs import ingests
from mbc_engine.runs.event_log import EventFollower, EventLog, read_events
from mbc_engine.runs.ingests import IngestHistory, forget_names, is_recorded, recorded

STARTED = IngestStarted(2, 20)
CHANGED, UNCHANGED = DocumentsIngested(1, 1, 1, 20, 0.5, ("/a",)), DocumentsIngested(0, 0, 2, 20, 0.5, ("/b",))
RECODED = TextsRecoded(2, 8, 100, 60, 3.0, "lm")
SKIPPED = FileSkipped('/"IngestFinished".png', "is a .png file")


def end(documents, removed=0):
    return IngestFinished(documents, 1, 0, removed, 0, 1.0, 0.5, True, documents, documents, 1, 27, 100, 500)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "activity" / "memory.jsonl"


def test_first_ingest_is_logged_as_it_runs(path):
    events = [STARTED, SKIPPED, UNCHANGED, RECODED, end(0)]
    seen = []
    for event in recorded(iter(events), path):
        seen.append(event)
        assert read_events(path) == seen
    assert seen == events


def test_only_ends_of_earlier_ingests_stay(path, monkeypatch):
    monkeypatch.setattr(ingests, "_ENDS", 2)
    follower = EventFollower(path)
    list(recorded([STARTED, SKIPPED, CHANGED, end(0)], path))
    first_end = path.read_bytes().splitlines()[-1]
    assert len(follower.poll().events) == 4
    list(recorded([STARTED, SKIPPED, CHANGED, end(1)], path))
    assert follower.poll().is_restarted
    assert path.read_bytes().splitlines()[0] == first_end  # with its time
    for documents in (2, 3):
        list(recorded([STARTED, SKIPPED, CHANGED, end(documents)], path))
    assert read_events(path) == [end(1), end(2), STARTED, SKIPPED, CHANGED, end(3)]


def test_watch_logs_only_ingests_that_change_something(path):
    first = [STARTED, UNCHANGED, end(0)]
    nothing = [STARTED, SKIPPED, UNCHANGED, end(0)]
    pruned = [STARTED, UNCHANGED, end(0, removed=1)]
    changed = [STARTED, SKIPPED, CHANGED, end(1)]
    assert list(recorded([*first, *nothing], path)) == [*first, *nothing]
    assert read_events(path) == first
    list(recorded([*first, *nothing, *changed, *nothing], path))
    assert read_events(path) == [end(0), end(0), *changed]
    list(recorded([*first, *pruned, *nothing], path))
    assert read_events(path)[-3:] == pruned


def test_interrupted_ingest_of_a_watch_is_followed_by_the_next(path):
    list(recorded([STARTED, CHANGED, STARTED, CHANGED, end(2)], path))
    assert read_events(path) == [STARTED, CHANGED, end(2)]


def test_second_of_two_concurrent_ingests_is_not_logged(path, monkeypatch):
    monkeypatch.setattr("mbc_engine.runs.event_log._PATIENCE", 0.0)
    first = recorded([STARTED, CHANGED, end(1)], path)
    next(first)
    assert is_recorded(path)
    assert list(recorded([STARTED, CHANGED, end(2)], path)) == [STARTED, CHANGED, end(2)]
    list(first)
    assert read_events(path) == [STARTED, CHANGED, end(1)]
    assert not is_recorded(path)


def test_failed_ingest_releases_the_log(path):
    def failing():
        yield STARTED
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        list(recorded(failing(), path))
    assert not is_recorded(path)
    with path.open("ab") as file:
        file.write(b'\xff\n{"event": "IngestFinished"}\n{"time": 1, "event": "IngestFin')
    list(recorded([STARTED, end(2)], path))  # damaged lines are dropped
    assert read_events(path) == [STARTED, end(2)]


def test_unwritable_log_stops_no_ingest(path, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert list(recorded([STARTED, end(1)], tmp_path / "file" / "log.jsonl")) == [STARTED, end(1)]

    def full(log, event):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(EventLog, "append", full)
    assert list(recorded([STARTED, CHANGED, end(1)], path)) == [STARTED, CHANGED, end(1)]
    assert not is_recorded(path)


def history(*events):
    """The history of events a second apart."""
    made = IngestHistory()
    made.add((float(second), event) for second, event in enumerate(events))
    return made


def report(chunks, size, seconds, source="/a"):
    return DocumentsIngested(chunks // 10, chunks, 0, size, seconds, (source,))


def test_running_ingest_is_summarised():
    skipped = FileSkipped("/b.png", "is a .png file")
    ingest = history(IngestStarted(4, 800), skipped, report(10, 100, 1.0), report(40, 200, 3.0, "/c"))
    assert (ingest.state, ingest.began, ingest.started) == ("running", 0.0, IngestStarted(4, 800))
    assert (list(ingest.skipped), ingest.skips, list(ingest.sources)) == ([skipped], 1, ["/a", "/c"])
    assert (ingest.reported, ingest.size_done) == (report(40, 200, 3.0, "/c"), 200)
    # 30 chunks and 100 bytes in two seconds; 600 bytes are left.
    assert (ingest.rate, ingest.seconds_left, list(ingest.pace)) == (15.0, 12.0, [15.0])


def test_next_ingest_starts_anew_but_keeps_growth_and_names():
    ingest = history(IngestStarted(4, 800), FileSkipped("/b", "is empty"), report(10, 100, 1.0), end(1), STARTED)
    assert (ingest.state, ingest.skips, list(ingest.pace)) == ("running", 0, [])
    assert ingest.reported is ingest.finished is ingest.rate is None
    assert list(ingest.growth) == [(3.0, end(1))]
    assert list(ingest.sources) == ["/a"]


@pytest.mark.parametrize(("is_complete", "state"), [(True, "finished"), (False, "stopped")])
def test_end_determines_the_state(is_complete, state):
    assert history(STARTED, replace(end(1), is_complete=is_complete)).state is state


def test_unknown_time_left():
    stream_of_unknown_size = history(IngestStarted(1, 0), report(10, 0, 1.0), report(20, 0, 2.0))
    no_time_has_passed = history(IngestStarted(1, 99), report(10, 9, 1.0), report(10, 9, 1.0))
    made = (history(), stream_of_unknown_size, no_time_has_passed)
    assert [(ingest.rate, ingest.seconds_left) for ingest in made] == [(None, None), (10.0, None), (None, None)]


def test_recoding_has_a_pace_of_its_own():
    ingest = history(IngestStarted(4, 800), report(10, 100, 1.0), RECODED)
    assert (ingest.recoded, ingest.seconds_left) == (RECODED, 9.0)
    assert history(IngestStarted(4, 800), RECODED, end(1), STARTED).recoded is None


def test_names_are_forgotten_with_the_next_ingest_and_on_removal(path):
    named = replace(end(1), memorised_sources=("/a",), removed_sources=("/b",), gone_sources=("/c",))
    forget_names(path)
    assert not path.exists()
    list(recorded([STARTED, SKIPPED, CHANGED, named], path))
    list(recorded([STARTED, CHANGED, end(2)], path))
    assert read_events(path) == [end(1), STARTED, CHANGED, end(2)]
    forget_names(path)
    assert read_events(path) == [end(1), end(2)]
