"""Figures as readers see them."""

import pytest

from mbc_engine.evaluation.statistics import Interval
from mbc_engine.experiments.page import moment
from mbc_engine.experiments.report import difference, interval, p_value, percent, seconds, size


@pytest.mark.parametrize(
    ("value", "expected"), [(1.25, "+1.2"), (-0.36, "\N{MINUS SIGN}0.4"), (0.04, "0.0"), (-0.04, "0.0"), (0, "0.0")]
)
def test_differences_have_a_sign_unless_they_are_nothing(value, expected):
    assert difference(value) == expected


def test_an_interval_has_no_negative_zero():
    assert interval(Interval(0.0, -0.01, 3.25)) == "0.0 to 3.2"
    assert interval(Interval(0.0, -3.25, 0.04)) == "\N{MINUS SIGN}3.2 to 0.0"


@pytest.mark.parametrize(("value", "expected"), [(0.0312, "0.031"), (0.0002, "< 0.001"), (1, "1.000")])
def test_p_values(value, expected):
    assert p_value(value) == expected


def test_nothing_is_a_dash():
    assert {percent(None), seconds(None), size(None)} == {"\N{EN DASH}"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 s"),
        (0.00123, "1.23 ms"),
        (6.74e-8, "0.0674 µs"),
        (0.0009999, "1 ms"),
        (0.9996, "1 s"),
        (999.7, "1,000 s"),
        (1.234, "1.23 s"),
        (4321, "4,321 s"),
    ],
)
def test_seconds_have_three_digits(value, expected):
    assert seconds(value) == expected


@pytest.mark.parametrize(("count", "expected"), [(999, "999 B"), (1_234_567, "1.23 MB"), (999_600, "1 MB")])
def test_sizes(count, expected):
    assert size(count) == expected


def test_a_date_is_for_people():
    assert moment("2026-02-03T14:05:06+00:00") == "2026-02-03 14:05:06 UTC"
