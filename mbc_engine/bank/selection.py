"""Selects and weights the documents of a bank for a question, by date and by name."""

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import product
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.block import OriginColumns
from mbc_engine.bank.records import origin_name
from mbc_engine.errors import ConfigError, require_several


@dataclass(frozen=True)
class Selection:
    """Which documents a question searches, and their weights; by default all of them, equally.

    A document with several origins has the largest of their weights. With any date option, undated ones are left out.

    Attributes:
        as_of: the last day; ages count back from it, or from today, in UTC as document dates are.
        half_life: age in days at which a document's weight is half.
        only: .gitignore patterns, one of which the path, or path#part, has to match. Those without a leading slash
            match at any depth.
        exclude: patterns of which none may match.
    """

    since: date | None = None
    as_of: date | None = None
    half_life: float | None = None
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("since", "as_of"):
            if type(day := getattr(self, name)) not in (date, type(None)):  # a datetime cannot be compared with dates
                raise ConfigError(f"`{name}` is not a date: {day!r}.", hint="For example datetime.date(2024, 5, 31).")
        require_several(self.only, "only")
        require_several(self.exclude, "exclude")
        if self.half_life is not None and not self.half_life > 0:
            raise ConfigError("A half-life must be above 0.", hint="For example --half-life 30d.")
        if self.since and self.as_of and self.since > self.as_of:
            raise ConfigError(f"--since {self.since} is later than --as-of {self.as_of}.", hint="Swap the two dates.")
        _ = self._patterns  # invalid ones fail here, not at the first document

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def log_weights(self, origins: OriginColumns) -> NDArray[np.float64]:
        """Log weights of the documents with these origins: at most 0, full weight; -inf if left out."""
        by_day = {day: self._of_day(day) for day in set(origins.dates)}
        logs = np.array([by_day[day] for day in origins.dates], np.float64)
        if self.only or self.exclude:
            logs[~self._are_named(origins)] = -np.inf
        return np.asarray(np.maximum.reduceat(logs, np.cumsum([0, *origins.numbers])[:-1]))

    @cached_property
    def _patterns(self) -> tuple[list[re.Pattern[str]], ...]:
        return tuple([_compiled(pattern) for pattern in patterns] for patterns in (self.only, self.exclude))

    def _of_day(self, day: str | None) -> float:
        if self.since is None and self.as_of is None and self.half_life is None:
            return 0.0
        try:
            written = date.fromisoformat(day or "")
        except ValueError:
            return -math.inf
        if (self.since and written < self.since) or (self.as_of and written > self.as_of):
            return -math.inf
        if self.half_life is None:
            return 0.0
        age = ((self.as_of or datetime.now(UTC).date()) - written).days
        return -math.log(2) * max(age, 0) / self.half_life

    def _are_named(self, origins: OriginColumns) -> NDArray[np.bool_]:
        # Names from macOS have their accents as characters of their own.
        spellings = [[normalize("NFC", source.lstrip("/")) for source in origins.sources]]
        if any(origins.parts):
            spellings.append(list(map(origin_name, spellings[0], origins.parts)))

        def matched(patterns: Sequence[re.Pattern[str]]) -> NDArray[np.bool_]:
            is_matched = np.zeros(len(origins.sources), np.bool_)
            for pattern, names in product(patterns, spellings):
                is_matched |= np.array([pattern.search(name) is not None for name in names], np.bool_)
            return is_matched

        only, exclude = map(matched, self._patterns)
        return np.asarray(~exclude & (only if self.only else True))


def _compiled(pattern: str) -> re.Pattern[str]:
    from pathspec import GitIgnoreSpec

    anchored = normalize("NFC", pattern if pattern.startswith(("/", "**/")) else f"**/{pattern}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about nested brackets, which keep their meaning
            (parsed,) = GitIgnoreSpec.from_lines([anchored]).patterns
        if parsed.regex is None or pattern.startswith("!") or not pattern.strip():
            raise ValueError(pattern)
    except (ValueError, re.error) as error:
        raise ConfigError(
            f"The pattern {pattern!r} cannot be used.", hint="For example --only 'sport/**' or --exclude '*.csv'."
        ) from error
    return _without_backtracking(re.compile(parsed.regex))


def _without_backtracking(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """The same pattern, in time that does not grow with a power of its stars.

    What is between two stars may always be taken where it is first found, which cannot be better elsewhere.
    """
    first, *between = pattern.pattern.split("[^/]*")
    if len(between) < 2 or any(".+" in part for part in between):
        return pattern
    lazily = "".join(f"(?>[^/]*?{part})" for part in between[:-1] if part)
    return re.compile(f"{first}{lazily}[^/]*{between[-1]}")
