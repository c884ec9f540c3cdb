"""The options of a question: how they are parsed, typed or sent by other programs."""

import os
import re
from calendar import monthrange
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any, Final

from mbc_engine.answer import AskOptions
from mbc_engine.bank import Selection
from mbc_engine.errors import ConfigError

_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", re.ASCII)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?) *([dwmy]?)", re.ASCII)
_DAYS: Final = {"": 1, "d": 1, "w": 7, "m": 30, "y": 365}
_PATH: Final = re.compile(r"~|\.{0,2}(/|$)")
_WILD: Final = re.compile(r"[*?\[\\]")
_SPECIAL: Final = re.compile(r"[*?\[\]\\!# ]")


def ask_options(
    *,
    since: str | None,
    as_of: str | None,
    half_life: str | None,
    only: Sequence[str] | None,
    exclude: Sequence[str] | None,
    **others: Any,
) -> AskOptions:
    """Parse options as typed or sent; `others` are those of AskOptions itself. Raises ConfigError if one is invalid."""
    selection = Selection(
        since=None if since is None else _day("--since", since, is_last=False),
        as_of=None if as_of is None else _day("--as-of", as_of, is_last=True),
        half_life=None if half_life is None else _days(half_life),
        only=tuple(map(_absolute_pattern, only or ())),
        exclude=tuple(map(_absolute_pattern, exclude or ())),
    )
    return AskOptions(selection=selection, **others)


def _day(option: str, typed: str, *, is_last: bool) -> date:
    match = _DATE.fullmatch(typed.strip())
    with suppress(ValueError):
        if match:
            year, month = int(match[1]), int(match[2] or (12 if is_last else 1))
            return date(year, month, int(match[3] or (monthrange(year, month)[1] if is_last else 1)))
    hint = "Write dates as 2024-05-31; 2024-05 is a month, 2024 a year."
    raise ConfigError(f"{option} {typed!r} is not a date.", hint=hint)


def _days(typed: str) -> float:
    match = _TIME.fullmatch(typed.strip())
    if match is None:
        hint = "Write periods as 30d, 4w, 6m or 1y; a number alone means days."
        raise ConfigError(f"--half-life {typed!r} is not a period.", hint=hint)
    return float(match[1]) * _DAYS[match[2]]


def _absolute_pattern(pattern: str) -> str:
    """Make a pattern that begins with a path absolute: a bank stores files by their real paths.

    An existing path, or else the folders before the first wildcard, is taken literally: special characters, as in a
    file called "[old].txt", are escaped.
    """
    is_path = _PATH.match(pattern) is not None
    literal = _literal(pattern, is_path)
    place = os.path.realpath(os.path.expanduser(literal or "/")).rstrip("/") if is_path else literal  # noqa: PTH111
    return _SPECIAL.sub(r"\\\g<0>", place) + pattern[len(literal) :]


def _literal(pattern: str, is_path: bool) -> str:
    """The literal beginning of a pattern, without its trailing slash."""
    for name in (pattern, pattern.rpartition("#")[0]):
        if name and os.path.lexists(os.path.expanduser(name)):  # noqa: PTH111
            return name.rstrip("/")
    wild = _WILD.search(pattern)
    if not is_path:
        return ""
    return pattern[: wild.start()].rpartition("/")[0] if wild else pattern.rstrip("/")
