"""Which documents a question is about, as it is typed: days, a half-life, patterns."""

import os
import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Final

from mbc_engine.bank import Selection
from mbc_engine.errors import ConfigError

_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?))?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?) *([dwmy]?)", re.ASCII)
_DAYS: Final = {"": 1, "d": 1, "w": 7, "m": 30, "y": 365}
_PLACE: Final = re.compile(r"~|\.{0,2}(/|$)")
_WILD: Final = re.compile(r"[*?\[\\]")
_SPECIAL: Final = re.compile(r"[*?\[\]\\!# ]")


def selection(
    since: str | None, as_of: str | None, half_life: str | None, only: Sequence[str], exclude: Sequence[str]
) -> Selection:
    """What the options of these names mean together.

    Raises:
        ConfigError: one of them means nothing, or they contradict each other.
    """
    return Selection(
        since=None if since is None else _day("--since", since, is_last=False),
        as_of=None if as_of is None else _day("--as-of", as_of, is_last=True),
        half_life=None if half_life is None else _days(half_life),
        only=tuple(map(_placed, only)),
        exclude=tuple(map(_placed, exclude)),
    )


def _day(option: str, typed: str, *, is_last: bool) -> date:
    """A day, or the first or last of a month or year."""
    found = _DATE.fullmatch(typed.strip())
    try:
        if found is None:
            raise ValueError(typed)
        year = int(found["year"])
        month = int(found["month"] or (12 if is_last else 1))
        return date(year, month, int(found["day"] or (monthrange(year, month)[1] if is_last else 1)))
    except ValueError as error:
        raise ConfigError(
            f"{option} {typed!r} is not a date.", hint="Write dates as 2024-05-31; 2024-05 is a month, 2024 a year."
        ) from error


def _days(typed: str) -> float:
    found = _TIME.fullmatch(typed.strip())
    if found is None:
        raise ConfigError(
            f"--half-life {typed!r} is not a period.",
            hint="Write periods as 30d, 4w, 6m or 1y; a number alone means days.",
        )
    return float(found[1]) * _DAYS[found[2]]


def _placed(pattern: str) -> str:
    """A pattern that begins with a place as one from the root: a bank knows files by their real paths.

    What there is of that name, or else the folders before the first wildcard, is named as it is: signs that are special
    to patterns only by chance, as in a file called "[old].txt", are escaped.
    """
    is_place = _PLACE.match(pattern) is not None
    literal = _literal(pattern, is_place)
    place = os.path.realpath(_home(literal or "/")).rstrip("/") if is_place else literal
    return _SPECIAL.sub(r"\\\g<0>", place) + pattern[len(literal) :]


def _literal(pattern: str, is_place: bool) -> str:
    """The beginning of a pattern that is no pattern, without the slash after it."""
    for name in (pattern, pattern.rpartition("#")[0]):
        if name and os.path.lexists(_home(name)):
            return name.rstrip("/")
    if not is_place:
        return ""
    wild = _WILD.search(pattern)
    return pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rstrip("/")


def _home(place: str) -> Path:
    """A place whose `~` is replaced, if it is anybody's."""
    try:
        return Path(place).expanduser()
    except RuntimeError:
        return Path(place)
