"""Which words of a question a text has, in any form; and negations."""

import re
from typing import Final

from mbc_engine.bank.words import stems_of

POSSESSIVE: Final = re.compile(r"['\u2019]s?\b")
# Also without its apostrophe, as people type.
NEGATION: Final = re.compile(
    r"\b(?:not|no|never|none|nobody|neither|nor|without|cannot|"
    r"(?:do|does|did|is|are|was|were|has|have|had|ca|wo|could|would|should|must|need)nt)\b|n['\u2019]t\b",
    re.IGNORECASE,
)


def _is_same(stem: str, other: str) -> bool:
    """Whether two stems are of one word: resett(ing) and reset."""
    short, long = sorted((stem, other), key=len)
    return short == long or (len(short) >= 4 and len(long) - len(short) <= 2 and long.startswith(short))


def missing(stems: "frozenset[str] | set[str]", text: str) -> set[str]:
    """The stems that a text has no word of, in any form."""
    there = stems_of(text)
    return {stem for stem in stems if not any(_is_same(stem, other) for other in there)}


def has_stem(word: str, stem: str) -> bool:
    """Whether a word is of this stem, in any form."""
    return any(_is_same(stem, other) for other in stems_of(word))
