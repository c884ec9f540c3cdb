"""Which words of a question a text has, in any form; negations and ordinals; and words that exclude each other."""

import re
from typing import Final

from mbc_engine.bank.words import stems_of
from mbc_engine.text.document import MONTH_NAMES

ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
POSSESSIVE: Final = re.compile(r"['\u2019]s?\b")
# Also without its apostrophe, as people type.
NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nobody|neither|nor|without|cannot|"
    r"(?:do|does|did|is|are|was|were|has|have|had|ca|wo|could|would|should|must|need)nt)\b|n['\u2019]t\b",
    re.IGNORECASE,
)


_SHORT: Final = 3  # letters of a stem that is nearly always another than a longer one
_DOUBLED: Final = "bdgmnpt"  # before -ing and -ed


def _is_same(stem: str, other: str) -> bool:
    """Whether two stems are of one word: resett(ing) and reset, runn(ing) and run, but not carr(y) and car."""
    short, long = sorted((stem, other), key=len)
    if len(short) == _SHORT and short[-1] in _DOUBLED:
        return long in (short, short + short[-1])
    return short == long or (len(short) > _SHORT and len(long) - len(short) <= 2 and long.startswith(short))


def missing(stems: "frozenset[str] | set[str]", text: str) -> set[str]:
    """The stems that a text has no word of, in any form."""
    there = stems_of(text)
    return {stem for stem in stems if not any(_is_same(stem, other) for other in there)}


def has_stem(word: str, stem: str) -> bool:
    """Whether a word is of this stem, in any form."""
    return any(_is_same(stem, other) for other in stems_of(word))


RELATIVES: Final = stems_of(
    "brother sister mother father parent wife husband son daughter child uncle aunt cousin nephew niece grandmother "
    "grandfather friend boss"
)
# What has one of these words does not say the same of another.
EXCLUSIVE: Final = [
    stems_of(words)
    for words in (
        "tall wide long deep heavy",
        "north south east west",
        "northern southern eastern western",
        "open closed",
        "born died buried married",
        " ".join(RELATIVES),
        " ".join((*ORDINALS, "last")),
        "before after",
        "largest smallest",
        "highest lowest",
        "oldest youngest newest",
        "longest shortest",
        "most least",
        "won lost",
        "bought sold",
        "began ended",
        "men women boys girls",
        "left right",
        "gold silver bronze",
        "inside outside",
        "within outside",
        "adult child",
        "minimum maximum average total",
        "summer winter spring autumn",
        "morning afternoon evening night",
        "monday tuesday wednesday thursday friday saturday sunday",
        " ".join(MONTH_NAMES),
    )
]
