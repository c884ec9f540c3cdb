"""Days out of the ways in which dates are written."""

import re
from datetime import UTC, date, datetime

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# "Thu, 26 Feb 1987 15:01:01 +0000" as in mail, "26-FEB-1987 15:01:01.79" as in old databases, "26 February 1987".
_IN_WORDS = re.compile(r"(?:[A-Za-z]{3,9},?\s+)?(\d{1,2})[\s-]([A-Za-z]{3})[a-z]{0,6}[\s-](\d{4})\b")
# Longer than any date, and short enough for whatever looks at it.
_LONGEST = 100


def day_of(written: object) -> str | None:
    """The day of a date as people and programs write it: ISO 8601, or day, month in English, year.

    An ISO time with an offset is taken to UTC; of others the day is certain enough. Whatever follows the day may be
    anything. Returns an ISO day, or None if `written` is no such text.
    """
    if not isinstance(written, str):
        return None
    value = written.strip()[:_LONGEST]
    for parse in (_iso_moment, _iso_day, _day_in_words):
        try:
            return parse(value).isoformat()
        except (ValueError, OverflowError):
            continue
    return None


def day_of_moment(moment: datetime | None) -> str | None:
    """The day of a moment in UTC, or None if there is none."""
    try:
        return _utc_day(moment).isoformat() if moment else None
    except OverflowError:
        return None


def day_of_timestamp(seconds: float) -> str | None:
    """The day of a file system's time stamp in UTC, or None if it is beyond what can be written."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _utc_day(moment: datetime) -> date:
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).date()


def _iso_moment(value: str) -> date:
    return _utc_day(datetime.fromisoformat(value))


def _iso_day(value: str) -> date:
    """The 2024-05-01 of "2024-05-01 10:30:00 +0200", as site generators write it, and of "2024/05/01"."""
    return date.fromisoformat(value[:10].replace("/", "-"))


def _day_in_words(value: str) -> date:
    found = _IN_WORDS.match(value)
    if found is None:
        raise ValueError(value)
    return date(int(found[3]), _MONTHS.index(found[2].lower()) + 1, int(found[1]))
