"""Which of several answers is believed."""

import math

import pytest

from mbc_engine.config import AnswerConfidence
from mbc_engine.mini.confidence import PRIOR_WEIGHT
from mbc_engine.mini.span_reader import Span
from mbc_engine.mini.span_selection import ReadChunk, choose, likeliest, runner_up
from mbc_engine.ranking import Hit
from mbc_engine.sources import Known


def test_of_the_latest_year_the_likeliest() -> None:
    read = [
        ReadChunk(Hit(at, 0.3), f"The fee is {fee}.", Known(f"prices {year}", None), 0.3, Span(fee, 0, 11, 13, margin))
        for at, (year, fee, margin) in enumerate([(2024, "48", 9.0), (2023, "45", 9.5), (2024, "52", 7.0)])
    ]
    confidence = AnswerConfidence(intercept=0.0, weights={})
    best = likeliest("What is the fee?", tuple(read), confidence).best
    assert best is not None
    assert (best.passage, best.text) == (0, "48")


@pytest.mark.parametrize(
    ("question", "text", "found", "whole"),
    [
        ("When was he born?", "Born: 1979-02-14", "1979", "1979-02-14"),
        ("In which year was he born?", "Born: 1979-02-14", "1979", "1979"),
        ("When did he live?", "He (1923-1950) lived.", "1923", "1923"),
        ("When did he die?", "He (1923-1950) lived.", "1950", "1950"),
        ("When?", "On 14.05.2024.", "05", "14.05.2024"),
        ("When?", "From 18:45 on.", "18", "18:45"),
        ("How much?", "It costs 2,210.50.", "210", "2,210.50"),
        ("Which number?", "Tel. 70 10 20 30 or 8 9", "10 20", "70 10 20 30"),
        ("How many?", "Of 12 400 remain.", "400", "400"),
        ("Which version?", "It is v2.10.3 now.", "10.3", "10.3"),
    ],
)
def test_numbers_are_whole(question: str, text: str, found: str, whole: str) -> None:
    span = Span(found, 0, text.index(found), text.index(found) + len(found), 9.0)
    read = (ReadChunk(Hit(0, 0.9), text, Known("", None), 0.9, span),)
    best = likeliest(question, read, AnswerConfidence(intercept=0.0, weights={})).best
    assert best is not None
    assert (best.text, text[best.start : best.end]) == (whole, whole)


def span(text: str, margin: float) -> Span:
    return Span(text, 0, 0, len(text), margin)


def test_choice_by_margin_and_prior() -> None:
    spans = [span("Ada", 1.0), None, span("Hugo", 3.0)]
    assert choose(spans, [1.0, 1.0, 1.0]) == 2
    assert choose(spans, [1.0, 1.0, math.exp(-2.1 / PRIOR_WEIGHT)]) == 0
    assert choose([span("Ada", 1.0), span("Hugo", 1.0)], [0.5, 0.5]) == 0
    assert choose([None], [1.0]) is None
    assert choose([], []) is None
    assert choose([span("Ada", 1.0)], [0.0]) == 0


def test_runner_up_is_close_and_another() -> None:
    spans = [span("on Friday", 0.4), None, span("Friday", 1.0), span("Sunday", 0.1), span("Monday", -0.1)]
    assert runner_up(spans, [1.0] * 5) == 3
    assert runner_up(spans, [1.0, 1.0, 1.0, 0.5, 1.0]) is None
    assert runner_up([None], [1.0]) is None
