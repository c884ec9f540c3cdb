"""Answers that are worked out from the rows of a table: how many, a total, an average, the row with the most or least."""

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Final, Literal, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.lists import name_of
from mbc_engine.mini.kinds.passages import Item, Passage, Reply, joined, table_rows
from mbc_engine.mini.words import missing
from mbc_engine.sources import content_stems
from mbc_engine.text.dates import asks_when, months_in, period_in
from mbc_engine.text.document import MONTH_NAMES, date_in_name
from mbc_engine.text.language import canonical_question

Operation = Literal["total", "average", "most", "least", "count"]
Row = Sequence[tuple[str, str]]

# Tried in this order.
_OPERATIONS: Final[Sequence[tuple[Operation, str]]] = (
    ("average", r"\b(?:average|mean)\b"),
    ("least", r"\b(?:lowest|least|smallest|minimum|cheapest|shortest|fewest|lightest|worst|quietest)\b"),
    (
        "most",
        r"\b(?:highest|most|largest|biggest|greatest|maximum|peak|longest|tallest|heaviest|dearest|best|busiest)\b",
    ),
    ("total", r"\b(?:total|sum of|al(?:l )?together|in all)\b"),
    ("total", r"^(?:how much|what) (?:money )?(?:did|do|have|has) [\w' ]{1,30}? (?:spend|spent|earn|earned)\b"),
    ("count", r"^how many\b"),
)
_OF_EXPENSES: Final = re.compile(
    r"\b(?:spen[dt]|pa(?:y|id)|wages|(?:cost|fee|bill|payment|expense|invoice)s?)\b", re.IGNORECASE
)
_OF_INCOME: Final = re.compile(
    r"\b(?:earn(?:ed)?|t(?:ake|ook|akings)|income|sales|revenue|turnover|received?|best|worst)\b", re.IGNORECASE
)
_MONEY: Final = stems_of("amount price cost sum paid fee value eur euro usd gbp chf dollar pound betrag preis kosten")
# Words that ask for a column without its name, and words in such names; tried in this order.
_IMPLIED: Final = (
    (_OF_EXPENSES, stems_of("out debit expense expenses spent")),
    (_OF_INCOME, stems_of("in credit income takings sales revenue turnover received total")),
    (re.compile(r"\b(?:cheapest|(?:most|least) expensive|dearest|money|prices?)\b", re.IGNORECASE), _MONEY),
    (_OF_EXPENSES, _MONEY),
    (_OF_INCOME, stems_of("amount sum value eur euro usd gbp chf dollar pound betrag")),
    (
        re.compile(r"\b(?:busiest|quietest)\b", re.IGNORECASE),
        stems_of("customers visitors guests people visits orders"),
    ),
    (re.compile(r"\b(?:longest|shortest)\b", re.IGNORECASE), stems_of("length duration distance time")),
    (re.compile(r"\btallest\b", re.IGNORECASE), stems_of("height")),
    (re.compile(r"\b(?:heaviest|lightest)\b", re.IGNORECASE), stems_of("weight mass")),
)
_CURRENCY: Final = re.compile("[€$£]|\\b[A-Z]{3}\\b")
# What a question may say beside the columns and values of the table.
_ASKING: Final = stems_of(
    "average mean total sum altogether all lowest least smallest minimum cheapest shortest fewest lightest highest most "
    "largest biggest greatest maximum peak longest tallest heaviest dearest expensive spend spent earn earned cost money "
    "bill payment expense amount figure number value much many high low far use used pay paid take took takings together "
    "per best worst busiest quietest anything yet already still far since havent hasnt didnt dont"
)
_TOTALS: Final = stems_of("total subtotal sum average mean all")  # which a row may be of
# A number with what stands before and after it.
_FIGURE: Final = re.compile(
    r"(?P<before>[€$£]|[A-Z]{3}\s)?\s?(?P<number>[-+\u2212]?\d+(?:[.,'\u00a0\u2009\u202f ]\d+)*)(?P<after>\s?[^\W\d_][^\d]{0,11}|\s?[%€$£])?"
)
_SLASHED: Final = re.compile(r"(\d\d?)/(\d\d?)/(\d{4})\b")
_NONE: Final = re.compile(r"\W*|n/?a|none|unknown", re.IGNORECASE)  # in a cell
_FLAGS: Final = {
    **dict.fromkeys(("yes", "y", "true", "x", "\u2713", "\u2714", "done", "paid"), True),
    **dict.fromkeys(("no", "n", "false", "-", "\u2717", "\u2718", "open", "unpaid"), False),
}
_NOT: Final = re.compile(r"\b(?:not|no|never|without|(?:have|has|did|do|does)nt)\b|n['\u2019]t\b", re.IGNORECASE)
_NOT_DONE: Final = re.compile(r"\bun(?=(?:paid|sold|used|signed|returned|finished|answered|opened)\b)", re.IGNORECASE)
_QUANTITIES: Final = stems_of("quantity qty amount count sold pieces units stock sum total price")
_MOST_SHOWN: Final = 10
_TIMES: Final = stems_of("year month day date week")
_NOW: Final = re.compile(r" (?:this|in the current) (?:year|season)\b| so far\b", re.IGNORECASE)
_RELATION: Final = re.compile(r"\b(?:since|from|until|till|before|after|between)\b", re.IGNORECASE)
# Columns of numbers that are only names, as of members.
_NAMES: Final = stems_of("no nr id number code ref reference phone telephone mobile zip postcode year")
_MONTHS: Final = stems_of(" ".join((*MONTH_NAMES, *(name[:3] for name in MONTH_NAMES))))


