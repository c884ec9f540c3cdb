"""Predictions: how replies are scored, and how scores are summarised."""

from dataclasses import replace

import pytest

from mbc_engine.datasets.layout import QAExample
from mbc_engine.evaluation.methods import MethodAnswer
from mbc_engine.evaluation.results import Prediction, predict, score

ASKED = QAExample("7", "Ada moved to the old port of Bergen.", "Where?", ("the old port of Bergen", "Bergen"))


def predicted(reply: MethodAnswer, golds: str = "shortest") -> Prediction:
    return predict(ASKED, reply, stream_index=12, memory_index=2, golds=golds)  # type: ignore[arg-type]


def test_prediction_fields():
    assert predicted(MethodAnswer("Bergen harbour")) == Prediction(
        "7", 12, "Where?", ASKED.answers, "Bergen harbour", False, pytest.approx(2 / 3), True, None
    )


def test_golds_are_the_shortest_or_any():
    assert predicted(MethodAnswer("old port of Bergen")).f1 == pytest.approx(2 / 5)
    assert predicted(MethodAnswer("old port of Bergen"), "any").exact_match


@pytest.mark.parametrize(
    ("sources", "rank"),
    [(None, None), ((), None), ((2,), 0), ((9, 8, 7, 6, 2), 4), ((9, 8, 7, 6, 5, 2), None), ((12,), None)],
)
def test_rank_is_among_the_first_five(sources, rank):
    assert predicted(MethodAnswer("", sources)).rank == rank


def test_unstorable_characters_are_replaced():
    assert predicted(MethodAnswer("Berg\ud800en\0")).answer == "Berg\ufffden\ufffd"


def test_scores_are_means_in_percent():
    right = replace(predicted(MethodAnswer("Bergen", (2,))), document=0)
    half = replace(right, exact_match=False, f1=0.5, rank=3)
    wrong = replace(right, document=1, exact_match=False, f1=0.0, lenient_match=False, rank=None)
    scores = score([right, half, half, wrong], names_sources=True, seed=0)
    assert scores.questions == 4
    assert (scores.exact_match.value, scores.f1.value, scores.lenient_match) == (25, 50, 75)
    assert (scores.first_source, scores.in_five) == (25, 75)
    # With both documents, one of them twice, or the other twice: the mean of f1 is 1/2, 2/3, or 0.
    assert (scores.f1.low, scores.f1.high) == pytest.approx((0, 200 / 3))
