"""Exact match and token F1 as the paper defines them (section 4.2), and the released code's lenient match.

Texts are normalised as in the official SQuAD scripts: lower case, then no ASCII punctuation, then no articles, then
single spaces. Other punctuation (curly quotes, dashes) and accents are kept.

If nothing is left of both answers, F1 is 1, as in the script for SQuAD 2.0, so that EM never exceeds F1; the paper
does not say, and the script for SQuAD 1.1 gives EM 1 and F1 0.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

# What an answer is compared with: the shortest gold answer (the paper), or the best of all (SQuAD).
Golds = Literal["shortest", "any"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class Match:
    """How an answer compares with the gold answers: strict EM, token F1 in [0, 1], and the released code's match."""

    exact_match: bool
    f1: float
    lenient_match: bool


def compare(answer: str, answers: Sequence[str], golds: Golds = "shortest") -> Match:
    """Compare an answer with the gold answers; "any" takes the best of all of them, separately for each measure."""
    given = normalize(answer)
    each = [normalize(gold) for gold in (answers if golds == "any" else [shortest(answers)])]
    return Match(
        exact_match=given in each,
        f1=max(_f1(given.split(), expected.split()) for expected in each),
        # Cut by characters, as there: "Parisian suburbs" matches "Paris".
        lenient_match=any(given.startswith(expected) for expected in each),
    )


def normalize(text: str) -> str:
    """Lowercase, strip punctuation, remove articles, collapse white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def shortest(answers: Sequence[str]) -> str:
    """The gold answer the paper trains on and compares with; the first of the shortest."""
    return min(answers, key=len)


def _f1(words: list[str], expected: list[str]) -> float:
    if not words or not expected:
        return float(words == expected)
    common = (Counter(words) & Counter(expected)).total()
    return 2 * common / (len(words) + len(expected))


@dataclass(frozen=True)
class Scores:
    """Scores on a set of questions, in percent, against the shortest gold answer.

    `first_source` is how often the question's own document ranked first; `loss` is that of the gold answers' tokens, in
    nats, `wrong_loss` the same with a bank of other documents; None if not computed.
    """

    questions: int
    exact_match: float
    f1: float
    first_source: float
    loss: float | None = None
    wrong_loss: float | None = None
