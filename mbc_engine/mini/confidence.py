"""Choosing the answer among the spans found, and how likely it is right: a logistic regression.

The reader's margin over "not here" is the best sign of whether the passages hold the answer at all, so it decides
whether to answer. It is a weaker sign of which of several likely answers is right. For that, all likely spans of all
passages vote, weighted by their passages' shares and by their F1 against the answer (expected F1, as in minimum Bayes
risk decoding; Kumar and Byrne, 2004).
"""

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from mbc_engine.bank.words import stems_of
from mbc_engine.config import AnswerConfidence, Feature
from mbc_engine.metrics import compare
from mbc_engine.mini.span_reader import Span
from mbc_engine.sources import content_stems, sentence_around
from mbc_engine.text.document import MONTH_NAMES

# The weight of a passage's log share relative to its spans' margins; chosen on held-out questions.
PRIOR_WEIGHT: Final = 0.35
# What a span's margin loses if its passage is of another time than the question names.
ANOTHER_TIME: Final = 8.0
_HIGH, _MEDIUM = 0.8, 0.5
_LARGEST_MARGIN: Final = 16.0
_LARGEST_EXPONENT: Final = 30.0
_SMALLEST: Final = 1e-4


def probability(values: Mapping[Feature, float], settings: AnswerConfidence) -> float:
    """How likely an answer with these features is right."""
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


def features(
    question: str, passage: str, known: str, spans: Sequence[Span | None], shares: Sequence[float], best: int
) -> dict[Feature, float]:
    """The regression's inputs for the best span of passage `best`.

    Args:
        question: as it was asked.
        passage: the text of passage `best`.
        known: what its document says of it, and its date.
        spans: the best of each passage.
        shares: the probabilities that the question is about each.
    """
    answer = spans[best]
    assert answer is not None
    margin, votes = _of_reader(spans, shares, best)
    asked = content_stems(question)
    context = stems_of(known)
    lacking = asked - context - stems_of(passage)
    near = asked - context - stems_of(sentence_around(passage, answer.start, answer.end))
    names = {stem for word in _NAME_OR_NUMBER.findall(question) for stem in stems_of(word)}
    return {
        "margin": margin,
        "votes": votes,
        "missing": len(near) / max(1, len(asked)),
        "overlooked": max(0.0, margin) if lacking & names else 0.0,
        "another_kind": float(_is_of_another_kind(question.lower(), answer.text)),
    }


# A name after the question's first word, or a number.
_NAME_OR_NUMBER: Final = re.compile(r"(?<=\w )[A-Z]\w+|\d[\d.,:]*\d|\d")
_QUANTITY: Final = re.compile(r"\bhow (?:many|much|old|tall|wide|long|high|deep|heavy|far|big|large|fast)\b")
_TIME: Final = re.compile(r"\bwhen\b|\b(?:what|which|on what|in which) (?:year|date|day|month)\b")
_IS_QUANTITY: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundreds?|"
    r"thousands?|millions?|billions?|half|third|quarter|dozens?|once|twice|a|an|no|none|nothing|free|all|both|several|"
    r"many|few|most)\b",
    re.IGNORECASE,
)
_IS_TIME: Final = re.compile(
    rf"\d|\b(?:{'|'.join(name[:3] for name in MONTH_NAMES)})|(?:sun|mon|tues|wednes|thurs|fri|satur|to|yester)day|"
    r"\b(?:night|morning|evening|noon|week|month|year|spring|summer|autumn|winter|century|after|before|when|while|until|"
    r"during|once|every|ago|next|last|now|since)",
    re.IGNORECASE,
)


def _is_of_another_kind(question: str, answer: str) -> bool:
    """Whether a question for a number, a time or a person is answered by something else."""
    if _QUANTITY.search(question):
        return not _IS_QUANTITY.search(answer)
    if _TIME.search(question):
        return not _IS_TIME.search(answer)
    return question.startswith("who ") and answer[:1].isdigit()


def _of_reader(spans: Sequence[Span | None], shares: Sequence[float], best: int) -> tuple[float, float]:
    """An answer's margin over "not here", clamped to ±16, and the log-odds of its share of all spans' votes."""
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
