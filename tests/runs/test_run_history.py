"""The state of a training, computed from its events: curves, thinned by hand, and time estimates."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.events import (
    CheckpointSaved,
    Event,
    Progressed,
    QuantisationStarted,
    TrainFinished,
    TrainStarted,
    TrainStateChanged,
    TrainStep,
    Validated,
)
from mbc_engine.runs.training_runs import CURVES, RunHistory, RunState

STARTED = TrainStarted(0, 40, 100, 50, 999)
FIRST = TrainStep(1, 0, 1.5, 1.0, 0.25, 0.0, 0.25, None, 17.5, 2, 0.9, 1e-05, 12.5)


def step(number: int, **fields: float | None) -> TrainStep:
    return replace(FIRST, step=number, **fields)  # type: ignore[arg-type]


def history(*events: Event | tuple[float, Event]) -> RunHistory:
    """The history of events at given times, or a second apart."""
    made = RunHistory()
    made.add(event if isinstance(event, tuple) else (float(second), event) for second, event in enumerate(events))
    return made


def test_a_training_is_summarised() -> None:
    best, worse = Validated(2, 0, 3, 3, 50.0, 60.0, 70.0, True), Validated(3, 1, 3, 3, 50.0, 59.0, 70.0, False)
    run = history(
        Progressed("read texts", 50, 50),
        STARTED,
        FIRST,
        QuantisationStarted(1, 50),
        step(2, reset_codes=7),
        best,
        CheckpointSaved(2, "s"),
        step(3, examples_per_second=25.5, reset_codes=2),
        worse,
        CheckpointSaved(3, "s"),
    )
    assert (run.started, run.cached, run.latest) == (
        STARTED,
        Progressed("read texts", 50, 50),
        step(3, examples_per_second=25.5, reset_codes=2),
    )
    assert (run.validations, run.best) == ([best, worse], best)
    assert (run.resets, run.codes_reset) == ([2, 3], 9)
    assert (run.quantised, run.checkpoints) == (QuantisationStarted(1, 50), [2, 3])
    assert (run.step, run.total_steps, run.last_time) == (3, 40, 9.0)
    assert run.throughput == pytest.approx((12.5 + 12.5 + 25.5) / 3)


def test_without_events_nothing_is_known() -> None:
    run = history()
    assert (run.state, run.step, run.total_steps, run.last_time) == ("preparing", 0, 0, None)
    assert (run.throughput, run.seconds_left) == (None, None)
    assert len(run.series("loss", 10)[0]) == 0


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([Progressed("read texts", 1, 2)], "preparing"),
        ([Progressed("read texts", 1, 2), TrainStateChanged("stopped", 0, 40)], "stopped"),
        ([STARTED], "training"),
        ([STARTED, FIRST, TrainStateChanged("paused", 1, 40)], "training"),
        ([STARTED, FIRST, TrainStateChanged("paused", 1, 40), TrainStateChanged("training", 1, 40)], "training"),
        ([STARTED, FIRST, TrainStateChanged("paused", 1, 40), TrainStateChanged("stopped", 1, 40)], "stopped"),
        ([STARTED, FIRST, TrainFinished(40, 1.0, "m")], "finished"),
    ],
)
def test_the_state_is_that_of_the_last_event(events: list[Event], state: RunState) -> None:
    assert history(*events).state is state


def test_a_resumed_training_goes_on_where_it_began() -> None:
    assert history(TrainStarted(7, 40, 100, 50, 999)).step == 7


def test_the_time_left_follows_from_the_median_step() -> None:
    """Steps after 2, 3, 2 and, with a validation, 60 seconds: the median is 2.5, and 35 steps are left."""
    times = (10.0, 12.0, 15.0, 17.0, 77.0)
    steps = [(time, step(number)) for number, time in enumerate(times, 1)]
    assert history((0.0, STARTED), *steps).seconds_left == 35 * 2.5
    assert history((0.0, STARTED), *steps, (99.0, TrainFinished(40, 99.0, "m"))).seconds_left == 0.0
    assert history((0.0, STARTED), steps[0]).seconds_left is None


def test_only_the_last_steps_determine_the_time_left() -> None:
    slow = [(10.0 * number, step(number)) for number in range(60)]
    quick = [(590.0 + number, step(60 + number)) for number in range(1, 41)]
    assert history((0.0, replace(STARTED, total_steps=110)), *slow, *quick).seconds_left == 10 * 1.0


def test_every_field_of_a_step_makes_a_curve() -> None:
    run = history(STARTED, FIRST, step(2, route_accuracy=0.5))
    for name in CURVES:
        series = run.series(name, 2)
        assert series[0].tolist() == [1.0, 2.0]
        if name == "route_accuracy":
            assert math.isnan(series[1][0])
            assert series[1][1] == 0.5
        else:
            assert series[1].tolist() == [getattr(FIRST, name)] * 2


def test_a_thinned_curve_has_the_means_of_neighbours() -> None:
    """Seven steps in three buckets: of 2, 2 and 3."""
    losses = (1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 11.0)
    series = history(STARTED, *(step(number, loss=loss) for number, loss in enumerate(losses, 1))).series("loss", 3)
    assert series[0].tolist() == [1.5, 3.5, 6.0]
    assert series[1].tolist() == [1.5, 4.0, 8.0]


def test_what_is_missing_has_no_part_in_a_mean() -> None:
    values = (None, 0.25, None, None, 0.5, 1.0)
    run = history(*(step(number, route_accuracy=value) for number, value in enumerate(values)))
    thinned = run.series("route_accuracy", 3)[1]
    assert (thinned[0], thinned[2]) == (0.25, 0.75)
    assert math.isnan(thinned[1])


@given(st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=40), st.integers(1, 12))
def test_thinning_equals_the_slow_way(values: list[int | None], points: int) -> None:
    run = history(*(step(number, route_accuracy=value) for number, value in enumerate(values)))
    series = run.series("route_accuracy", points)
    count = min(points, len(values))
    steps, means = [], []
    for point in range(count):
        bucket = range(point * len(values) // count, (point + 1) * len(values) // count)
        present = [value for value in values[bucket.start : bucket.stop] if value is not None]
        steps.append(sum(bucket) / len(bucket))
        means.append(sum(present) / len(present) if present else math.nan)
    np.testing.assert_allclose(series[0], steps)
    np.testing.assert_allclose(series[1], means)


def test_events_may_come_bit_by_bit() -> None:
    events: list[Event] = [STARTED, *map(step, range(1, 30))]
    whole, run = history(*events), RunHistory()
    for second, event in enumerate(events):
        run.add([(float(second), event)])
        run.series("loss", 5)
    assert run.series("loss", 5)[1].tolist() == whole.series("loss", 5)[1].tolist()
    assert run.seconds_left == whole.seconds_left
