"""Characters that hide a word: what a text looks like on paper, and other ways to write its words.

Texts are stored as they were written; this is how they are encoded, compared and shown.
"""

import re
import unicodedata
from collections.abc import Iterator

from mbc_engine.text.language import word_set

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)|[ -/]*[0-~])"  # ECMA-48
# Soft hyphens, zero-width characters that join or part nothing on paper, marks of direction, control characters.
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
# A letter that another is printed on, as manual pages have them in bold.
_OVERSTRUCK = "[^\n]\x08"
_DROPPED = re.compile(f"{_ESCAPE}|{_OVERSTRUCK}|[{_UNSEEN}{_CONTROLS}]")
_IN_DROPPED = re.compile(f"[{_UNSEEN}{_CONTROLS}]")  # in each match of `_DROPPED`, and found six times as fast
_LIGATURES = dict(zip(range(0xFB00, 0xFB07), ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))


def readable(text: str) -> str:
    """The text without what is not seen on paper, and with letters for ligatures; line breaks stay."""
    text = _DROPPED.sub("", text) if _IN_DROPPED.search(text) else text
    return text if text.isascii() else text.translate(_LIGATURES)


# Before a hyphen at the end of a line, these make compounds more often than they begin a word.
_COMPOUNDS = word_set(
    "all anti best cross double ex four full half hard high ill long low mid much near never new off old "
    "one open quarter quasi real right second self semi short single six so soft third three top two vice "
    "well wide world"
)
_CUT = re.compile(r"(?<=[^\W_])[-\u2010]\n[ \t]*(?=[^\W\d_])")
_LONGEST_COMPOUND = 40  # characters


def is_compound(before: str, after: str) -> bool:
    """Whether a hyphen between two lines belongs to the word that they part."""
    word = re.split(r"[^\w-]", before)[-1].lower()
    return word.isdecimal() or not after[:1].islower() or "-" in word or word in _COMPOUNDS


def on_one_line(text: str) -> str:
    """The text with a space for any white space, and with the words joined that the ends of lines part."""

    def joined(cut: re.Match[str]) -> str:
        start, end = cut.span()
        return "-" * is_compound(text[max(0, start - _LONGEST_COMPOUND) : start], text[end])

    return " ".join(_CUT.sub(joined, text).split())


# Groups of three digits, as 1,240 and 1.240.000 and 5 000, with any kind of space.
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:([,.'\u2019 \u00a0\u2007\u2009\u202f])\d{3})(?:\1\d{3})*(?![\d])")
# What stands in a word that is also written without it: e-mail, O'Brien, U.S., the end of a line, and what parts words
# in Persian.
_INSIDE = re.compile(
    r"[-\u2010\u2011'\u2019\u200c\u200d.](?:(?<=\w[-\u2010])(?:\n[ \t]*)?(?=\w)|(?<=\w[\u2011'\u2019\u200c\u200d])(?=\w)"
    r"|(?<=\b[^\W\d_]\.)(?=[^\W\d_]\b))"
)
_WITHOUT_UMLAUTS = str.maketrans(dict(zip("äöüøåæœþ", ("ae", "oe", "ue", "oe", "aa", "ae", "oe", "th"), strict=True)))
_WITHOUT_STROKES = str.maketrans(
    dict(zip("øåæœþđðłıħŧ", ("o", "a", "ae", "oe", "th", "d", "d", "l", "i", "h", "t"), strict=True))
)
_IN_TABLES = re.compile(f"[{''.join(map(chr, {*_WITHOUT_UMLAUTS, *_WITHOUT_STROKES}))}]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def spellings(text: str) -> Iterator[str]:
    """The text without case and diacritics, then the same in other usual spellings where they differ."""
    folded = unicodedata.normalize("NFC", readable(text).casefold())
    plain = _without_marks(folded)
    yield plain
    if _IN_TABLES.search(folded):
        for table in (_WITHOUT_UMLAUTS, _WITHOUT_STROKES):
            if (other := folded.translate(table)) != folded:
                yield _without_marks(other)
    joined = _THOUSANDS.sub(lambda number: "".join(filter(str.isdecimal, number[0])), plain)
    if (joined := _INSIDE.sub("", joined)) != plain:
        yield joined


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    parted = unicodedata.normalize("NFKD", text)
    return _NOT_ASCII.sub(lambda letter: "" if unicodedata.combining(letter[0]) else letter[0], parted)
