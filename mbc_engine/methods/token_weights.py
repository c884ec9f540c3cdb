"""How much each token of a document counts when a language model is fine-tuned on it (paper, section 4.3.2).

Uniform weights, and salient spans, where only names and
dates count (Guu et al. 2020, REALM). Numbers that are no dates do not count, as in the released code of CaMeLS.
"""

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from mbc_engine.errors import ConfigError
from mbc_engine.lm.base import TokenisedText

# Weights of a piece's tokens, [S], not negative; the loss is the mean over tokens of weight times loss.
TokenWeights: TypeAlias = Callable[[TokenisedText], Tensor]


def uniform(piece: TokenisedText) -> Tensor:
    """Every token counts alike: plain fine-tuning."""
    return torch.ones(len(piece.ids))


def over_characters(piece: TokenisedText, marked: Iterable[tuple[int, int, float]]) -> Tensor:
    """Weights of a piece's tokens from (start, end, weight) of its text: of each token the largest, 0 without any."""
    by_character, spans = torch.zeros(len(piece.text)), piece.spans
    for start, end, weight in marked:
        by_character[start:end] = by_character[start:end].clamp_min(weight)
    # A token may cover no character: some tokenizers put one before the first word.
    return torch.stack([by_character[start:end].amax() if start < end else torch.zeros(()) for start, end in spans])


_MODELS: Final = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
# What spaCy calls numbers that are no dates.
_NUMBER_KINDS: Final = frozenset(("TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"))


def salient_spans() -> TokenWeights:
    """Weights of 1 in names of people, places, organisations, …, and in dates, 0 elsewhere.

    They are found by spaCy with its largest installed English model; ConfigError if there is none.
    """
    try:
        spacy: Any = importlib.import_module("spacy")
        best = next(name for name in _MODELS if name in spacy.util.get_installed_models())
    except (ImportError, StopIteration) as error:
        raise ConfigError(
            "Salient spans are found by spaCy, which is not installed here with an English model.",
            hint="pip install spacy, then python -m spacy download en_core_web_sm",
        ) from error
    model = spacy.load(best, exclude=["tagger", "parser", "attribute_ruler", "lemmatizer"])

    def weights(piece: TokenisedText) -> Tensor:
        found = (entity for entity in model(piece.text).ents if entity.label_ not in _NUMBER_KINDS)
        return over_characters(piece, ((entity.start_char, entity.end_char, 1.0) for entity in found))

    return weights
