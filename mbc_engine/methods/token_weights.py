"""How much each token of a document counts when a language model is fine-tuned on it (paper, section 4.3.2).

Uniform weights; TF-IDF, a variant of CaMeLS without its model (Hu et al. 2023); and salient spans, where only names and
dates count (Guu et al. 2020, REALM). Numbers that are no dates do not count, as in the released code of CaMeLS.
"""

import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from mbc_engine.lm.base import TokenisedText
from mbc_engine.text.chunks import split_sentences

# Weights of a piece's tokens, [S], not negative; the loss is the mean over tokens of weight times loss.
TokenWeights: TypeAlias = Callable[[TokenisedText], Tensor]
Span: TypeAlias = tuple[int, int]


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


def tf_idf(corpus: Iterable[str]) -> TokenWeights:
    """Weights by how often a token's word occurs in the piece, times how rare it is in a corpus.

    The inverse document frequency is ln((1 + N) / (1 + n)) + 1 for a word in n of N texts; a word that the corpus lacks
    is the rarest (the released code gives it no weight). The weights of a piece have mean 1, so that learning rates
    compare with uniform weights, or are all 0 if it has no word.
    """
    texts = [{match[0].casefold() for match in _ANY_WORD.finditer(text)} for text in corpus]
    texts_with = Counter(word for words in texts for word in words)

    def weights(piece: TokenisedText) -> Tensor:
        words = [(*match.span(), match[0].casefold()) for match in _ANY_WORD.finditer(piece.text)]
        counts = Counter(word for *_, word in words)
        weight = {word: own * (math.log((1 + len(texts)) / (1 + texts_with[word])) + 1) for word, own in counts.items()}
        found = over_characters(piece, ((start, end, weight[word]) for start, end, word in words))
        return found / found.mean() if found.any() else found

    return weights


_ANY_WORD: Final = re.compile(r"\w+")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MODELS: Final = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")
# What spaCy calls numbers that are no dates.
_NUMBER_KINDS: Final = _word_set("TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL")

_WORD: Final = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W\d_](?:[\w&]|[-'’](?=\w))*")  # noqa: RUF001
# Between two capitalised words of one name: "University of California", "Ludwig van Beethoven", "St. Petersburg".
_WITHIN_NAMES: Final = re.compile(
    r"\s+(?:(?:of(?: the)?|for|de(?: la)?|del|della|den|der|di|da|dos?|du|la|le|van(?: de[rn]?)?|von|bin|al|el|y)"
    r"\s+)?|\.\s+|\s*&\s*"
)
_TITLES: Final = _word_set("Mr Mrs Ms Dr Prof St Mt Ft Gen Sen Rep Gov Col Lt Sgt Capt Adm Rev Hon Pres Jr Sr")
# Words that open sentences, or are always written with a capital, and name nothing.
_ORDINARY: Final = _word_set(
    "i i'm i've i'll i'd a an the this that these those there then thus he she it we you they his her its their our "
    "my your it's he's she's that's there's let's what who whom whose which where when why how in on at by for from to "
    "with without within of off over under into onto upon after before during since until till while as if unless "
    "although though because but and or nor so yet however moreover therefore meanwhile also not no yes some any many "
    "most much several both all each every either neither another other few more less one two three four five six "
    "seven eight nine ten once twice first second later today today's yesterday tomorrow now still even just only "
    "perhaps maybe about above across against along among around behind below beneath beside between beyond despite "
    "down except inside instead like near outside past per than through throughout toward towards up via "
    "is are was were be been being am do does did done have has had will would shall should can could may might must "
    "according earlier finally indeed nearly almost never always often sometimes recently last next"
)
_DAYS: Final = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_MONTHS: Final = (
    "January|February|March|April|May|June|July|August|September|October|November|December"
    "|(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec)\\."
)
_DATES: Final = re.compile(
    rf"\b(?:{_DAYS})s?\b"
    # "3 March 2020", "March 3rd, 2020", "March 2020"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTHS})(?:,?\s+\d{{4}})?(?!\w)"
    rf"|\b(?:{_MONTHS})\s+\d{{1,4}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}}\b)?"
    # Months by themselves; "May" and "March" are words too, at least at the beginning of a sentence.
    rf"|\b(?:{_MONTHS.replace('March|', '').replace('May|', '')})(?!\w)|(?<=[a-z,]\s)May\b"
    r"|\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
    # Decades, centuries, years
    r"|\b\d{3}0s\b|['’]\d0s\b|\b\d{1,2}(?:st|nd|rd|th)[\s-]century\b"  # noqa: RUF001
    r"|(?<![\d.,$€£¥])\b(?:1\d{3}|20\d{2})\b(?![.,]?\d|\s*%)"
)


def salient_spans() -> TokenWeights:
    """Weights of 1 in names of people, places, organisations, …, and in dates, 0 elsewhere.

    spaCy recognises them where it is installed with an English model, otherwise rules do.
    """
    recognise = _recogniser()
    return lambda piece: over_characters(piece, ((start, end, 1.0) for start, end in recognise(piece.text)))


def _spans_by_rules(text: str) -> list[Span]:
    """Names and dates of an English text; capitals tell names, but of a sentence in capitals throughout."""
    return [*_names(text), *(match.span() for match in _DATES.finditer(text))]


def _names(text: str) -> Iterator[Span]:
    """Runs of capitalised words; one alone that opens a sentence only if its capitals, or the text elsewhere, tell."""
    sentences = [list(_WORD.finditer(text, start, end)) for start, end in split_sentences(text)]
    # Three or more words in capitals are a headline.
    sentences = [words for words in sentences if len(words) <= 2 or not all(word[0].isupper() for word in words)]
    known = {_stem(word[0]) for words in sentences for word in words[1:] if _is_capitalised(word[0])}
    for words in sentences:
        runs: list[list[re.Match[str]]] = []
        for word in words:
            if not _is_capitalised(word[0]) or _is_ordinary(word[0]):
                continue
            if runs and _belongs(runs[-1][-1][0], text[runs[-1][-1].end() : word.start()]):
                runs[-1].append(word)
            else:
                runs.append([word])
        for run in runs:
            first = run[0][0]
            if run != words[:1] or _is_capitalised(first[1:]) or _stem(first) in known:
                yield run[0].start(), run[-1].end()


def _belongs(earlier: str, gap: str) -> bool:
    is_ended = gap.startswith(".") and len(earlier) > 1 and earlier not in _TITLES
    return not is_ended and _WITHIN_NAMES.fullmatch(gap) is not None


def _is_capitalised(word: str) -> bool:
    return any(letter.isupper() for letter in word)  # "iPhone" too


def _is_ordinary(word: str) -> bool:
    return word.lower().replace("’", "'") in _ORDINARY and (len(word) == 1 or not word.isupper())  # noqa: RUF001


def _stem(word: str) -> str:
    return re.sub(r"['’]s?$", "", word)  # noqa: RUF001


def _recogniser() -> Callable[[str], list[Span]]:
    """The best there is: spaCy with its largest installed model, else the rules."""
    try:
        spacy: Any = importlib.import_module("spacy")
        best = next(name for name in _MODELS if name in spacy.util.get_installed_models())
    except (ImportError, StopIteration):
        return _spans_by_rules
    model = spacy.load(best, exclude=["tagger", "parser", "attribute_ruler", "lemmatizer"])
    return lambda text: [
        (entity.start_char, entity.end_char) for entity in model(text).ents if entity.label_ not in _NUMBER_KINDS
    ]
