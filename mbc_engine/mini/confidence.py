"""Choosing the answer among the spans that were read, and how likely it is right: a logistic regression.

The reader's margin alone ranks right above wrong answers with an AUC of 0.74. How much of its probability supports the
answer says more: all likely spans of all passages vote, weighted by their passages' shares and by their F1 against the
answer (expected F1, as in minimum Bayes risk decoding; Kumar and Byrne, 2004).
"""

import math
import sys
from collections.abc import Sequence
from typing import Final, Literal

from mbc_engine.config import AnswerConfidence
from mbc_engine.metrics import compare
from mbc_engine.mini.question_form import canonical_question
from mbc_engine.mini.span_reader import Span

# The weight of a passage's log share beside the margins of its spans; chosen on held-out questions.
PRIOR_WEIGHT: Final = 0.75
FEATURES: Final = ("votes", "votes with no answer", "gap", "question length", "answer length")
_HIGH, _MEDIUM = 0.8, 0.5
# Answers with a lower F1 against each other are different ones.
_SAME: Final = 0.5
_LARGEST_GAP: Final = 8.0
_LARGEST_EXPONENT: Final = 30.0
_SMALLEST: Final = 1e-4


def probability(
    question: str, spans: Sequence[Span | None], shares: Sequence[float], best: int, settings: AnswerConfidence
) -> float:
    """How likely the best span of passage `best` is right; see `features`."""
    values = features(question, spans, shares, best)
    odds = settings.intercept + sum(weight * value for weight, value in zip(settings.weights, values, strict=True))
    return 0.5 + 0.5 * math.tanh(0.5 * odds)  # the sigmoid, without its overflow


def choose(spans: Sequence[Span | None], shares: Sequence[float]) -> int | None:
    """The passage whose best span has the largest sum of margin and prior, the first of equal ones."""
    scored = [
        (span.margin + PRIOR_WEIGHT * _log(share), -place)
        for place, (span, share) in enumerate(zip(spans, shares, strict=True))
        if span is not None
    ]
    return -max(scored)[1] if scored else None


def features(question: str, spans: Sequence[Span | None], shares: Sequence[float], best: int) -> tuple[float, ...]:
    """The regression's inputs for an answer, in the order of `FEATURES`.

    The log-odds of its votes among all spans, and with votes for "no answer" in each passage; its lead over the best
    different answer, at most 8; the logs of the question's and of the answer's words. `spans` are the best of each
    passage, `shares` the probabilities that the question is about it.
    """
    answer = spans[best]
    assert answer is not None
    total = against = behind = 0.0
    scores: list[float] = []
    own = answer.margin + PRIOR_WEIGHT * _log(shares[best])
    for span, share in zip(spans, shares, strict=True):
        prior = PRIOR_WEIGHT * _log(share)
        against += math.exp(prior)
        if span is None:
            continue
        if compare(span.text, [answer.text]).f1 < _SAME:
            scores.append(span.margin + prior)
        none = span.log_probability - span.margin
        for text, log in span.rivals:
            vote = math.exp(min(_LARGEST_EXPONENT, log - none + prior))
            total += vote
            behind += vote * compare(text, [answer.text]).f1
    gap = min([_LARGEST_GAP, *(own - score for score in scores)])
    return (
        _log_odds(behind / max(total, sys.float_info.min)),
        _log_odds(behind / (total + against)) if total + against else _log_odds(0),
        gap if scores else _LARGEST_GAP,
        math.log(1 + len(canonical_question(question).split())),
        math.log(1 + len(answer.text.split())),
    )


def label_of(probability: float) -> Literal["high", "medium", "low"]:
    """A word for a probability."""
    return "high" if probability >= _HIGH else "medium" if probability >= _MEDIUM else "low"


def _log(share: float) -> float:
    return math.log(max(share, sys.float_info.min))


def _log_odds(probability: float) -> float:
    kept = min(max(probability, _SMALLEST), 1 - _SMALLEST)
    return math.log(kept / (1 - kept))
