"""Which span is the answer, and how likely it is right, by hand."""

import math

import pytest

from mbc_engine.config import AnswerConfidence
from mbc_engine.mini.confidence import PRIOR_WEIGHT, choose, features, label_of, probability
from mbc_engine.mini.span_reader import Span


def span(text: str, margin: float, *rivals: tuple[str, float], log: float = -1.0) -> Span:
    return Span(text, 0, 0, len(text), margin, log, ((text, log), *rivals))


def test_choice_by_margin_and_prior() -> None:
    spans = [span("Ada", 1.0), None, span("Hugo", 3.0)]
    assert choose(spans, [1.0, 1.0, 1.0]) == 2
    assert choose(spans, [1.0, 1.0, math.exp(-2.1 / PRIOR_WEIGHT)]) == 0
    assert choose([span("Ada", 1.0), span("Hugo", 1.0)], [0.5, 0.5]) == 0
    assert choose([None], [1.0]) is None
    assert choose([], []) is None
    assert choose([span("Ada", 1.0)], [0.0]) == 0


def test_features() -> None:
    # In the first passage: "New York" e^2 of no answer's 1, "York" e^1; in the second "Haifa" e^0. Equal shares.
    first = span("New York", 2.0, ("York", -2.0), log=-1.0)
    second = span("Haifa", 0.0, log=-2.0)
    margin, votes = features([first, second], [1.0, 1.0], 0)
    # "York" has F1 2/3 with "New York".
    behind, total = math.exp(2) + math.exp(1) * 2 / 3, math.exp(2) + math.exp(1) + 1
    assert votes == pytest.approx(math.log(behind / (total - behind)))
    assert margin == 2.0


def test_votes_count_by_share() -> None:
    first, second = span("Ada", 0.0), span("Hugo", 0.0)
    _, votes = features([first, second], [1.0, math.exp(-2 / PRIOR_WEIGHT)], 0)
    assert votes == pytest.approx(2.0)


def test_unanimous_votes() -> None:
    _, votes = features([span("Ada", 0.0), span("the Ada", -3.0), None], [0.5, 0.5, 0.1], 0)
    assert votes == pytest.approx(math.log((1 - 1e-4) / 1e-4))


def test_probability_is_the_sigmoid_of_the_weighted_features() -> None:
    spans, shares = [span("Ada", 1.0, log=-1.0), span("Hugo", 1.0, log=-1.0)], [1.0, math.exp(-2 / PRIOR_WEIGHT)]
    settings = AnswerConfidence(weights={"margin": 0.5, "votes": 0.25}, intercept=-1.0)
    odds = 0.5 * 1 + 0.25 * 2 - 1
    assert probability(spans, shares, 0, settings) == pytest.approx(1 / (1 + math.exp(-odds)))


@pytest.mark.parametrize(("likely", "label"), [(1.0, "high"), (0.8, "high"), (0.79, "medium"), (0.49, "low")])
def test_labels(likely: float, label: str) -> None:
    assert label_of(likely) == label


def test_extreme_margins_stay_finite() -> None:
    far = Span("Ada", 0, 0, 3, 400.0, -0.0, (("Ada", -0.0), ("Hugo", -400.0)))
    for value in features([far, span("Hugo", -400.0, log=-700.0)], [1.0, 0.0], 0):
        assert math.isfinite(value)
