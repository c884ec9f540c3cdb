"""Events on disk: written, read back, cut off, rewound, followed."""

import dataclasses
import json
import typing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.errors import DataError
from mbc_engine.events import (
    CheckpointSaved,
    Event,
    FileSkipped,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
)
from mbc_engine.runs import event_log
from mbc_engine.runs.event_log import EventFollower, EventLog, LogUpdate, read_events

STEP = TrainStep(3, 0, 1.5, 1.0, 0.25, 0.0, 0.25, None, 17.5, 2, 0.9, 1e-05, 12.5)
SOME: list[Event] = [
    TrainStarted(0, 8, 4, 2, 99),
    STEP,
    QuantisationStarted(3, 7),
    FileSkipped("ü/ж.pdf", 'a "quoted"\nreason'),
]


def written(path: Path, events: list[Event]) -> Path:
    log = EventLog(path)
    for event in events:
        log.append(event)
    log.close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def example_of(kind: type[Event]) -> Event:
    """An event of any kind with a value of the right type in each field."""
    values = {"int": 3, "float": 0.5, "str": "é\n", "bool": True}
    hints = typing.get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    return kind(
        **{
            name: values[hint.__name__]
            if hint in (int, float, str, bool)
            else typing.get_args(hint)[0]
            if typing.get_origin(hint) is typing.Literal
            else ("ü",)
            if hint == tuple[str, ...]
            else None
            for name, hint in fields.items()
        }
    )


def test_a_follower_that_skims_reads_the_last_of_several_in_a_row(path: Path) -> None:
    steps = [dataclasses.replace(STEP, step=number) for number in range(6)]
    reset = QuantisationStarted(1, 7)
    written(path, [reset, *steps[:3], reset, steps[3], reset, reset, *steps[4:]])
    follower = EventFollower(path, latest_only=TrainStep)
    assert [event for _, event in follower.poll().events] == [reset, steps[2], reset, steps[3], reset, reset, steps[5]]
    written(path, [dataclasses.replace(STEP, step=6), dataclasses.replace(STEP, step=7)])
    assert [event.step for _, event in follower.poll().events] == [7]  # type: ignore[attr-defined]


@pytest.mark.parametrize("time", ["1e300", "-1", "NaN", "1" * 400])
def test_a_line_with_a_time_that_is_none_is_no_event(time: str) -> None:
    with pytest.raises(ValueError):
        event_log.parse_line(f'{{"time": {time}, "event": "QuantisationStarted", "step": 3, "vectors": 7}}'.encode())


def test_a_line_with_a_number_too_large_to_compute_with_is_no_event(path: Path) -> None:
    written(path, [dataclasses.replace(STEP, dead_codes=10**400), STEP])
    assert [event for _, event in EventFollower(path).poll().events] == [STEP]


def test_every_kind_of_event_comes_back_as_it_was(path: Path) -> None:
    events = [example_of(kind) for kind in Event.kinds.values()]
    assert len(events) >= 10
    assert list(read_events(written(path, events))) == events


def test_a_line_is_an_object_with_name_and_time(path: Path) -> None:
    written(path, [SOME[2]])
    record = json.loads(path.read_text())
    time = record.pop("time")
    assert record == {"event": "QuantisationStarted", "step": 3, "vectors": 7}
    assert time > 1.7e9


def test_an_event_is_readable_at_once(path: Path) -> None:
    log = EventLog(path)
    log.append(STEP)
    assert list(read_events(path)) == [STEP]
    log.close()


def test_a_log_is_appended_to(path: Path) -> None:
    written(path, SOME[:2])
    assert list(read_events(written(path, SOME[2:]))) == SOME


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_half_written_last_line_is_left_out(path: Path, cut: int) -> None:
    content = written(path, SOME).read_bytes()
    path.write_bytes(content[:-cut])
    assert list(read_events(path)) == SOME[:-1]


