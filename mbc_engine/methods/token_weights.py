"""How much each token of a document counts when a model is fine-tuned on it."""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor

from mbc_engine.model.tokenised_text import TokenisedText


class TokenWeights(Protocol):
    """Weights of the loss on tokens."""

    def __call__(self, piece: TokenisedText) -> Tensor:
        """Weights of a piece's tokens, [S], not negative; the loss is the mean over tokens of weight times loss."""
        ...


def uniform(piece: TokenisedText) -> Tensor:
    """Every token counts alike: plain fine-tuning."""
    return torch.ones(len(piece.ids))


def over_characters(piece: TokenisedText, marked: Iterable[tuple[int, int, float]]) -> Tensor:
    """Weights of a piece's tokens from weights of its characters: of each token the largest, 0 where there is none.

    Args:
        piece: what is weighed.
        marked: (start, end, weight) of stretches of the text.
    """
    by_character, spans = torch.zeros(len(piece.text)), piece.spans
    for start, end, weight in marked:
        by_character[start:end] = by_character[start:end].clamp_min(weight)
    # A token may cover no character: some tokenizers put one before the first word.
    return torch.stack([by_character[start:end].amax() if start < end else torch.zeros(()) for start, end in spans])
