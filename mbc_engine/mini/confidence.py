"""How likely an answer is right: a logistic regression of what the search and the reader say of it.

The reader's margin alone ranks right above wrong answers with an AUC of 0.74. How much of its probability stands behind
the answer says more: all likely spans of all passages vote, each as far as its words are those of the answer (expected
F1, as in minimum Bayes risk decoding), weighed by its passage's share.
"""

import math
import re
import string
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mbc_engine.config import AnswerConfidence
from mbc_engine.mini.retrieval import Hit
from mbc_engine.mini.span_reader import Span

# What the logarithm of a passage's share counts beside the margin of its best span.
PRIOR_WEIGHT: Final = 0.75
FEATURES: Final = ("votes", "exact votes", "votes in its passage", "gap", "words", "question words")


@dataclass(frozen=True)
class Judged:
    """The answer chosen: in which of the passages, and the probability that it is right."""

    passage: int
    probability: float
