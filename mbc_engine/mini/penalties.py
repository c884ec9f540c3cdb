"""What speaks against an answer, by rule: penalties on the scores of spans.

The reader sees a window of text, and is often sure of a near miss: the right sentence of another year, section or flat,
a name that the text denies, a column's name. Each rule takes from the score of such spans what a right one has ahead of
"not here", so that another is chosen or none is sure.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.word_matching import EXCLUSIVE, NEGATION, ORDINALS, POSSESSIVE, missing
from mbc_engine.sources import Known, content_stems, sentence_around
from mbc_engine.text import split_sentences
from mbc_engine.text.dates import (
    asks_when,
    days_in,
    is_of_another_time,
    months_in,
    names_a_time,
    parts_of_other_years,
    period_in,
)
from mbc_engine.text.document import MONTH_NAMES
from mbc_engine.text.language import ENGLISH

# In a clause or sentence about other years, or under other headings, than those that the question names.
_ANOTHER_YEAR: Final = 5.0
_ANOTHER_SECTION: Final = 3.0
# In a clause about the left, where the question is about the right.
_ANOTHER_CLAUSE: Final = 5.0
# What the text denies or strikes out, or what only names or numbers what is said.
_DENIED: Final = 5.0
_LABEL: Final = 5.0
# What a mail quotes, which was said before.
_QUOTED: Final = 3.0
# From a passage of another time or thing than the question names.
_ANOTHER_PASSAGE: Final = 8.0
# What does not answer "when" or "how many", or stands in a sentence about other months.
_UNFITTING: Final = 4.0


class Penalty(NamedTuple):
    """What the spans lose that begin, or end, in the characters of a passage from `start` to `end`."""

    edge: Literal["first", "last"]
    start: int
    end: int
    loss: float


def penalties(question: str, text: str) -> Iterator[Penalty]:
    """The penalties on spans of a passage, by where they stand."""
    for start, end in parts_of_other_years(question, text):
        yield Penalty("first", start, end, _ANOTHER_YEAR)
    for start, end in sections_of_others(question, text):
        yield Penalty("first", start, end, _ANOTHER_SECTION)
    for start, end in clauses_of_others(question, text):
        yield Penalty("first", start, end, _ANOTHER_CLAUSE)
    for quoted in _QUOTED_LINES.finditer(text):
        yield Penalty("first", *quoted.span(), _QUOTED)
    for struck in _STRUCK.finditer(text):
        yield Penalty("first", *struck.span(), _DENIED)
    begins, ends = denied_edges(question, text)
    for edge in begins:
        yield Penalty("first", edge, edge + 1, _DENIED)
    for edge in ends:
        yield Penalty("last", edge - 1, edge, _DENIED)
    for difference in [] if _COMPARED.search(question) else _DIFFERENCE.finditer(text):
        yield Penalty("first", *difference.span(), _DENIED)
    for start, end in labels(question, text):
        yield Penalty("last", start, end, _LABEL)


def penalty(question: str, text: str, known: Known, start: int, end: int) -> float:
    """What the passage's best span loses: for what its document says, its sentence, and itself.

    If its passage is of another time, or of another lettered thing; if its sentence names other months; if it is no number
    or time though one is asked for; or if it is a time in a row of a table that has only a name in common with the
    question, as the day when somebody was hired if the question is when they died.
    """
    if is_of_another(question, f"{known.context}\n{text}", known.date):
        return _ANOTHER_PASSAGE
    span, sentence = text[start:end], sentence_around(text, start, end)
    is_unfitting = any(asked.search(question) and not given.search(span) for asked, given in _WANTED)
    if asks_when(question):
        is_unfitting |= not names_a_time(span) or _is_unrelated(question, known, sentence)
    elif not period_in(question) and (asked_months := months_in(question)) and months_in(sentence):
        said_of = f"{known.date or ''} {known.context}\n{text[:start]}\n{sentence}"
        is_unfitting |= asked_months.isdisjoint(months_in(said_of, in_figures=True))
        is_unfitting |= _is_of_another_day(question, sentence, f"{known.date or ''} {known.context}")
    return _UNFITTING if is_unfitting else 0.0


def _is_of_another_day(question: str, sentence: str, known: str) -> bool:
    """Whether a sentence is of one other day than the one that a question names."""
    asked, said = days_in(question), days_in(sentence)
    return len(asked) == len(said) == 1 and asked != said and not asked & days_in(known) and not _SPAN.search(sentence)


def _is_unrelated(question: str, known: Known, row: str) -> bool:
    """Whether a row of a table has no word of what a question asks of a name."""
    said = content_stems(" ".join(word for word in question.split() if word.islower())) - _OF_TIME
    return row.count("; ") > 1 and bool(said) and missing(said, f"{known.context} {row}") == said


_SPAN: Final = re.compile(
    r"\d (?:to|until|till|and) \d|\d(?: - | ?\u2013 ?)\d|\b(?:from|since|until|till|by|before|after|between)\b",
    re.IGNORECASE,
)
_STRUCK: Final = re.compile(r"~~[^~\n]+~~")
_QUOTED_LINES: Final = re.compile(r"^>[^\n]*\n?", re.MULTILINE)
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
# What a question may say that the row with its answer does not.
_OF_TIME: Final = stems_of(
    "did do does is are was were when date day time year next last first due start begin end take place happen scheduled "
    "planned held"
)


_DENIAL: Final = re.compile(
    rf"{NEGATION.pattern}|\b(?:longer|formerly|instead|before|previously|originally)\b", re.IGNORECASE
)
_AFTER_DENIAL: Final = re.compile(
    r"\b(?:no longer|not|never|instead of|rather than) (?:(?:in|at|on|by|for|to|with|the|an?) ){0,2}(?=\w)",
    re.IGNORECASE,
)
_BEFORE_DENIAL: Final = re.compile(
    r" (?:(?:is|are|was|were|has|have|had|does|do|did|will|can|could|would)(?: not|n['\u2019]t)|has no|have no|had no|cannot|"
    r"can['\u2019]t|won['\u2019]t|no longer)\b",
    re.IGNORECASE,
)


def denied_edges(question: str, text: str) -> tuple[list[int], list[int]]:
    """Where answers would begin or end that a text denies, as Ann in "no longer Ann, but Bea" and "Ann has no key".

    Empty if the question has a negation too.
    """
    if _DENIAL.search(question):
        return [], []
    begins = [match.end() for match in _AFTER_DENIAL.finditer(text)]
    return begins, [match.start() for match in _BEFORE_DENIAL.finditer(text)]


# How much more something is, as 57 in "57 more than last year"; not 2024 in "in 2024, more than 300 came".
_DIFFERENCE: Final = re.compile(
    r"(?<![\d.,])(?!(?:19|20)\d\d )\d+(?:[.,]\d+)*(?: [^\W\d]+)? (?:more|fewer|less|higher|lower|longer|shorter) than\b(?! \d)",
    re.IGNORECASE,
)
_COMPARED: Final = re.compile(
    r"\b(?:more|fewer|less|higher|lower|longer|shorter|than|differ|r[io]se|grow|grew|f[ae]ll|drop|increase|change)",
    re.IGNORECASE,
)


# A heading of Markdown; or a short line after a blank one, unless the next begins with a small letter.
_HEADING: Final = re.compile(
    r"^#{1,6} [^\n]+(?=\n)|(?:(?<=\n\n)|\A)[^\W\d_][^\n.;!?]{1,58}[^\s.;!?,](?=\n(?![a-z]))", re.MULTILINE
)
# Of a passage, in which sections are looked for; more than are read.
_MOST_CHARACTERS: Final = 8192


def sections_of_others(question: str, text: str) -> list[tuple[int, int]]:
    """The sections of a text that are not about what the question names in another's heading, and only there.

    The first heading counts for all that follows, as a title does. A section with as many of the question's words as the
    named one is left out.
    """
    headings = list(_HEADING.finditer(text := text[:_MOST_CHARACTERS]))
    headings = ([heading for heading in headings if heading[0][0] == "#"] or headings)[1:]
    asked = content_stems(question) if headings else set()
    starts = [heading.start() for heading in headings]
    sections = list(pairwise([*starts, len(text)]))
    above, *said = (asked & stems_of(text[first:last]) for first, last in [(0, min(starts, default=0)), *sections])
    named, most = set[int](), 0  # sections, and how many of the question's words one has
    for at, heading in enumerate(headings):
        below = (n for n in range(at + 1, len(headings)) if _level(headings[n][0]) <= _level(heading[0]))
        inside = range(at, next(below, len(headings)))
        only_here = asked & stems_of(heading[0]) - above
        if only_here and only_here.difference(*(words for n, words in enumerate(said) if n not in inside)):
            named |= {*inside}
            most = max(most, len(set().union(*(said[n] for n in inside))))
    return [span for at, span in enumerate(sections) if named and at not in named and len(said[at]) < most]


_CLAUSE: Final = re.compile(r"[;,:] |[()|]|\n")
# Perhaps a verb: who left, how long it lasts, what I may bring.
_PERHAPS_VERB: Final = re.compile(
    r"(?<!\bthe )(?<!\bon )(?<!\bin )(?<!\bmy )(?<!\d )\b(?:left|last|may|march)\b", re.IGNORECASE
)
# A sentence may well say these of the same.
_TOGETHER: Final = stems_of("open boss")


def clauses_of_others(question: str, text: str) -> list[tuple[int, int]]:
    """Where a sentence speaks of the left, if the question asks for the right, and the sentence says that elsewhere.

    As "within the city it costs 15 euros, outside 29".
    """
    asked = stems_of(question) - stems_of(" ".join(_PERHAPS_VERB.findall(question)))
    alone = [group for group in EXCLUSIVE if len(group & stems_of(question)) == 1]
    groups = [group for group in alone if group & asked and not group & _TOGETHER]
    others: list[tuple[int, int]] = []
    for start, end in split_sentences(text) if groups else []:
        bounds = [start, *(match.end() for match in _CLAUSE.finditer(text, start, end)), end]
        clauses = [(span, stems_of(text[slice(*span)])) for span in pairwise(bounds)]
        for group in groups:
            own = [span for span, said in clauses if said & group & asked]
            if any(_says(text[slice(*span)], group) for span in own):
                others += [span for span, said in clauses if said & group and span not in own]
    return others


def _says(clause: str, group: set[str]) -> bool:
    """Whether a clause has a number or a name, beside the words of a group."""
    words = re.findall(r"\w+", clause)[1:]
    return any(word[0].isdigit() or (word[0].isupper() and group.isdisjoint(stems_of(word))) for word in words)


def _level(heading: str) -> int:
    """How deep a heading is; one in capitals stands above others."""
    marks, (word, *_) = len(heading) - len(heading.lstrip("#")), heading.split()
    return marks or (1 if word.isupper() and len(word) > 1 and word.isalpha() else 2)


# The number of a heading or of an item of a list, and a column's name in a row of a table with its cell.
_NUMBERING: Final = re.compile(r"^[ \t]*(?:\(?\d{1,3}[.)]|[a-z]\))(?=[ \t])", re.MULTILINE)
_CELL: Final = re.compile(r"(?:(?<=; )|^(?=[^\n]*; ))(?P<column>[^:;\n]{1,80}): (?P<value>[^;\n]*)", re.MULTILINE)


def labels(question: str, text: str) -> list[tuple[int, int]]:
    """Where answers seldom end: in the number of a heading or an item, or in a column's name.

    Unless the cell has a word of the question, which may ask for the column.
    """
    asked = content_stems(question)
    return [
        *(match.span() for match in _NUMBERING.finditer(text)),
        *(match.span("column") for match in _CELL.finditer(text) if asked.isdisjoint(stems_of(match["value"]))),
    ]


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
