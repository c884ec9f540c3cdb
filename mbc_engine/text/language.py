"""Whether a text is in English, by its script and the commonest words of a few languages; the form of a question."""

import re
import tomllib
from importlib.resources import files
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]+")


def word_set(listed: str) -> frozenset[str]:
    """The words of a list that spaces separate."""
    return frozenset(listed.split())


_LISTS: Final = tomllib.loads(files(__package__).joinpath("languages.toml").read_text(encoding="utf-8"))
ENGLISH, _SHARED, _FOREIGN, _ASKING, _AMBIGUOUS = (
    word_set(_LISTS[name]) for name in ("english", "shared", "foreign", "asking", "ambiguous")
)
_FEW: Final = 2
_SHARE: Final = 0.1
_LONGEST: Final = 4_000  # characters


def seems_english(text: str) -> bool:
    """Whether a question or a document may well be English, as are names, code and numbers alone.

    False in another script; with at least two common words of other languages, a tenth of all and twice those of
    English; and where the first word asks in another language and no word is English alone.
    """
    text = text[:_LONGEST].lower()
    words = _WORD.findall(text)
    english = sum(word in ENGLISH for word in words)
    others = sum(character > "\u024f" for word in words for character in word)
    latin = sum(map(len, words)) - others
    # A sign of Chinese or Japanese is as much as a few letters.
    if others >= _FEW and others * (1 if english else 3) > latin:
        return False
    certain = any(word in ENGLISH and word not in _SHARED for word in words)
    if words and not certain and (text.lstrip().startswith("¿") or words[0] in _ASKING):
        return False
    sure = sum(word in _FOREIGN or word in _ASKING for word in words)
    foreign = sure + sum(word in _AMBIGUOUS for word in words)
    return not (sure and foreign >= max(_FEW, _SHARE * len(words)) and foreign > 2 * english)


_STRAIGHT: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u201a\u02bc", "'") | dict.fromkeys("“”„«»", '"'))
# White space and punctuation at either end, with the signs of Spanish, Arabic and Chinese.
_START: Final = re.compile(r"^[\s¿¡]+")
_END: Final = re.compile("[\\s?!.…؟\uff1f\uff01。]+$")


def canonical_question(question: str) -> str:
    """A question in lower case with single spaces, straight quotes and one question mark at its end.

    The encoders see no capitals anyway, but their tokenizer takes "[SEP]" for a token of its own, and "[sep]" for text.
    """
    text = question.lower().translate(_STRAIGHT)
    return f"{' '.join(_END.sub('', _START.sub('', text)).split())}?"