def operation_of(question: str) -> Operation | None:
    """What a question asks to be worked out, by its words."""
    text = canonical_question(question)
    return next((operation for operation, form in _OPERATIONS if re.search(form, text)), None)


def worked_out(question: str, passages: Sequence[Passage]) -> Reply | None:
    """How many rows, the total or average of a column, or what its most or least is of; `passages` are one table.

    Of the rows that have every word of the question which is a value in some row, and are of its time. None unless all
    that is asked is a column, a value, or said of the whole table, and each row has a figure of one unit, or nothing.
    """
    question = _NOW.sub("", _NOT_DONE.sub("not ", question))
    operation, stems = operation_of(question), content_stems(question)
    table = _Table(passages)
    name, rows = table.column_for(question, stems), table.rows_for(question, stems)
    if operation == "count" and (name is None or not _counted(question) & _name_stems(name)):
        return table.count(question, rows)
    if operation is None or name is None:
        return None
    column = table.columns[name]
    figures = {number: column.values[number] for number in rows if number in column.values}
    units = {column.units[number] for number in figures}
    is_written = operation in ("total", "count") and table.has_totals
    if len(figures) < 2 or len(units) > 1 or is_written or not column.unreadable.isdisjoint(rows):
        return None
    (unit,) = units
    if operation in ("most", "least"):
        best = (max if operation == "most" else min)(figures.values())
        first = [number for number in figures if figures[number] == best]
        return _of_rows(question, stems, table, name, first, column.written(best, unit))
    is_of_expenses, signs = _OF_EXPENSES.search(question) is not None, {value < 0 for value in figures.values()}
    if len(signs) > 1 and (is_of_expenses or _OF_INCOME.search(question)):
        figures = {number: value for number, value in figures.items() if (value < 0) == is_of_expenses}
    total, is_mean = sum(figures.values(), Decimal()), operation == "average"
    value = total / len(figures) if is_mean else total
    text = column.written(abs(value) if is_of_expenses else value, unit, is_mean=is_mean)
    return Reply(text, tuple(table.item(text, number) for number in [*figures][:_MOST_SHOWN]), is_certain=True)


def _of_rows(question: str, wanted: set[str], table: "_Table", name: str, numbers: Sequence[int], figure: str) -> Reply:
    """What a question asks of the rows with the most or least in a column: the figure, another cell, or their name."""
    asked = [other for other in table.headers if other != name and not wanted.isdisjoint(_name_stems(other))]
    if asks_when(question) or not wanted.isdisjoint(_TIMES):
        asked = [other for other in table.headers if other in table.dated] or asked
    rows = [table.rows[number][1] for number in numbers]
    texts = [next((value for key, value in row if key in asked), name_of(row)) for row in rows]
    if not asked and wanted & _name_stems(name) and re.match(r"\W*(?:what|how)\b", question, re.IGNORECASE):
        texts, numbers = [figure], numbers[:1]
    items = tuple(table.item(text, number) for text, number in zip(texts, numbers, strict=True))
    return Reply(joined([*dict.fromkeys(texts)]), items, is_certain=True)


