"""What speaks against an answer, by rule: a penalty on its margin over "not here".

The reader sees a window of text, and may be sure of a near miss: the right sentence about another flat or edition, or a
place where a number is asked for.
"""

import re
from typing import Final

from mbc_engine.mini.word_matching import ORDINALS, POSSESSIVE
from mbc_engine.sources import Known, sentence_around
from mbc_engine.text.dates import asks_when, is_of_another_time, months_in, names_a_time, period_in
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import ENGLISH

# From a passage of another time or thing than the question names.
_ANOTHER_PASSAGE: Final = 8.0
# What does not answer "when" or "how many", or stands in a sentence about other months.
_UNFITTING: Final = 4.0


def penalty(question: str, text: str, known: Known, start: int, end: int) -> float:
    """What the passage's best span loses: for what its document says, its sentence, and itself.

    If its passage is of another time, or of another lettered thing; if its sentence names other months; or if it is no
    number or time though one is asked for.
    """
    if is_of_another(question, f"{known.context}\n{text}", known.date):
        return _ANOTHER_PASSAGE
    span, sentence = text[start:end], sentence_around(text, start, end)
    is_unfitting = any(asked.search(question) and not given.search(span) for asked, given in _WANTED)
    if asks_when(question):
        is_unfitting |= not names_a_time(span)
    elif not period_in(question) and (asked_months := months_in(question)) and months_in(sentence):
        said_of = f"{known.date or ''} {known.context}\n{text[:start]}\n{sentence}"
        is_unfitting |= asked_months.isdisjoint(months_in(said_of, in_figures=True))
    return _UNFITTING if is_unfitting else 0.0


# What a question asks for, and what its answer has to have.
_WANTED: Final = (
    (re.compile(r"\b(?:phone|telephone|mobile) (?:number|of)\b", re.IGNORECASE), re.compile(r"\d")),
    (
        re.compile(r"\bhow often\b", re.IGNORECASE),
        re.compile(
            r"\d|(?i:\b(?:every|each|all|per|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twice|thrice|once|"
            r"many|times?|\w+ly|always|never|seldom|sometimes|often|rare|regular|usual|common|as|when|whenever|on|at|if)\b)"
        ),
    ),
    (
        re.compile(r"\bhow (?:many|much)\b", re.IGNORECASE),
        re.compile(
            r"\d|(?i:\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundreds?|"
            r"thousands?|millions?|billions?|dozens?|half|thirds?|quarters?|fifths?|tenths?|pairs?|couple|both|several|many|"
            r"much|most|few|some|lots?|all|every|entire|whole|none|no|nothing|never|nobody|zero|free|double|twice|thrice|"
            r"once|single|numerous|majority|minority|more|less|fewer|little|very|enough|mostly|completely)\b)"
        ),
    ),
)


# Flat b, gate C; "a" is a letter only where nothing follows.
_LETTERED: Final = re.compile(r"\b([^\W\d_]{3,}) ([b-hj-z]|a(?=\W*$)|[A-HJ-Z])\b")
# Paper 2, room 14.
_NUMBERED: Final = re.compile(
    rf"\b(?!(?:{'|'.join(MONTH_NAMES)})\b)([^\W\d_]{{3,}}) (\d{{1,3}})\b(?![.,:/-]?\w|\s?[%\u20ac$\u00a3])",
    re.IGNORECASE,
)
# The third lesson, of a table with "Lesson: 3".
_COUNTED: Final = re.compile(rf"\b({'|'.join(ORDINALS)}) ([^\W\d_]{{3,}})", re.IGNORECASE)
_SUPERSEDED: Final = re.compile(
    r"(?<![^\W_])(?:OLD|(?i:v1|obsolete|outdated|superseded|deprecated|archived)|(?<![A-Z]{3} )(?i:draft))(?![^\W_])"
)


def is_of_another(question: str, said: str, day: str | None) -> bool:
    """Whether a passage, with what is known of it, is of another time than the question, or another numbered thing."""
    period = period_in(question)
    return bool(period and is_of_another_time(period, said, day)) or is_of_another_thing(question, said)


# Version 3, v3, rev. 3, 3rd edition
_VERSION: Final = re.compile(
    r"\b(?:v|ver|version|rev|revision|draft|edition)[. ]?\d|\b\d+(?:st|nd|rd|th) edition\b", re.IGNORECASE
)
_NUMBERS: Final = re.compile(r"\d+")


def has_version(context: str) -> bool:
    """Whether the name or title of a document says which version it is."""
    return _VERSION.search(context) is not None


def is_earlier_version(question: str, context: str, other: str) -> bool:
    """Whether a document is an earlier version than another, by their names or titles, that the question does not name."""
    for one, later in zip(context.split(" > "), other.split(" > "), strict=False):
        numbers, others = (list(map(int, _NUMBERS.findall(name))) for name in (one, later))
        is_same = _NUMBERS.sub("", one).lower() == _NUMBERS.sub("", later).lower() and _VERSION.search(one)
        if is_same and numbers < others and not _VERSION.search(question):
            return not set(map(str, numbers)) & set(_NUMBERS.findall(question))
    return False


def is_superseded(question: str, context: str) -> bool:
    """Whether a document is an old version or a draft, by its name or title, and the question does not ask for that."""
    marks = {mark.lower() for mark in _SUPERSEDED.findall(context) if not (mark == "OLD" and context.isupper())}
    return bool(marks) and marks.isdisjoint(re.findall(r"\w+", question.lower()))


def is_of_another_thing(question: str, text: str) -> bool:
    """Whether a text speaks of flat C or paper 2, and not of the flat b or paper 1 that the question names."""
    ordinals = [
        (noun, ORDINALS.index(word.lower()) + 1)
        for word, noun in _COUNTED.findall(question)
        if word.lower() in ORDINALS
    ]
    # A text may speak of page 12 in passing, but not begin a line or cell with it.
    named = [(noun, number, rf"\b{noun}(?:: (?=\d+(?:;|$))| )") for noun, number in _NUMBERED.findall(question)]
    named += [(noun, str(number), rf"(?:^[ #*-]{{0,9}}|; ){noun}:? ") for noun, number in ordinals]
    for noun, number, before in named:
        others = re.findall(rf"{before}(\d{{1,3}})(?!\w)", text, re.IGNORECASE | re.MULTILINE)
        is_there = re.search(rf"\b{noun}:? {number}(?!\w)", text, re.IGNORECASE) is not None
        if noun.lower() not in ENGLISH and others and not is_there:
            return True
    for noun, letter in _LETTERED.findall(POSSESSIVE.sub("", question)):
        there = {found.upper() for found in re.findall(rf"(?i:\b{noun}\W{{1,2}})([b-hj-z]|a(?! \w)|[A-HJ-Z])\b", text)}
        if noun not in ENGLISH and there and not re.search(rf"\b{letter.upper()}\b", f"{text} {' '.join(there)}"):
            return True
    return False
