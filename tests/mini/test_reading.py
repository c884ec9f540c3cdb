"""Which of several answers is believed."""

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