def test_a_log_cut_after_a_line_loses_nothing(path: Path) -> None:
    lines = written(path, SOME).read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    assert list(read_events(path)) == SOME[:2]


def test_rewinding_forgets_what_came_after(path: Path) -> None:
    log = EventLog(path)
    log.append(SOME[0])
    position = log.position()
    log.append(SOME[1])
    log.append(SOME[2])
    log.rewind(position)
    assert log.position() == position == path.stat().st_size
    log.append(SOME[3])
    log.close()
    assert list(read_events(path)) == [SOME[0], SOME[3]]


def test_a_reopened_log_rewinds_over_a_half_written_line(path: Path) -> None:
    log = EventLog(path)
    log.append(SOME[0])
    position = log.position()
    log.append(SOME[1])
    log.close()
    path.write_bytes(path.read_bytes()[:-4])
    log = EventLog(path)
    log.rewind(position)
    log.append(TrainStateChanged("stopped", 1, 2))
    log.close()
    assert list(read_events(path)) == [SOME[0], TrainStateChanged("stopped", 1, 2)]


def test_fields_of_a_newer_version_are_ignored(path: Path) -> None:
    path.write_text('{"event": "CheckpointSaved", "step": 1, "path": "p", "colour": "blue", "time": 1}\n')
    assert list(read_events(path)) == [CheckpointSaved(1, "p")]


NO_EVENTS = (
    "",
    "not json",
    "[]",
    "1",
    '{"time": 1, "event": "Nonesuch"}',
    '{"time": 1, "event": ["QuantisationStarted"]}',
    '{"time": 1, "step": 1}',
    '{"event": "QuantisationStarted", "step": 1, "vectors": 2}',
    '{"time": null, "event": "QuantisationStarted", "step": 1, "vectors": 2}',
    '{"time": 1, "event": "QuantisationStarted", "step": 1}',
    '{"time": 1, "event": "QuantisationStarted", "step": 1, "vectors": "2"}',
    '{"time": 1, "event": "QuantisationStarted", "step": 1, "vectors": 2.5}',
    '{"time": 1, "event": "QuantisationStarted", "step": 1, "vectors": null}',
)


@pytest.mark.parametrize("line", NO_EVENTS)
def test_a_complete_line_that_is_no_event_is_an_error(path: Path, line: str) -> None:
    path.write_text('{"time": 1, "event": "QuantisationStarted", "step": 1, "vectors": 2}\n' + line + "\n")
    events = read_events(path)
    assert next(events) == QuantisationStarted(1, 2)
    with pytest.raises(DataError, match="line 2 is not an event"):
        next(events)


def test_a_whole_number_may_stand_for_a_fraction_and_fields_in_any_order(path: Path) -> None:
    path.write_text('{"seconds": 2, "model": "m", "event": "TrainFinished", "time": 1, "step": 3}\n')
    (event,) = read_events(path)
    assert event == TrainFinished(3, 2.0, "m")


def of(log_update: LogUpdate) -> list[Event]:
    assert not log_update.is_restarted
    return [event for _, event in log_update.events]


def test_a_follower_gets_each_event_once_with_its_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = EventFollower(path)
    assert follower.poll() == LogUpdate([])
    log = EventLog(path)
    assert follower.poll() == LogUpdate([])
    monkeypatch.setattr(event_log.time, "time", lambda: 12.3456)
    log.append(SOME[0])
    assert follower.poll() == LogUpdate([(12.346, SOME[0])])
    assert follower.poll() == LogUpdate([])
    log.append(SOME[1])
    log.append(SOME[2])
    assert of(follower.poll()) == SOME[1:3]
    log.close()


def test_a_half_written_line_is_left_for_later(path: Path, tmp_path: Path) -> None:
    content = written(tmp_path / "whole.jsonl", SOME).read_bytes()
    follower, events = EventFollower(path), []
    for end in range(0, len(content) + 1, 7):
        path.write_bytes(content[:end])
        events += of(follower.poll())
    path.write_bytes(content)
    assert events + of(follower.poll()) == SOME


