"""Where English sentences begin and end, by rules over pairs of neighbouring words; linear in the text."""

import re

_WORD = re.compile(r"\S+")
_OPENERS = "\"'“‘«([{*_"  # noqa: RUF001
_CLOSERS = "\"'”’»)]}*_"  # noqa: RUF001
# "…in 1911.[3][4]": reference marks belong to the sentence before them.
_REFERENCES = re.compile(r"(?<=[.!?])(?:\[\w{1,4}\])+$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS = _words(
    "mr mrs ms mx dr prof st mt ft sr jr hon rev fr gen adm col maj capt cmdr lt sgt cpl pvt gov sen rep pres supt "
    "vs cf al etc approx ca est dept univ assn bros inc corp ltd co llc ave blvd rd "
    "jan feb mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu thurs fri"
)
_BEFORE_NUMBERS = _words("no nos fig figs vol vols pp sec ch art eq op ed nr para")
# After an abbreviation, a word that opens sentences far more often than it follows "Mr." or "U.S.".
_STARTERS = _words(
    "The This That These Those There Then They He She It We You I His Her Its Their Our My In On At By For From With "
    "After Before During Since When While As If But And Or So However Although Though Because Not "
    "What Who Where Why How Some Many Most Several Both Another Other One Later Today"
)


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Spans (start, end) of the sentences: text[start:end] is one, without space around it.

    Together the spans hold every character that is not white space, in order. A blank line always ends a sentence; a
    single line break does unless the text plainly runs on (a lower-case word follows, or a comma stands before it).
    """
    spans: list[tuple[int, int]] = []
    start = end = 0
    previous = ""
    for match in _WORD.finditer(text):
        if previous and _is_end(previous, text[end : match.start()], match[0], is_first=start == end - len(previous)):
            spans.append((start, end))
            previous = ""
        if not previous:
            start = match.start()
        previous, end = match[0], match.end()
    if previous:
        spans.append((start, end))
    return spans


def _is_end(word: str, gap: str, following: str, *, is_first: bool) -> bool:
    """Does a sentence end between two words? `is_first`: `word` is the first of its sentence."""
    line_breaks = gap.count("\n")
    if line_breaks > 1:
        return True
    follower = following.lstrip(_OPENERS)
    runs_on = follower[:1].islower()
    stem = _REFERENCES.sub("", word).rstrip(_CLOSERS)
    if not stem.endswith((".", "!", "?", "…")):
        return line_breaks == 1 and not runs_on and not word.endswith(",")
    if runs_on:
        return False
    if not stem.endswith(".") or stem.endswith(".."):
        return True
    return not _is_abbreviation(stem[:-1].lstrip(_OPENERS), follower, is_first=is_first)


def _is_abbreviation(word: str, follower: str, *, is_first: bool) -> bool:
    """Does the full stop after `word` belong to the word (Mr., U.S., J., No. 5, the 1. of a list)?"""
    if is_first and (len(word) == 1 or word.isdecimal()):
        return True
    if word.lower() in _BEFORE_NUMBERS:
        return follower[:1].isdecimal()
    if word.lower() in _ABBREVIATIONS or _DOTTED.fullmatch(word) or (len(word) == 1 and word.isalpha()):
        return follower.rstrip(",;:" + _CLOSERS).partition("'")[0] not in _STARTERS
    return False