class _Table:
    """The rows of passages, numbered, each with its passage; the columns of figures, and those of dates."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        found = [(at, row) for at, passage in enumerate(passages) for row in table_rows(passage.text)]
        self.rows = [(at, row) for at, row in found if not _TOTALS & stems_of(row[0][1])]
        self.has_totals = len(self.rows) < len(found)
        self.headers = list(dict.fromkeys(name for _, row in self.rows for name, _ in row))
        cells = {name: self._cells(name) for name in self.headers}
        self.columns = {name: column for name in self.headers if (column := _column(name, cells[name]))}
        days = {name: _days(cells[name].values()) for name in self.headers}
        self.dated = {name: dict(zip(cells[name], found, strict=True)) for name, found in days.items() if found}
        self.flags = {name: done for name in self.headers if (done := self._done(name, cells[name])) is not None}
        self.said = " ".join(f"{passage.name} {passage.context}" for passage in passages[:1])

    def _cells(self, name: str) -> dict[int, str]:
        return {number: value for number, (_, row) in enumerate(self.rows) for key, value in row if key == name}

    def _done(self, name: str, cells: Mapping[int, str]) -> set[int] | None:
        """The rows that have a yes, or a figure, in a column of what was done; None for another column."""
        if all(cell.lower() in _FLAGS for cell in cells.values()):
            return {number for number, cell in cells.items() if _FLAGS[cell.lower()]}
        if name in self.columns and re.search(r"\b(?:paid|\w{2,}ed)$", name, re.IGNORECASE):
            return {number for number, value in self.columns[name].values.items() if value}
        return None

    def item(self, text: str, number: int) -> Item:
        at, row = self.rows[number]
        return Item(text, at, "; ".join(map(": ".join, row)))

    def column_for(self, question: str, wanted: set[str]) -> str | None:
        """The column of figures that a question asks for, by its name, or because the question implies such a name."""
        names = [name for name in self.columns if name not in self.dated and _NAMES.isdisjoint(_name_stems(name))]
        for stems in (wanted, *(implied for asking, implied in _IMPLIED if asking.search(question))):
            shared = {name: len(stems & _name_stems(name)) for name in names}
            best = [name for name in names if shared[name] == max(shared.values())]
            if len(best) == 1 and shared[best[0]]:
                return best[0]
        return None

    def rows_for(self, question: str, wanted: set[str]) -> list[int]:
        """The rows that a question is about; none if it has words that neither they nor all rows have."""
        chosen = {*range(len(self.rows))}
        if self.dated:
            wanted = wanted - _TIMES
        if period_in(question) or months_in(question):
            days = next(iter(self.dated.values()), {})
            chosen = {number for number, day in days.items() if _is_of(question, day, {*days.values()})}
            wanted = {stem for stem in wanted if not stem.isdigit()} - _TIMES - _MONTHS
        of_figures = stems_of(" ".join(name for name in self.columns if name not in self.flags))
        asked = [name for name in self.flags if not wanted.isdisjoint(_name_stems(name) - of_figures)]
        if asked:
            done = self.flags[min(asked, key=len)]
            chosen = chosen - done if _NOT.search(question) else chosen & done
        for stem in missing(wanted - _ASKING, f"{self.said} {' '.join(self.headers)}") - {
            *chain(*map(_name_stems, self.headers))
        }:
            chosen &= self._rows_with(stem, wanted)
        return sorted(chosen)

    def _rows_with(self, stem: str, wanted: set[str]) -> set[int]:
        """The rows with a word, not among the figures, or a number; in the columns of this value that are asked for."""
        found: dict[str, set[int]] = {}
        for number, (_, row) in enumerate(self.rows):
            for name, value in row:
                if (stem.isdigit() or name not in self.columns) and not missing({stem}, value):
                    found.setdefault(name, set()).add(number)
        asked = {name: len(wanted & _name_stems(name)) for name in found}
        return set().union(*(found[name] for name in found if asked[name] == max(asked.values())))

    def count(self, question: str, rows: Sequence[int]) -> Reply | None:
        """How many rows a question is about, if a row is one of what it asks for."""
        noun, flags = _counted(question), stems_of(" ".join(self.flags))
        is_named = not missing(noun, " ".join(self.headers[:1]))
        # Of a table of quantities, a row is not one of what is counted.
        is_limited = len(rows) < len(self.rows) or not flags.isdisjoint(stems_of(question))
        is_one_a_row = is_limited and _QUANTITIES.isdisjoint(stems_of(" ".join(self.headers)))
        if not rows or not noun or not (is_named or is_one_a_row):
            return None
        text = str(len(rows))
        return Reply(text, tuple(self.item(text, number) for number in rows[:_MOST_SHOWN]), is_certain=True)


class _Column(NamedTuple):
    """The figures of a column by row, each with what stands before and after it; their decimals and decimal mark.

    The cells of a few rows are `unreadable`: they say something else.
    """

    values: Mapping[int, Decimal]
    units: Mapping[int, tuple[str, str]]
    unreadable: set[int]
    decimals: int
    mark: str

    def written(self, value: Decimal, unit: tuple[str, str], *, is_mean: bool = False) -> str:
        number = f"{value:.{max(self.decimals, 2 * is_mean)}f}"
        number = number.rstrip("0").rstrip(".") if is_mean and not self.decimals else number
        return number.replace(".", self.mark).join(unit)


def _name_stems(name: str) -> set[str]:
    """The stems of a column's name, also as programs write it: SampleID."""
    return stems_of(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))


