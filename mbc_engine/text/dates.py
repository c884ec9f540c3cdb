"""Dates that a question names, and whether a passage and its document agree with them."""

import calendar
import re
from datetime import date
from itertools import pairwise
from typing import Final, NamedTuple

from mbc_engine.text.chunks import split_sentences
from mbc_engine.text.document import MONTH_NAMES, MONTH_WORDS

_MONTHS: Final = {name.lower(): number for number, name in enumerate(MONTH_NAMES, 1)}
_MONTH: Final = "|".join(_MONTHS)
_YEAR: Final = r"(?P<year>(?:1[5-9]|20)\d\d)(?![\d,.]\d)(?!\d)"
_DAY: Final = r"(?P<day>\d\d?)(?:st|nd|rd|th)?"
# The most specific first.
_FORMS: Final = tuple(
    re.compile(rf"(?<![\w.,])(?:{form})\b", re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
        rf"{_DAY}(?: of)? (?P<name>{_MONTH}),? {_YEAR}",
        rf"(?P<name>{_MONTH}) {_DAY},? {_YEAR}",
        r"(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])",
        rf"(?P<name>{_MONTH})(?: of)?,? {_YEAR}",
        rf"(?<=in ){_YEAR}",
    )
)
_ANY_YEAR: Final = re.compile(rf"(?<![\w.,]){_YEAR}")
# The boats of 2019, for 2019, the 2019 boats, boats 2019, but not 2019 boats.
_LEADS: Final = "|".join(f"(?<={word} )" for word in ("for", "of", "by", "year", "season", "during", "end"))
_FOLLOWING: Final = "in|at|for|of|by|on|and|with|to|from|the|was|is|are|were|did|do|does|has|had"
_OF_YEAR: Final = re.compile(
    rf"(?<![\w.,])(?:(?<=the )(?=(?:19|20)\d\d [a-z])|(?=(?:19|20)\d\d\W*$)|(?:{_LEADS})"
    rf"(?=\d{{4}}(?:\W*$|[,;)]| (?:{_FOLLOWING})\b))){_YEAR}\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?<![^\W_])\d+")
