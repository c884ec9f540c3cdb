"""Exact match and token F1 as the paper defines them (section 4.2), and the released code's lenient match."""

import re
import string
from collections import Counter
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Lowercase, strip punctuation, remove articles, collapse white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(prediction: str, gold: str) -> bool:
    """Strict EM: the normalised texts are the same."""
    return normalize(prediction) == normalize(gold)


def f1(prediction: str, gold: str) -> float:
    """Harmonic mean of token precision and recall, in [0, 1]; with an empty side, 1 only when both are empty."""
    predicted, expected = normalize(prediction).split(), normalize(gold).split()
    if not predicted or not expected:
        return float(predicted == expected)
    common = (Counter(predicted) & Counter(expected)).total()
    return 2 * common / (len(predicted) + len(expected))


def lenient_match(prediction: str, gold: str) -> bool:
    """The released code's match: the prediction is cut to the gold answer's words first. Not used for EM here."""
    expected = normalize(gold).split()
    return normalize(prediction).split()[: len(expected)] == expected


def shortest(answers: tuple[str, ...]) -> str:
    """The gold answer the paper trains on and compares with; the first of the shortest."""
    return min(answers, key=len)


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
