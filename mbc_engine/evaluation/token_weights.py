"""Loss weights of a document's tokens when a language model is fine-tuned on it (paper, section 4.3.2).

Uniform weights; TF-IDF, a variant of CaMeLS without its model (Hu et al. 2023); and salient spans, where only names and
dates count (Guu et al. 2020, REALM). Numbers other than dates do not count, as in the released code of CaMeLS.
"""

import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from mbc_engine.lm.base import TokenisedText
from mbc_engine.text.chunks import split_sentences
from mbc_engine.text.language import ENGLISH, word_set

# Non-negative weights of a piece's tokens, [S]; the loss is the mean over tokens of weight times loss.
TokenWeights: TypeAlias = Callable[[TokenisedText], Tensor]
Span: TypeAlias = tuple[int, int]


def uniform(piece: TokenisedText) -> Tensor:
    """Every token has the same weight: plain fine-tuning."""
    return torch.ones(len(piece.ids))


def over_characters(piece: TokenisedText, marked: Iterable[tuple[int, int, float]]) -> Tensor:
    """Token weights of a piece from weighted spans of its text, (start, end, weight): each token's largest, or 0."""
    by_character, spans = torch.zeros(len(piece.text)), piece.spans
    for start, end, weight in marked:
        by_character[start:end] = by_character[start:end].clamp_min(weight)
    # Some tokenizers put a token that covers no character before the first word.
    return torch.stack([by_character[start:end].amax() if start < end else torch.zeros(()) for start, end in spans])


def tf_idf(corpus: Iterable[str]) -> TokenWeights:
    """Weights by the frequency of a token's word in the piece, times its inverse document frequency in a corpus.

    The latter is ln((1 + N) / (1 + n)) + 1 for a word in n of N texts; a word not in the corpus counts as the rarest
    (the released code gives it no weight). The weights of a piece have mean 1, so that learning rates are comparable
    with uniform weights, or are all 0 if it has no word.
    """
    texts = [{match[0].casefold() for match in _ANY_WORD.finditer(text)} for text in corpus]
    texts_with = Counter(word for words in texts for word in words)

    def weights(piece: TokenisedText) -> Tensor:
        words = [(*match.span(), match[0].casefold()) for match in _ANY_WORD.finditer(piece.text)]
        counts = Counter(word for *_, word in words)
        weight = {word: n * (math.log((1 + len(texts)) / (1 + texts_with[word])) + 1) for word, n in counts.items()}
        by_token = over_characters(piece, ((start, end, weight[word]) for start, end, word in words))
        return by_token / by_token.mean() if by_token.any() else by_token

    return weights


_ANY_WORD: Final = re.compile(r"\w+")
_MODELS: Final = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
# spaCy's labels of numbers other than dates.
_NUMBER_KINDS: Final = word_set("TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL")

# Without spaCy: runs of capitalised words that are not common English ones, and dates.
_CAPITALISED: Final = rf"\b(?!(?i:{'|'.join(ENGLISH)})(?![\w&]))[A-ZÀ-Þ](?:[\w&'’-]|\.(?=\w))*"  # noqa: RUF001
_NAME: Final = re.compile(rf"{_CAPITALISED}(?:(?:\.?\s+|\s+(?:of(?: the)?|de|van|von)\s+){_CAPITALISED})*")
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?"
_DATE: Final = re.compile(
    rf"\b{_MONTH}\s\d{{1,2}}\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s{_MONTH}|\b\d{{4}}-\d\d-\d\d\b"
    r"|(?<![\d.,$€£])\b(?:1\d{3}|20\d\d)s?\b(?![.,]?\d|\s*%)"
)


def salient_spans() -> TokenWeights:
    """Weights of 1 in names of people, places, organisations, …, and in dates, 0 elsewhere.

    They are recognised by spaCy, with its largest English model, if there is one, otherwise by regular expressions.
    """
    recognise = _names_and_dates
    with suppress(ImportError, StopIteration):
        spacy: Any = importlib.import_module("spacy")
        best = next(name for name in _MODELS if name in spacy.util.get_installed_models())
        model = spacy.load(best, exclude=["tagger", "parser", "attribute_ruler", "lemmatizer"])

        def recognise(text: str) -> list[Span]:
            found = (entity for entity in model(text).ents if entity.label_ not in _NUMBER_KINDS)
            return [(entity.start_char, entity.end_char) for entity in found]

    return lambda piece: over_characters(piece, ((start, end, 1.0) for start, end in recognise(piece.text)))


def _names_and_dates(text: str) -> list[Span]:
    """Names and dates of an English text; a single capitalised word that opens a sentence does not count as a name."""
    spans = [match.span() for match in _DATE.finditer(text)]
    for start, end in split_sentences(text):
        names = (match for match in _NAME.finditer(text, start, end) if match.start() > start or " " in match[0])
        spans += [name.span() for name in names]
    return spans