_DECIMAL: Final = re.compile(r"(?<![\d.,])\d+[.,]\d+(?![.,]?\d)")
# A year that what is said around it is of: not one that it is since or until, nor the only number of a table's cell.
_SAID_OF: Final = re.compile(
    r"(?<![\w.,€$£])(?<!\b(?:to|by|ab) )(?<!\b(?:from|till|than|seit) )(?<!\b(?:since|until) )(?<!before )(?<!\bafter )"
    r"(?P<year>(?:1[5-9]|20)\d\d)(?:(?=-\d\d)|(?<!: \d{4})|(?<=(?:year|date|jahr): \d{4}))(?:[/\u2013-](?P<short>\d\d)\b)?"
    r"(?![\w%€$£]|[.,]\d| (?:eur|euros?|usd|dollars?|pounds?|kg|g|km|m|kwh|people|hours)\b)",
    re.IGNORECASE,
)
# A few words on a line that end in a year, or any heading of Markdown.
_HEADING: Final = re.compile(r"#+ [^\n]+|\W{0,3}(?:[^\W\d]+ ){0,4}\d{4}\W{0,3}")
_SHORT: Final = {name[:3]: number for name, number in _MONTHS.items()}
_ANY_MONTH: Final = re.compile(rf"(?<![^\W\d_])(?:{MONTH_WORDS})(?![^\W\d_])", re.IGNORECASE)
# May, march and mar are also other words.
_DOUBTFUL: Final = ("mar", "may")
_BEFORE_MONTH: Final = re.compile(
    r"\b(?:in|of|for|mid|since|until|from|early|late|last|next|this) $|[+/-]$", re.IGNORECASE
)
_AFTER_NAME: Final = re.compile(r"\W*(?:$|\n)|[,;:.)?+/-]")
_IN_FIGURES: Final = re.compile(r"(?<![\d\[])(?:\d{4}-(\d\d)-\d\d|(\d\d?)[./](\d\d?)[./]\d{2,4})(?!\d)")
DAY_OF_MONTH: Final = re.compile(
    rf"\b{_DAY}(?: of)? (?P<name>{MONTH_WORDS})\b|\b(?P<other>{MONTH_WORDS}) (?P<second>\d\d?)(?:st|nd|rd|th)?\b(?!\d)|"
    r"\b\d{4}-(?P<month>0[1-9]|1[0-2])-(?P<third>\d\d)\b",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(r"[;,] |[()|]|\n")


class Period(NamedTuple):
    """A year, or a month or day of it."""

    year: int
    month: int | None = None
    day: int | None = None

    @property
    def span(self) -> tuple[date, date]:
        """Its first and its last day."""
        month = self.month or 12
        last = self.day or calendar.monthrange(self.year, month)[1]
        return date(self.year, self.month or 1, self.day or 1), date(self.year, month, last)

    def is_named_in(self, text: str) -> bool:
        """Whether a text, together with what is known of it, names the year, month and day, wherever they stand."""
        numbers = {int(number) for number in _NUMBER.findall(_DECIMAL.sub("", text))}
        month = self.month
        has_month = month is None or month in numbers or MONTH_NAMES[month - 1][:3].lower() in text.lower()
        return self.year in numbers and has_month and (self.day is None or self.day in numbers)


def is_of_another_time(period: Period, text: str, day: str | None) -> bool:
    """Whether a text names a year, but it and the day of its document do not name the period."""
    return _ANY_YEAR.search(text) is not None and not period.is_named_in(f"{text} {day or ''}")


def months_in(text: str, *, in_figures: bool = False) -> set[int]:
    """The months that a text names or abbreviates, from 1 to 12; also those that its dates `in_figures` may be of."""
    named = {
        _SHORT[short]
        for match in _ANY_MONTH.finditer(text)
        if (short := match[0].lower()[:3]) in _SHORT and (short not in _DOUBTFUL or _is_month(text, match))
    }
    figures = (part for numbers in _IN_FIGURES.findall(text) for part in numbers) if in_figures else ()
    return named | {int(part) for part in figures if part and 1 <= int(part) <= 12}


def days_in(text: str) -> set[tuple[int, int]]:
    """The days that a text names, as 12 August, August 12 or 2026-08-12: each a month and a day."""
    return {
        (_SHORT[(found["name"] or found["other"]).casefold()[:3]], int(found["day"] or found["second"]))
        if found["month"] is None
        else (int(found["month"]), int(found["third"]))
        for found in DAY_OF_MONTH.finditer(text)
    }


def _is_month(text: str, match: re.Match[str]) -> bool:
    """Whether a word that is another word too is a month where it stands."""
    start, end = match.span()
    before, after = text[max(0, start - 8) : start], text[end : end + 4]
    if re.match(r" ?\d", after) or _BEFORE_MONTH.search(before):
        return True
    may_be = match[0][0].isupper() or re.search(r"\d $|\band $", before)
    return bool(may_be and _AFTER_NAME.match(after))


def parts_of_other_years(question: str, text: str) -> list[tuple[int, int]]:
    """Where a text is only about other years than the question names, by its clauses and sentences; none if it names none.

    A clause that names no year is of those that its sentence names, or the heading above it.
    """
    period = period_in(question)
    if period is None or asks_when(question) or len(set(_ANY_YEAR.findall(question))) > 1:
        return []
    others: list[tuple[int, int]] = []
    above = set[int]()
    for start, end in split_sentences(text):
        years = _years_of(text[start:end]) or above
        if _HEADING.fullmatch(text, start, end):
            above = _years_of(text[start:end])
        bounds = [start, *(match.end() for match in _CLAUSE.finditer(text, start, end)), end]
        for first, last in pairwise(bounds):
            said = _years_of(text[first:last]) or years
            if said and not min(said) <= period.year <= max(said):
                others.append((first, last))
    return others


# Months and weekdays by their abbreviations.
SHORT_NAMES: Final = {name[:3]: name for name in (*MONTH_NAMES, *calendar.day_name)}


def names_a_time(text: str) -> bool:
    """Whether a text may answer "when"."""
    return _TIME.search(text) is not None


def asks_when(question: str) -> bool:
    """Whether a question asks for a time."""
    return _WHEN.match(question) is not None


_TIME: Final = re.compile(
    rf"\d|\b(?:{_MONTH}|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|to(?:day|morrow|night)|yesterday|tonight|"
    r"spring|summer|autumn|fall|winter|mornings?|afternoons?|noon|evenings?|nights?|midnight|dawn|dusk|"
    r"(?:hour|day|week|month|quarter|year|decade|centur)(?:s|y|ies|ly)?|daily|annual(?:ly)?|christmas|easter|"
    r"when|while|once|as|after|before|during|until|till|since|at|by|on|end|start|beginning|early|late|later|next|last|"
    r"every|ago|now|soon|immediately|never|always|birth|childhood|lunch|dinner|break|holidays?|one|two|three|first|second)\b",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"\W*(?:(?:since|until|from|by|in|at|on) )?(?:when|(?:what|which) (?:year|date|day|time(?= (?:is|was|does|do|did|will|can|must|should)\b|\W*$)))\b",
    re.IGNORECASE,
)


def _years_of(text: str) -> set[int]:
    years = {int(match["year"]): match["short"] for match in _SAID_OF.finditer(text)}
    # A season, as 2025/26; the day 2025-12-31 is of no other year.
    return {
        *years,
        *(year // 100 * 100 + int(short) for year, short in years.items() if short and int(short) == year % 100 + 1),
    }


def period_in(question: str) -> Period | None:
    """The day, month or year that a question is about; None unless it names exactly one."""
    for form in _FORMS:
        found = {_period(match.groupdict()) for match in form.finditer(question)} - {None}
        if found:
            return found.pop() if len(found) == 1 else None
    years = set(_ANY_YEAR.findall(question))
    return Period(int(years.pop())) if len(years) == 1 and _OF_YEAR.search(question) else None


def _period(named: dict[str, str | None]) -> Period | None:
    year, day, month, name = (named.get(part) or "" for part in ("year", "day", "month", "name"))
    number = _MONTHS.get(name.lower()) if name else int(month or 0)
    if number is None:  # its letters only look alike
        return None
    period = Period(int(year), number or None, int(day) if day else None)
    try:
        return period if period.span else None
    except ValueError:
        return None
