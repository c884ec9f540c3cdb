"""Events on disk: written, read back, cut off, rewound, followed."""

import dataclasses
import typing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.events import (
    CheckpointSaved,
    Event,
    FileSkipped,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStep,
)
from mbc_engine.runs import event_log
from mbc_engine.runs.event_log import EventFollower, EventLog, LogUpdate, read_events
from tests.conftest import write_log

STEP = TrainStep(3, 0, 1.5, 1.0, 0.25, 0.0, 0.25, None, 17.5, 2, 0.9, 1e-05, 12.5)
SOME = [TrainStarted(0, 8, 4, 2, 99), STEP, QuantisationStarted(3, 7), FileSkipped("ü/ж.pdf", 'a "quoted"\nreason')]
VALID_LINE = '{"time": 1, "event": "QuantisationStarted", "step": 1, "vectors": 2}'
INVALID_LINES = (
    "",
    "not json",
    "[]",
    *(VALID_LINE.replace(part, "") for part in ('"time": 1, ', '"event": "QuantisationStarted", ', ', "vectors": 2')),
    *(VALID_LINE.replace('"QuantisationStarted"', kind) for kind in ('"Nonesuch"', '["QuantisationStarted"]')),
    *(VALID_LINE.replace('1, "event"', f'{time}, "event"') for time in ("null", "1e300", -1, "NaN", "1" * 400)),
    *(VALID_LINE.replace("2}", f"{value}}}") for value in ('"2"', 2.5, 10**400)),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.jsonl"


def example_of(kind):
    """An event of any kind with a value of the right type in each field."""
    values = {int: 3, float: 0.5, str: "é\n", bool: True, tuple[str, ...]: ("ü",)}
    hints = typing.get_type_hints(kind)
    fields = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        is_literal = typing.get_origin(hint) is typing.Literal
        fields[field.name] = typing.get_args(hint)[0] if is_literal else values.get(hint)
    return kind(**fields)


def test_every_kind_of_event_is_read_back(path):
    events = [example_of(kind) for kind in Event.kinds.values()]
    assert len(events) >= 10
    write_log(path, *events)
    assert read_events(path) == events


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_half_written_last_line_is_left_out(path, cut):
    write_log(path, *SOME)
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_events(path) == SOME[:-1]


def test_unknown_fields_their_order_and_whole_numbers_do_not_matter(path):
    path.write_text(
        '{"event": "CheckpointSaved", "step": 1, "path": "p", "colour": "blue", "time": 1}\n'
        '{"seconds": 2, "model": "m", "event": "TrainFinished", "time": 1, "step": 3}\n'
    )
    assert read_events(path) == [CheckpointSaved(1, "p"), TrainFinished(3, 2.0, "m")]


def test_follower_skips_invalid_lines(path):
    write_log(path, *SOME[:1])
    with path.open("ab") as file:
        file.write("".join(line + "\n" for line in (*INVALID_LINES, VALID_LINE)).encode() + b"\xff\n")
    write_log(path, *SOME[1:])
    assert events_of(EventFollower(path).poll()) == [SOME[0], QuantisationStarted(1, 2), *SOME[1:]]


def events_of(log_update):
    assert not log_update.is_restarted
    return [event for _, event in log_update.events]


def test_follower_gets_each_event_once_with_its_time(path, monkeypatch):
    follower = EventFollower(path)
    assert follower.poll() == LogUpdate([])
    monkeypatch.setattr(event_log.time, "time", lambda: 12.3456)
    write_log(path, SOME[0])
    assert follower.poll() == LogUpdate([(12.346, SOME[0])])
    assert follower.poll() == LogUpdate([])
    assert EventFollower(path.parent).poll() == LogUpdate([])  # unreadable


def test_skimming_keeps_the_last_of_consecutive_steps(path):
    steps = [dataclasses.replace(STEP, step=number) for number in range(6)]
    reset = QuantisationStarted(1, 7)
    write_log(path, reset, *steps[:3], reset, steps[3], reset, reset, *steps[4:])
    follower = EventFollower(path, latest_only=TrainStep)
    assert events_of(follower.poll()) == [reset, steps[2], reset, steps[3], reset, reset, steps[5]]
    write_log(path, *steps[:2])
    assert events_of(follower.poll()) == [steps[1]]


@given(st.lists(st.sampled_from(["append", "cut", "rewind"]), max_size=12), st.integers(1, 3))
def test_following_in_slices_gives_what_the_log_holds(steps, most):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        follower, log = EventFollower(path), EventLog(path)
        held, known, positions = [], [], [0]
        for number, step in enumerate(steps):
            match step:
                case "append":
                    held.append(QuantisationStarted(number, 10**number))
                    log.append(held[-1])
                    positions.append(log.position())
                case "cut":
                    with path.open("ab") as file:
                        file.write(b'{"time": 1, "ev')
                    known = extended(known, follower.poll(most))
                    log.rewind(positions[-1])
                case "rewind":
                    del positions[len(positions) // 2 + 1 :]
                    del held[len(positions) - 1 :]
                    log.rewind(positions[-1])
            if number % 3 == 0:
                known = extended(known, follower.poll(most))
        log.close()
        has_more = True
        while has_more:
            log_update = follower.poll(most)
            assert len(log_update.events) <= most
            known, has_more = extended(known, log_update), log_update.has_more
        assert known == read_events(path) == held


def extended(known, log_update):
    return ([] if log_update.is_restarted else known) + [event for _, event in log_update.events]