def _counted(question: str) -> set[str]:
    """The stems of what a question asks how many there are of."""
    asked = re.match(r"\W*how many ([\w' -]+)", question, re.IGNORECASE)
    stems = content_stems(asked[1]) - _ASKING if asked else set()
    return next((own for word in asked[1].split() if (own := stems_of(word) & stems)), set()) if asked else set()


def _is_of(question: str, day: str, days: Collection[str]) -> bool:
    """Whether one of several ISO dates is of the time that a question names, or since then if it says so."""
    period, months = period_in(question), months_in(question)
    if relation := _RELATION.search(question):
        is_one_time = period is not None or (len(months) == 1 and len({other[:4] for other in days}) == 1)
        first = period.span[0].isoformat() if period else f"{day[:5]}{min(months):02}"
        return is_one_time and relation[0].lower() == "since" and day >= first
    if period is None:
        return int(day[5:7]) in months
    parts = f"{period.year:04}", *(f"{part:02}" for part in (period.month, period.day) if part)
    return day.startswith("-".join(parts))


def _days(cells: Collection[str]) -> list[str]:
    """The ISO dates of a column; none if a cell has none, or it could be the third of May or the fifth of March."""
    if slashed := [match for cell in cells if (match := _SLASHED.match(cell))]:
        is_day_first = any(int(match[1]) > 12 for match in slashed)
        if len(slashed) < len(cells) or is_day_first == any(int(match[2]) > 12 for match in slashed):
            return []
        numbers = (match.group(3, 2, 1) if is_day_first else match.group(3, 1, 2) for match in slashed)
        return [f"{year}-{int(month):02}-{int(day):02}" for year, month, day in numbers]
    found = [date_in_name(cell) for cell in cells]
    return [day[0] for day in found if day] if all(found) else []


def _column(name: str, cells: Mapping[int, str]) -> _Column | None:
    """A column of which most cells are figures; None for another."""
    found = {number: _FIGURE.fullmatch(value) for number, value in cells.items() if not _NONE.fullmatch(value)}
    figures = {number: match for number, match in found.items() if match}
    if len(figures) <= len(found) / 2:
        return None
    numbers = [match["number"] for match in figures.values()]
    marks = {mark for number in numbers for mark in ",." if re.search(rf"\{mark}(?:\d{{1,2}}|\d{{4,}})$", number)}
    if len(marks) > 1:
        return None
    mark = next(iter(marks), ".")
    values = {}
    for number, match in figures.items():
        whole, _, part = match["number"].replace("\u2212", "-").partition(mark)
        groups = re.split(r"\D", whole.lstrip("+-"))
        if re.search(r"\D", part) or any(len(group) != 3 for group in groups[1:]):
            return None  # a date, a version, a telephone number
        values[number] = Decimal(f"{'-' * whole.startswith('-')}{''.join(groups)}.{part or 0}")
    decimals = max(len(number.partition(mark)[2]) for number in numbers)
    currency = _CURRENCY.search(name)
    of_all = ("", "") if currency is None else (currency[0], "") if len(currency[0]) == 1 else ("", f" {currency[0]}")
    units = {
        number: (match["before"] or "", match["after"] or "") if match["before"] or match["after"] else of_all
        for number, match in figures.items()
    }
    return _Column(values, units, found.keys() - figures.keys(), decimals, mark)
