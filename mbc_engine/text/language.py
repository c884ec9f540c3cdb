"""Detects English by script and the most common words of a few languages; normalises questions."""

import re
import tomllib
from importlib.resources import files
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]+")


def word_set(listed: str) -> frozenset[str]:
    """The words of a space-separated list."""
    return frozenset(listed.split())


AUXILIARIES: Final = word_set(
    "am is are was were do does did has have had can could may might must should shall will would"
)
QUESTION_WORDS: Final = word_set("who whom whose what which when where why how")

_LISTS: Final = tomllib.loads(files(__package__).joinpath("languages.toml").read_text(encoding="utf-8"))
ENGLISH, _SHARED, _FOREIGN, _ASKING, _AMBIGUOUS = (
    word_set(_LISTS[name]) for name in ("english", "shared", "foreign", "asking", "ambiguous")
)
_INITIALS: Final = re.compile("[A-Z]{2,3}")  # of people and organisations, as IM, which is a word in German
_FEW: Final = 2
_SHARE: Final = 0.1
_LONGEST: Final = 4_000  # characters


def seems_english(text: str) -> bool:
    """Whether a question or a document is probably English; names, code and numbers alone count as English.

    False in another script; if common words of other languages are at least two, a tenth of all words and more than
    twice the English ones; or if the first is another language's question word and no word is only English.
    """
    is_capital = text[:_LONGEST].isupper()
    words = [word for word in _WORD.findall(text[:_LONGEST]) if is_capital or not _INITIALS.fullmatch(word)]
    text, words = text[:_LONGEST].lower(), [word.lower() for word in words]
    english = sum(word in ENGLISH for word in words)
    others = sum(character > "\u024f" for word in words for character in word)
    latin = sum(map(len, words)) - others
    # A Chinese or Japanese character is worth a few letters.
    if others >= _FEW and others * (1 if english else 3) > latin:
        return False
    certain = any(word in ENGLISH and word not in _SHARED for word in words)
    if words and not certain and (text.lstrip().startswith("¿") or words[0] in _ASKING):
        return False
    sure = sum(word in _FOREIGN or word in _ASKING for word in words)
    foreign = sure + sum(word in _AMBIGUOUS for word in words)
    return not (sure and foreign >= max(_FEW, _SHARE * len(words)) and foreign > 2 * english)


_STRAIGHT: Final = str.maketrans(dict.fromkeys("\u2018\u2019\u201a\u02bc", "'") | dict.fromkeys("“”„«»", '"'))
# White space and punctuation at either end, including Spanish, Arabic and Chinese marks.
_START: Final = re.compile(r"^[\s¿¡]+")
_JOINED: Final = re.compile(r"^(what|who|where|when|how)s\b")
_END: Final = re.compile("[\\s?!.…؟\uff1f\uff01。]+$")


def canonical_question(question: str) -> str:
    """A question in lower case with single spaces, straight quotes and one question mark at its end; "whats" is "what's".

    The encoders are uncased anyway, but their tokenizer treats "[SEP]" as a special token, and "[sep]" as text.
    """
    text = _JOINED.sub(r"\1's", _START.sub("", question.lower().translate(_STRAIGHT)))
    return f"{' '.join(_END.sub('', text).split())}?"
