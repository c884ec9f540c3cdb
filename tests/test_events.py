"""Events on disk: written, read back, cut off, rewound."""

import dataclasses
import json
import typing
from pathlib import Path

import pytest

from mbc_engine.errors import DataError
from mbc_engine.events import (
    CheckpointSaved,
    CodesReset,
    Event,
    EventLog,
    FileSkipped,
    TrainStarted,
    TrainStep,
    TrainStopped,
    read_events,
)

STEP = TrainStep(3, 0, 1.5, 1.0, 0.25, 0.0, 0.25, None, 17.5, 2, 0.9, 1e-05, 12.5)
SOME: list[Event] = [TrainStarted(0, 8, 4, 2, 99), STEP, CodesReset(3, 7), FileSkipped("ü/ж.pdf", 'a "quoted"\nreason')]


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
            name: values[getattr(hint, "__name__", "")] if hint in (int, float, str, bool) else None
            for name, hint in fields.items()
        }
    )


def test_every_kind_of_event_comes_back_as_it_was(path: Path) -> None:
    events = [example_of(kind) for kind in Event.kinds.values()]
    assert len(events) >= 10
    assert list(read_events(written(path, events))) == events


def test_a_line_is_an_object_with_name_and_time(path: Path) -> None:
    written(path, [SOME[2]])
    record = json.loads(path.read_text())
    time = record.pop("time")
    assert record == {"event": "CodesReset", "step": 3, "count": 7}
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
    log.append(TrainStopped(1, 2))
    log.close()
    assert list(read_events(path)) == [SOME[0], TrainStopped(1, 2)]


def test_fields_of_a_newer_version_are_ignored(path: Path) -> None:
    path.write_text('{"event": "CheckpointSaved", "step": 1, "path": "p", "colour": "blue", "time": 1}\n')
    assert list(read_events(path)) == [CheckpointSaved(1, "p")]


@pytest.mark.parametrize(
    "line", ["not json", "[]", '{"event": "Nonesuch"}', '{"step": 1}', '{"event": "CodesReset", "step": 1}']
)
def test_a_complete_line_that_is_no_event_is_an_error(path: Path, line: str) -> None:
    path.write_text('{"event": "CodesReset", "step": 1, "count": 2}\n' + line + "\n")
    events = read_events(path)
    assert next(events) == CodesReset(1, 2)
    with pytest.raises(DataError, match="line 2 is not an event"):
        next(events)


def test_events_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        STEP.step = 4  # type: ignore[misc]
