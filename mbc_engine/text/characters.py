"""Characters that hide a word: what a text looks like on paper, and other ways to write its words.

Texts are stored as they were written; this is how they are encoded, compared and shown.
"""

import re
import unicodedata
from collections.abc import Iterator

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|[ -/]*[0-~])"  # ECMA-48
# Soft hyphens, zero-width characters that join or part nothing on paper, marks of direction, control characters.
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
# A letter that another is printed on, as manual pages have them in bold.
_OVERSTRUCK = "[^\n]\x08"
_DROPPED = re.compile(f"{_ESCAPE}|{_OVERSTRUCK}|[{_UNSEEN}{_CONTROLS}]")
_LIGATURES = dict(zip(range(0xFB00, 0xFB07), ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))


def readable(text: str) -> str:
    """The text without what is not seen on paper, and with letters for ligatures; line breaks stay."""
    text = _DROPPED.sub("", text)
    return text if text.isascii() else text.translate(_LIGATURES)


# Groups of three digits, as 1,240 and 1.240.000 and 5 000, with any kind of space.
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,.'\u2019 \u00a0\u2007\u2009\u202f])\d{3})(?:\1\d{3})*(?![\d])")
# What stands in a word that is also written without it: e-mail, O'Brien, U.S., and what parts words in Persian.
_INSIDE = re.compile(r"(?<=\w)[-\u2010\u2011'\u2019\u200c\u200d](?=\w)|(?<=\b[^\W\d_])\.(?=[^\W\d_]\b)")
_WITHOUT_UMLAUTS = str.maketrans(dict(zip("äöüøåæœþ", ("ae", "oe", "ue", "oe", "aa", "ae", "oe", "th"), strict=True)))
_WITHOUT_STROKES = str.maketrans(
    dict(zip("øåæœþđðłıħŧ", ("o", "a", "ae", "oe", "th", "d", "d", "l", "i", "h", "t"), strict=True))
)


def spellings(text: str) -> Iterator[str]:
    """The text without case and diacritics, then the same in other usual spellings where they differ."""
    folded = unicodedata.normalize("NFC", readable(text).casefold())
    plain = _without_marks(folded)
    yield plain
    if not folded.isascii():
        for table in (_WITHOUT_UMLAUTS, _WITHOUT_STROKES):
            if (other := folded.translate(table)) != folded:
                yield _without_marks(other)
    joined = _THOUSANDS.sub(lambda number: "".join(filter(str.isdecimal, number[0])), plain)
    if (joined := _INSIDE.sub("", joined)) != plain:
        yield joined


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
