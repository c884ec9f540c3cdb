"""Round numbers on an axis, and numbers in few characters."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.plot import short, ticks

NUMBERS = st.floats(-1e7, 1e7, allow_nan=False).map(lambda value: round(value, 6))


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 10, 3, ["0", "5", "10"]),
        (0, 10, 6, ["0", "2", "4", "6", "8", "10"]),
        (0.2, 1.9, 4, ["0.5", "1.0", "1.5"]),
        (-1, 1, 3, ["-1", "0", "1"]),
        (0, 9000, 5, ["0", "2,000", "4,000", "6,000", "8,000"]),
        (0, 40_000, 3, ["0", "20k", "40k"]),
        (0, 9_000_000, 3, ["0", "5M"]),
        (0, 3e-5, 4, ["0", "1e-5", "2e-5", "3e-5"]),
        (0, 2e30, 3, ["0", "1e30", "2e30"]),
    ],
)
def test_an_axis_carries_round_numbers(low, high, most, labels):
    assert [*ticks(low, high, most).values()] == labels


@given(NUMBERS, NUMBERS, st.integers(2, 12))
def test_numbers_on_an_axis_lie_on_it_in_order_and_are_not_too_many(one, other, most):
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):
        return
    values = [*ticks(low, high, most)]
    room = (high - low) * 1e-6
    assert values == sorted(values)
    assert len(values) <= most
    assert all(low - room <= value <= high + room for value in values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5123, "0.512"),
        (-12.34, "-12.3"),
        (1234.5, "1,234"),
        (12_345, "12.35k"),
        (2e-5, "2e-5"),
        (9.99e-5, "1e-4"),
        (5e-324, "4.9e-324"),
        (-2.5e30, "-2.5e30"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_a_number_alone_is_short(value, text):
    assert short(value) == text
