"""Which span is the answer, and how likely it is right, by hand."""

import math
from typing import get_args

import pytest

from mbc_engine.config import AnswerConfidence, Feature
from mbc_engine.mini.confidence import PRIOR_WEIGHT, choose, features, label_of, probability
from mbc_engine.mini.span_reader import Span


def span(text: str, margin: float, *rivals: tuple[str, float], log: float = -1.0) -> Span:
    return Span(text, 0, 0, len(text), margin, log, ((text, log), *rivals))


def of_reader(spans: list[Span | None], shares: list[float]) -> tuple[float, float]:
    values = features("Who?", "", "", spans, shares, 0)
    return values["margin"], values["votes"]


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
    margin, votes = of_reader([first, second], [1.0, 1.0])
    # "York" has F1 2/3 with "New York".
    behind, total = math.exp(2) + math.exp(1) * 2 / 3, math.exp(2) + math.exp(1) + 1
    assert votes == pytest.approx(math.log(behind / (total - behind)))
    assert margin == 2.0


def test_votes_count_by_share() -> None:
    first, second = span("Ada", 0.0), span("Hugo", 0.0)
    _, votes = of_reader([first, second], [1.0, math.exp(-2 / PRIOR_WEIGHT)])
    assert votes == pytest.approx(2.0)


def test_unanimous_votes() -> None:
    _, votes = of_reader([span("Ada", 0.0), span("the Ada", -3.0), None], [0.5, 0.5, 0.1])
    assert votes == pytest.approx(math.log((1 - 1e-4) / 1e-4))


def test_probability_is_the_sigmoid_of_the_weighted_features() -> None:
    settings = AnswerConfidence(weights={"margin": 0.5, "votes": 0.25}, intercept=-1.0)
    values = dict.fromkeys(get_args(Feature), 7.0) | {"margin": 1.0, "votes": 2.0}
    assert probability(values, settings) == pytest.approx(1 / (1 + math.exp(-(0.5 * 1 + 0.25 * 2 - 1))))


LEIF = "Leif Holm was born in 1948. He moved to Bergen. The mill is 30 metres long."


@pytest.mark.parametrize(
    ("question", "answer", "missing", "overlooked", "another_kind"),
    [
        ("When was Leif Holm born?", "1948", 0, 0, 0),
        ("Where was Ingrid Holm born?", "1948", 1 / 3, 3, 0),
        ("When did Leif Holm move?", "1948", 1 / 3, 0, 0),
        ("Who was born in 1950?", "1948", 1 / 2, 3, 1),
        ("How long is the mill?", "30 metres", 0, 0, 0),
        ("How wide is the mill?", "30 metres", 1 / 2, 0, 0),
        ("How wide is the mill?", "Bergen", 1, 0, 1),
        ("When was Leif Holm born in Norway?", "1948", 0, 0, 0),
    ],
)
def test_what_the_passage_says_of_the_question(
    question: str, answer: str, missing: float, overlooked: float, another_kind: float
) -> None:
    start = LEIF.index(answer)
    found = Span(answer, 0, start, start + len(answer), 3.0, 0.0, ((answer, 0.0),))
    values = features(question, LEIF, "people in Norway", [found], [1.0], 0)
    assert values["missing"] == pytest.approx(missing)
    assert (values["overlooked"], values["another_kind"]) == (overlooked, another_kind)


@pytest.mark.parametrize(("likely", "label"), [(1.0, "high"), (0.8, "high"), (0.79, "medium"), (0.49, "low")])
def test_labels(likely: float, label: str) -> None:
    assert label_of(likely) == label


def test_extreme_margins_stay_finite() -> None:
    far = Span("Ada", 0, 0, 3, 400.0, -0.0, (("Ada", -0.0), ("Hugo", -400.0)))
    for value in of_reader([far, span("Hugo", -400.0, log=-700.0)], [1.0, 0.0]):
        assert math.isfinite(value)
