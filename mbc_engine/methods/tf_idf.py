"""Rare words count more: tokens weighed by TF-IDF, a variant of CaMeLS without its model (Hu et al. 2023)."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

from mbc_engine.methods.token_weights import over_characters
from mbc_engine.model.tokenised_text import TokenisedText

_WORD: Final = re.compile(r"\w+")


class TfIdf:
    """Weights of tokens: how often their word occurs in the piece, times how rare it is in a corpus.

    The inverse document frequency is ln((1 + N) / (1 + n)) + 1 for a word in n of N texts. One that the corpus does not
    have is the rarest of all; the released code gives it no weight, but what a model has not read of is what it has to
    learn. A token that is part of a word weighs as the word, one between words nothing.

    The weights of a piece have mean 1. A learning rate then says the same as with uniform weights, whatever the length
    of the piece, and so the methods of a sweep compare.

    Args:
        texts: the corpus, such as the documents that were trained on.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = 0
        self._texts_with: Counter[str] = Counter()
        for text in texts:
            self._texts += 1
            self._texts_with.update(set(_words(text)))

    def __call__(self, piece: TokenisedText) -> Tensor:
        """Weights of a piece's tokens, [S], of mean 1; all 0 if it has no word."""
        counts = Counter(_words(piece.text))
        found = (
            (match.start(), match.end(), counts[match[0].casefold()] * self._rarity(match[0].casefold()))
            for match in _WORD.finditer(piece.text)
        )
        weights = over_characters(piece, found)
        return weights / weights.mean() if weights.any() else torch.zeros_like(weights)

    def _rarity(self, word: str) -> float:
        return math.log((1 + self._texts) / (1 + self._texts_with[word])) + 1


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
