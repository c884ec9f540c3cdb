"""Steps of brightness: few, each at the same multiple, and never less for more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.heat_map import MOST_STEPS, levels, steps


def test_few_whole_numbers_have_a_step_each() -> None:
    values = np.array([0, 5, 1, 3])
    assert steps(values).tolist() == [1, 2, 3, 4, 5]
    assert levels(values, steps(values)).tolist() == [0, 5, 1, 3]


def test_each_step_begins_at_the_same_multiple_of_the_one_before() -> None:
    begins = steps(np.array([0.5, 128.0]))
    np.testing.assert_allclose(begins, 0.5 * 2.0 ** np.arange(8))
    assert levels(np.array([0, 0.5, 1.9, 2, 128]), begins).tolist() == [0, 1, 2, 3, 8]


def test_numbers_nearly_alike_look_alike() -> None:
    values = np.array([0.0, 1.0, 1.2])
    assert levels(values, steps(values)).tolist() == [0, 1, 1]


def test_what_an_average_never_quite_forgets_does_not_stretch_the_scale() -> None:
    assert steps(np.array([1e-30, 1.0]))[0] == 1 / 1024


def test_nothing_has_no_steps() -> None:
    assert steps(np.zeros(3)).tolist() == []
    assert levels(np.zeros(3), steps(np.zeros(3))).tolist() == [0, 0, 0]


numbers = st.lists(st.integers(0, 10**9), min_size=1) | st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1)


@given(numbers)
def test_brighter_is_never_less(drawn: list[float]) -> None:
    values = np.sort(np.array(drawn))
    begins = steps(values)
    found = levels(values, begins)
    assert len(begins) <= MOST_STEPS
    assert (np.diff(begins) > 0).all()
    assert (np.diff(found.astype(int)) >= 0).all()
    assert ((found == 0) == (values == 0)).all()
    assert found.max(initial=0) == len(begins)
