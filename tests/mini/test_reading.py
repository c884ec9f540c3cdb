"""Which of several answers is believed."""

import pytest

from mbc_engine.config import AnswerConfidence
from mbc_engine.mini.reading import ReadChunk, likeliest
from mbc_engine.mini.span_reader import Span
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
