"""A training run's folder, and its history: curves, thinned by hand, and time estimates."""

import math
import os
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.events import (
    CheckpointSaved,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
    Validated,
)
from mbc_engine.runs.event_log import EventLog, work_lock
from mbc_engine.runs.training_runs import (
    CURVES,
    EVENTS,
    LOCK,
    FollowedRun,
    RunHistory,
    is_stop_requested,
    read_usage,
    request_stop,
    runs_in,
    withdraw_stop,
    write_usage,
)

STARTED = TrainStarted(0, 40, 100, 50, 999)
FIRST = TrainStep(1, 0, 1.5, 1.0, 0.25, 0.0, 0.25, None, 17.5, 2, 0.9, 1e-05, 12.5)


def test_request_to_stop_holds_until_withdrawn(tmp_path):
    assert not is_stop_requested(tmp_path)
    for _ in range(2):
        request_stop(tmp_path)
    run = FollowedRun(tmp_path)
    assert is_stop_requested(tmp_path) and not run.is_stopping  # nobody is training
    run.is_running = True
    assert run.is_stopping
    for _ in range(2):
        withdraw_stop(tmp_path)
    assert not is_stop_requested(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_usage_is_read_back(tmp_path):
    assert read_usage(tmp_path) is None
    usage = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    write_usage(tmp_path, usage, 7)
    write_usage(tmp_path / "nowhere", usage, 7)  # ignored
    np.testing.assert_array_equal(read_usage(tmp_path), usage)


@pytest.mark.parametrize(
    "usage",
    [
        np.zeros(4, np.float32),
        np.ones((1, 1, 2), np.int64),
        np.full((1, 1, 2), np.inf, np.float32),
        b"",
        b"\x02\0\0\0\0\0\0\0{}",
        b"nonsense",
    ],
    ids=["shape", "type", "infinite", "empty", "no tensor", "no safetensors"],
)
def test_invalid_usage_is_none(tmp_path, usage):
    write_usage(tmp_path, np.zeros((1, 1, 2), np.float32) if isinstance(usage, bytes) else usage, 0)
    if isinstance(usage, bytes):
        next(tmp_path.iterdir()).write_bytes(usage)
    assert read_usage(tmp_path) is None


def test_runs_are_listed_by_last_change(tmp_path):
    for name, changed in (("b", 200), ("a", 200), ("old", 100), ("new", 300)):
        (tmp_path / name).mkdir()
        (tmp_path / name / EVENTS).touch()
        os.utime(tmp_path / name / EVENTS, (changed, changed))
    (tmp_path / "model").mkdir()
    (tmp_path / "file").touch()
    assert [run.name for run in runs_in(tmp_path)] == ["new", "a", "b", "old"]
    assert runs_in(tmp_path / "nowhere") == []


def test_run_without_an_end_or_a_process_is_interrupted(tmp_path):
    run = FollowedRun(tmp_path)
    assert run.state == "interrupted"
    log = EventLog(tmp_path / EVENTS)
    with work_lock(tmp_path / LOCK):
        run.update()
        assert run.state == "preparing"
        log.append(TrainStarted(0, 2, 1, 1, 1))
        assert len(run.update().events) == 1
        assert run.state == "training"
    run.update()
    assert run.state == "interrupted"
    for event, state in ((TrainStateChanged("stopped", 1, 2), "stopped"), (TrainFinished(2, 1.0, "m"), "finished")):
        log.append(event)
        run.update()
        assert run.state is state
    assert run.history.started == TrainStarted(0, 2, 1, 1, 1)
    log.rewind(0)
    assert run.update().is_restarted
    assert run.history.started is None
    log.close()


def step(number, **fields):
    return replace(FIRST, step=number, **fields)


def history(*events):
    """The history of events at given times, or a second apart."""
    made = RunHistory()
    made.add(event if isinstance(event, tuple) else (float(second), event) for second, event in enumerate(events))
    return made


def test_training_is_summarised():
    best, worse = Validated(2, 0, 3, 3, 50.0, 60.0, 70.0, True), Validated(3, 1, 3, 3, 50.0, 59.0, 70.0, False)
    read, last = Progressed("read texts", 50, 50), step(3, examples_per_second=25.5, reset_codes=2)
    quantised = QuantisationStarted(1, 50)
    saved = [CheckpointSaved(number, "s") for number in (2, 3)]
    run = history(read, STARTED, FIRST, quantised, step(2, reset_codes=7), best, saved[0], last, worse, saved[1])
    assert (run.started, run.cached, run.latest) == (STARTED, read, last)
    assert (run.validations, run.best) == ([best, worse], best)
    assert (run.resets, run.codes_reset) == ([2, 3], 9)
    assert (run.quantised, run.checkpoints) == (quantised, [2, 3])
    assert (run.step, run.total_steps, run.last_time) == (3, 40, 9.0)
    assert run.throughput == pytest.approx((12.5 + 12.5 + 25.5) / 3)


def test_empty_history():
    run = history()
    assert (run.state, run.step, run.total_steps, run.last_time) == ("preparing", 0, 0, None)
    assert (run.throughput, run.seconds_left) == (None, None)
    assert len(run.series("loss", 10)[0]) == 0
    assert history(TrainStarted(7, 40, 100, 50, 999)).step == 7  # resumed


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([Progressed("read texts", 1, 2)], "preparing"),
        ([Progressed("read texts", 1, 2), TrainStateChanged("stopped", 0, 40)], "stopped"),
        ([STARTED], "training"),
        ([STARTED, FIRST, TrainStateChanged("paused", 1, 40)], "training"),
        ([STARTED, FIRST, TrainStateChanged("paused", 1, 40), TrainStateChanged("stopped", 1, 40)], "stopped"),
        ([STARTED, FIRST, TrainFinished(40, 1.0, "m")], "finished"),
    ],
)
def test_last_event_determines_the_state(events, state):
    assert history(*events).state is state


