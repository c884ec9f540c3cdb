"""Exact match and token F1 as the paper defines them (section 4.2), and the released code's lenient match.

Texts are normalised as by the official SQuAD scripts: lower case, then no ASCII punctuation, then no articles, then
single spaces. Other punctuation (curly quotes, dashes) is text, and nothing is done about accents.

Where nothing is left of both answers, precision and recall are 0 / 0, which the paper leaves open. They are the same,
so that F1 is 1 here, as by the script for SQuAD 2.0, and EM never exceeds F1; that for SQuAD 1.1 gives EM 1 and F1 0.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# What an answer is held against: the shortest gold answer (the paper), or the best of all (SQuAD).
Golds = Literal["shortest", "any"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Match:
    """How an answer compares with the gold answers.

    Attributes:
        exact_match: strict EM.
        f1: token F1, in [0, 1].
        lenient_match: the released code's match, for comparison only.
    """

    exact_match: bool
    f1: float
    lenient_match: bool


def compare(answer: str, answers: Sequence[str], golds: Golds = "shortest") -> Match:
    """Hold an answer against the gold answers.

    Args:
        answer: what was said.
        answers: one or more gold answers.
        golds: "any" takes the best of all gold answers, for each measure by itself.
    """
    said = normalize(answer).split()
    each = [normalize(gold).split() for gold in (answers if golds == "any" else [shortest(answers)])]
    return Match(
        exact_match=said in each,
        f1=max(_f1(said, expected) for expected in each),
        lenient_match=any(said[: len(expected)] == expected for expected in each),
    )


def normalize(text: str) -> str:
    """Lowercase, strip punctuation, remove articles, collapse white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, gold: str) -> bool:
    """Strict EM: the normalised texts are the same."""
    return compare(prediction, [gold]).exact_match


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of token precision and recall, in [0, 1]; with an empty side, 1 only when both are empty."""
    return compare(prediction, [gold]).f1


def lenient_match(prediction: str, gold: str) -> bool:
    """The released code's match: the prediction is cut to the gold answer's words first. Not used for EM here."""
    return compare(prediction, [gold]).lenient_match


def shortest(answers: Sequence[str]) -> str:
    """The gold answer the paper trains on and compares with; the first of the shortest."""
    return min(answers, key=len)


def _f1(said: list[str], expected: list[str]) -> float:
    if not said or not expected:
        return float(said == expected)
    common = (Counter(said) & Counter(expected)).total()
    return 2 * common / (len(said) + len(expected))


@dataclass(frozen=True)
class Scores:
    """Figures of a set of questions.

    Attributes:
        questions: how many.
        exact_match, f1: means in percent against the shortest gold answer.
        lenient_match: percent by the released code's match, for comparison only.
        first_source, in_five: percent of questions whose own document ranks first, or among the first five.
    """

    questions: int
    exact_match: float
    f1: float
    lenient_match: float
    first_source: float
    in_five: float