@pytest.mark.parametrize("further", [0, 1, 2, 5])
def test_a_log_that_was_cut_back_is_read_anew_however_much_it_has_grown_since(path: Path, further: int) -> None:
    log, follower = EventLog(path), EventFollower(path)
    log.append(SOME[0])
    position = log.position()
    log.append(SOME[1])
    log.append(SOME[2])
    follower.poll()
    log.rewind(position)
    again = [FileSkipped("x" * 200, str(number)) for number in range(further)]
    for event in again:
        log.append(event)
    log.close()
    log_update = follower.poll()
    assert log_update.is_restarted
    assert [event for _, event in log_update.events] == [SOME[0], *again]
    assert follower.poll() == LogUpdate([])


def test_a_log_cut_back_to_what_was_read_goes_on(path: Path) -> None:
    log, follower = EventLog(path), EventFollower(path)
    log.append(SOME[0])
    position = log.position()
    assert of(follower.poll()) == SOME[:1]
    log.append(SOME[1])
    log.rewind(position)
    log.append(SOME[2])
    log.close()
    assert of(follower.poll()) == [SOME[2]]


def test_another_log_in_the_place_of_one_is_read_anew(path: Path, tmp_path: Path) -> None:
    follower = EventFollower(written(path, SOME))
    follower.poll()
    written(tmp_path / "other.jsonl", [*SOME[1:], *SOME]).replace(path)
    log_update = follower.poll()
    assert log_update.is_restarted
    assert len(log_update.events) == 7


def test_a_log_that_goes_leaves_nothing_and_may_come_again(path: Path) -> None:
    follower = EventFollower(written(path, SOME))
    follower.poll()
    path.unlink()
    assert follower.poll() == LogUpdate([], is_restarted=True)
    assert follower.poll() == LogUpdate([])
    assert of(EventFollower(written(path, SOME)).poll()) == of(follower.poll()) == SOME


def test_a_log_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    assert EventFollower(tmp_path).poll() == LogUpdate([])


def test_a_follower_passes_over_what_is_no_event(path: Path) -> None:
    written(path, SOME[:1])
    with path.open("ab") as file:
        file.write("".join(line + "\n" for line in NO_EVENTS).encode() + b"\xff\n")
    written(path, SOME[1:])
    assert of(EventFollower(path).poll()) == SOME


@given(st.lists(st.sampled_from(["append", "cut", "rewind"]), max_size=12), st.integers(1, 3))
def test_a_log_read_in_slices_gives_the_same_events(steps: list[str], most: int) -> None:
    """After any appends, half-written lines and rewinds, polled in slices now and then: what the log holds then."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        follower, known, log = EventFollower(path), list[Event](), EventLog(path)
        positions = [0]
        for number, step in enumerate(steps):
            match step:
                case "append":
                    log.append(QuantisationStarted(number, 10**number))
                    positions.append(log.position())
                case "cut":
                    with path.open("ab") as file:
                        file.write(b'{"time": 1, "ev')
                    known = take(follower.poll(most), known)
                    log.rewind(positions[-1])
                case "rewind":
                    del positions[len(positions) // 2 + 1 :]
                    log.rewind(positions[-1])
            if number % 3 == 0:
                known = take(follower.poll(most), known)
        log.close()
        has_more = True
        while has_more:
            log_update = follower.poll(most)
            assert len(log_update.events) <= most
            known, has_more = take(log_update, known), log_update.has_more
        assert known == list(read_events(path))


def take(log_update: LogUpdate, known: list[Event]) -> list[Event]:
    return ([] if log_update.is_restarted else known) + [event for _, event in log_update.events]


def test_an_idle_poll_opens_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = EventFollower(written(path, SOME))
    follower.poll()
    monkeypatch.setattr(Path, "open", None)
    assert follower.poll() == LogUpdate([])
