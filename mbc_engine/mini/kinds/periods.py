"""What is said of a day in rows that each are of several days, as a rota: who is on call on 12 May."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Final

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.lists import name_of
from mbc_engine.mini.kinds.passages import Item, Passage, Reply, Row, table_rows
from mbc_engine.mini.word_matching import missing
from mbc_engine.sources import content_stems
from mbc_engine.text.dates import DAY_OF_MONTH, asks_when, days_in, period_in

_FIRST: Final = re.compile(r"(?:start|from|begin|first|since)\w*\b", re.IGNORECASE)
_LAST: Final = re.compile(r"(?:end|to|until|till|through|last)\w*\b", re.IGNORECASE)
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_TITLES: Final = ("event", "summary", "title")  # columns that say it all


def names_day(question: str) -> bool:
    """Whether a question is about what is so on one day."""
    return len(days_in(question)) == 1 and not asks_when(question)


def during(question: str, passages: Sequence[Passage]) -> Reply | None:
    """What the rows say that begin before the day of a question, end after it, and have its other words.

    That is their title, or the cell in whose column's name a word of the question is, or all cells but the dates.
    """
    ((month, day),) = days_in(question)
    years = {int(year) for year in _YEAR.findall(question)}
    wanted = content_stems(_YEAR.sub("", DAY_OF_MONTH.sub("", question)))
    items: dict[str, Item] = {}
    for at, passage in enumerate(passages):
        for row in table_rows(passage.text):
            if _has_day(row, month, day, years) and not missing(wanted, passage.said):
                text = _said(row, wanted)
                items.setdefault(text, Item.of_row(text, at, row))
    return Reply.of_list(items.values())


def _has_day(row: Row, month: int, day: int, years: set[int]) -> bool:
    """Whether a row is of several days, and this is one of them."""
    firsts, lasts = ([cell for name, cell in row if column.match(name)] for column in (_FIRST, _LAST))
    periods = [period_in(cells[0]) for cells in (firsts, lasts) if len(cells) == 1]
    if len(periods) < 2 or any(period is None or period.day is None for period in periods):
        return False
    first, last = (period.span[0] for period in periods if period)
    days = (date(year, month, day) for year in years or {first.year, last.year} if _is_day(year, month, day))
    return first < last and any(first <= one <= last for one in days)


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _said(row: Row, wanted: set[str]) -> str:
    cells = [(name, cell) for name, cell in row if not _FIRST.match(name) and not _LAST.match(name)]
    asked = [cell for name, cell in cells if stems_of(name) & wanted]
    if len(asked) == 1 or not cells:
        return asked[0] if asked else name_of(row)
    if len(cells) == 1 or cells[0][0].lower() in _TITLES:
        return cells[0][1]
    return "; ".join(map(": ".join, cells))