def test_time_left_follows_from_the_median_step():
    """Steps after 2, 3, 2 and, with a validation, 60 seconds: the median is 2.5, and 35 steps are left."""
    times = (10.0, 12.0, 15.0, 17.0, 77.0)
    steps = [(time, step(number)) for number, time in enumerate(times, 1)]
    assert history((0.0, STARTED), *steps).seconds_left == 35 * 2.5
    assert history((0.0, STARTED), *steps, (99.0, TrainFinished(40, 99.0, "m"))).seconds_left == 0.0
    assert history((0.0, STARTED), steps[0]).seconds_left is None
    slow = [(10.0 * number, step(number)) for number in range(60)]  # too long ago to count
    quick = [(590.0 + number, step(60 + number)) for number in range(1, 41)]
    assert history((0.0, replace(STARTED, total_steps=110)), *slow, *quick).seconds_left == 10 * 1.0


@pytest.mark.parametrize("name", CURVES)
def test_each_field_of_a_step_has_a_curve(name):
    steps, values = history(STARTED, FIRST, step(2, route_accuracy=0.5)).series(name, 2)
    assert steps.tolist() == [1.0, 2.0]
    if name == "route_accuracy":
        assert (math.isnan(values[0]), values[1]) == (True, 0.5)
    else:
        assert values.tolist() == [getattr(FIRST, name)] * 2


@given(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=40), st.integers(1, 12))
def test_thinning_equals_the_slow_way(values, points):
    series = history(*(step(number, route_accuracy=value) for number, value in enumerate(values))).series(
        "route_accuracy", points
    )
    count = min(points, len(values))
    steps, means = [], []
    for point in range(count):
        bucket = range(point * len(values) // count, (point + 1) * len(values) // count)
        present = [value for value in values[bucket.start : bucket.stop] if value is not None]
        steps.append(sum(bucket) / len(bucket))
        means.append(sum(present) / len(present) if present else math.nan)
    np.testing.assert_allclose(series[0], steps)
    np.testing.assert_allclose(series[1], means)
