"""Choosing the answer among the spans found, and how likely it is right: a logistic regression.

The reader's margin over "not here" is the best sign of whether the passages hold the answer at all, so it decides
whether to answer. It is a weaker sign of which of several likely answers is right. For that, all likely spans of all
passages vote, weighted by their passages' shares and by their F1 against the answer (expected F1, as in minimum Bayes
risk decoding; Kumar and Byrne, 2004).
"""

import math
import sys
from collections.abc import Sequence
from typing import Final, Literal

from mbc_engine.config import AnswerConfidence
from mbc_engine.metrics import compare
from mbc_engine.mini.span_reader import Span

# The weight of a passage's log share relative to its spans' margins; chosen on held-out questions.
PRIOR_WEIGHT: Final = 0.35
# What a span's margin loses if its passage is of another time than the question names.
ANOTHER_TIME: Final = 8.0
_HIGH, _MEDIUM = 0.8, 0.5
_LARGEST_MARGIN: Final = 16.0
_LARGEST_EXPONENT: Final = 30.0
_SMALLEST: Final = 1e-4


def probability(spans: Sequence[Span | None], shares: Sequence[float], best: int, settings: AnswerConfidence) -> float:
    """How likely the best span of passage `best` is right; see `features`."""
    values = dict(zip(("margin", "votes"), features(spans, shares, best), strict=True))
    odds = settings.intercept + sum(weight * values[name] for name, weight in settings.weights.items())
    return 0.5 + 0.5 * math.tanh(0.5 * odds)  # the sigmoid, without overflow


def choose(spans: Sequence[Span | None], shares: Sequence[float]) -> int | None:
    """The passage whose best span has the largest sum of margin and prior; the first wins a tie."""
    scored = [
        (span.margin + PRIOR_WEIGHT * _log(share), -passage)
        for passage, (span, share) in enumerate(zip(spans, shares, strict=True))
        if span is not None
    ]
    return -max(scored)[1] if scored else None


def features(spans: Sequence[Span | None], shares: Sequence[float], best: int) -> tuple[float, float]:
    """The regression's inputs for an answer: the margin and the votes.

    These are its margin over "not here", clamped to ±16, and the log-odds of its share of all spans' votes. `spans` are
    the best of each passage, `shares` the probabilities that the question is about it.
    """
    answer = spans[best]
    assert answer is not None
    total = behind = 0.0
    for span, share in zip(spans, shares, strict=True):
        if span is None:
            continue
        none = span.log_probability - span.margin
        for text, log in span.rivals:
            vote = math.exp(min(_LARGEST_EXPONENT, log - none + PRIOR_WEIGHT * _log(share)))
            total += vote
            behind += vote * compare(text, [answer.text]).f1
    margin = min(max(answer.margin, -_LARGEST_MARGIN), _LARGEST_MARGIN)
    likely = min(max(behind / max(total, sys.float_info.min), _SMALLEST), 1 - _SMALLEST)
    return margin, math.log(likely / (1 - likely))


def label_of(probability: float) -> Literal["high", "medium", "low"]:
    """A word for a probability."""
    return "high" if probability >= _HIGH else "medium" if probability >= _MEDIUM else "low"


def _log(share: float) -> float:
    return math.log(max(share, sys.float_info.min))
