"""The gain of an answer as a probability and a label, against lines worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.config import ConfidenceSettings
from mbc_engine.paper.confidence import ALWAYS_UNSURE, fit, judge

HALVES = ConfidenceSettings(slope=math.log(3), intercept=0, from_memory=0.75, from_model=0.25)
GAINS = st.lists(st.integers(-80, 80).map(lambda value: value / 16), min_size=1, max_size=25)


@pytest.mark.parametrize(
    ("gain", "confidence", "origin"),
    [(2, 0.9, "memory"), (0.5, math.sqrt(3) / (1 + math.sqrt(3)), "unsure"), (0, 0.5, "unsure"), (-2, 0.1, "model")],
)
def test_judge(gain, confidence, origin):
    assert judge(HALVES, gain) == (pytest.approx(confidence), origin)


def test_fit_of_overlapping_gains():
    # Four of a kind: 5/6 and 1/6. At 1 the mean is (3 * 5/6 + 1/6) / 4 = 2/3, at 0 it is 1/3.
    made = fit([1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0])
    assert made.intercept == pytest.approx(-math.log(2))
    assert made.slope == pytest.approx(2 * math.log(2))
    # Not one of four may be labelled wrongly: just above 2/3, and just below 1/3.
    assert (made.from_memory, made.from_model) == pytest.approx((2 / 3, 1 / 3))
    assert [judge(made, gain)[1] for gain in (1.0, 0.0)] == ["unsure", "unsure"]


@pytest.mark.parametrize(
    ("informed", "uninformed"),
    [([0.0, 1.0], [1.0, 2.0]), ([0.5, 1.5], [1.5, 0.5]), ([1.0, 1.0 + 1e-8], [1.0]), ([0.0], [0.0])],
    ids=["worse", "the same", "rounding", "one value"],
)
def test_useless_memory_is_always_unsure(informed, uninformed):
    made = fit(informed, uninformed)
    assert made == ALWAYS_UNSURE
    assert {judge(made, gain) for gain in (-1e9, 0.0, 1e9)} == {(0.5, "unsure")}


@given(GAINS, GAINS)
def test_wrong_labels_are_limited(informed, uninformed):
    made = fit(informed, uninformed)
    assert made.from_model <= made.from_memory
    assert 20 * sum(judge(made, gain)[1] == "memory" for gain in uninformed) <= len(uninformed)
    assert 20 * sum(judge(made, gain)[1] == "model" for gain in informed) <= len(informed)
