"""Dates that a question names, and whether a passage and its document agree with them."""

import calendar
import re
from datetime import date
from typing import Final, NamedTuple

from mbc_engine.text.document import MONTH_NAMES

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
_NUMBER: Final = re.compile(r"\d+")


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
        numbers = {int(number) for number in _NUMBER.findall(text)}
        month = self.month
        has_month = month is None or month in numbers or MONTH_NAMES[month - 1][:3].lower() in text.lower()
        return self.year in numbers and has_month and (self.day is None or self.day in numbers)


def is_of_another_time(period: Period, text: str, day: str | None) -> bool:
    """Whether a text names a year, but it and the day of its document do not name the period."""
    return _ANY_YEAR.search(text) is not None and not period.is_named_in(f"{text} {day or ''}")


def period_in(question: str) -> Period | None:
    """The day, month or year that a question is about; None unless it names exactly one."""
    for form in _FORMS:
        found = {_period(match.groupdict()) for match in form.finditer(question)} - {None}
        if found:
            return found.pop() if len(found) == 1 else None
    return None


def _period(named: dict[str, str | None]) -> Period | None:
    year, day, month, name = (named.get(part) or "" for part in ("year", "day", "month", "name"))
    number = _MONTHS[name.lower()] if name else int(month or 0)
    period = Period(int(year), number or None, int(day) if day else None)
    try:
        return period if period.span else None
    except ValueError:
        return None
