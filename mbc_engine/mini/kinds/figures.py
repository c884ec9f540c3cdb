"""Answers that are worked out from the rows of a table: how many, a total, an average, the row with the most or least.

Only plain questions about plain tables are: all that is asked must be a column, a value of the rows, or said of the whole
table, and each row about which it is must have a figure, or none. Otherwise the reader answers, from one row.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Final, Literal, NamedTuple

from mbc_engine.bank.words import stems_of
from mbc_engine.mini.kinds.forms import ANY_AUXILIARY
from mbc_engine.mini.kinds.lists import name_of
from mbc_engine.mini.kinds.passages import Item, Passage, Reply, Row, joined, table_rows
from mbc_engine.mini.word_matching import NEGATION, missing
from mbc_engine.sources import content_stems
from mbc_engine.text.dates import asks_when, days_in, months_in, period_in
from mbc_engine.text.document import MONTH_NAMES, date_in_name
from mbc_engine.text.language import canonical_question

Operation = Literal["total", "average", "most", "least", "count"]

_OPERATIONS: Final[Sequence[tuple[Operation, str]]] = (
    ("average", r"\baverage\b|(?:^|\bthe )mean\b"),
    ("least", r"\b(?:lowest|least|smallest|minimum|cheapest|shortest|fewest|lightest|worst)\b"),
    (
        "most",
        r"\b(?:highest|most|largest|biggest|greatest|maximum|longest|tallest|deepest|widest|heaviest|dearest|best)\b",
    ),
    ("total", r"\b(?:total|sum of|al(?:l )?together|in all)\b"),
    ("total", r"^(?:how much|what) (?:money )?(?:did|do|have|has) [\w' ]{1,30}? (?:spend|spent|earn|earned)\b"),
    ("count", r"^how many\b"),
)
# Questions that are about something else, or about a part of the rows in a way that is not understood.
_OTHERWISE: Final = re.compile(
    rf"^(?:why|how come|{ANY_AUXILIARY})\b|"
    r"\b(?:at (?:most|least)|over|under|above|below|than|but|or|and|both|neither|nor|except|other|another|per|each|every|by|"
    r"up to|through|between|until|till|before|after|last|next|this (?:month|week)|today|yesterday|same|difference|compared|"
    r"yet to|mean\?)(?!\w)"
)
_A_DAY: Final = re.compile(r" per day\b", re.IGNORECASE)
_THIS_YEAR: Final = re.compile(r" this (?:year|season)\b| so far\b", re.IGNORECASE)
_OF_EXPENSES: Final = re.compile(
    r"\b(?:spen[dt]|pa(?:y|id)|wages|(?:cost|fee|bill|payment|expense|invoice)s?)\b", re.IGNORECASE
)
_OF_INCOME: Final = re.compile(
    r"\b(?:earn(?:ed)?|t(?:ake|ook|akings)|income|sales|revenue|turnover|received?|best|worst)\b", re.IGNORECASE
)
_MONEY: Final = stems_of("amount price cost sum paid fee value eur euro usd gbp chf dollar pound betrag preis kosten")
_PRICES: Final = stems_of("price cost")
_INCOME: Final = stems_of("in credit income takings sales revenue turnover received total")
# Words that ask for a column without its name, and words in such names; tried in this order. Those of a size are of no
# other column, unless its whole name is said.
_OF_SIZE: Final = tuple(
    (re.compile(rf"\b(?:{asking})\b", re.IGNORECASE), stems_of(names))
    for asking, names in (
        ("longest|shortest", "length duration distance time days hours minutes seconds km miles metres pages"),
        ("tallest", "height"),
        ("deepest", "depth"),
        ("widest", "width"),
        ("heaviest|lightest", "weight mass"),
    )
)
_IMPLIED: Final = (
    (_OF_EXPENSES, stems_of("out debit expense expenses spent")),
    (_OF_INCOME, _INCOME),
    (
        _OF_PRICE := re.compile(r"\b(?:cheapest|(?:most|least) expensive|dearest|money|prices?)\b", re.IGNORECASE),
        _PRICES,
    ),
    (_OF_PRICE, _MONEY),
    (_OF_EXPENSES, _MONEY),
    (_OF_INCOME, stems_of("amount sum value eur euro usd gbp chf dollar pound betrag")),
    *_OF_SIZE,
)
_CURRENCY: Final = re.compile("[€$£]|\\b[A-Z]{3}\\b")
# What a question may say beside the columns and values of the table.
_ASKING: Final = stems_of(
    "average mean total sum altogether all lowest least smallest minimum cheapest shortest fewest lightest highest most "
    "largest biggest greatest maximum longest tallest deepest widest heaviest dearest expensive spend spent earn earned cost money bill "
    "payment expense amount figure number value much many high low use used pay paid take took takings together best worst "
    "anything yet already still since havent hasnt didnt dont"
)
# A row that is of others, and columns whose numbers are names, levels or parts, and have no total.
_TOTAL: Final = re.compile(r"(?:(?:grand|sub)[ -]?)?totals?|sum|summe|gesamt\w*|overall|average|mean", re.IGNORECASE)
_CARRIED: Final = re.compile(r"(?:opening|closing) balance|balance (?:brought|carried) forward", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(
    r"(?:.*[ _]|)(?:no|nr|id|number|code|ref|reference|phone|telephone|mobile|zip|postcode|year)\.?", re.IGNORECASE
)
_LEVEL: Final = re.compile(
    r"\b(?:balance|saldo|remaining|left|rate|each|per|average|mean|unit|stand)\b|%", re.IGNORECASE
)
_QUANTITIES: Final = stems_of("quantity qty amount count sold pieces units stock sum total price")
_PIECES: Final = stems_of("quantity qty pieces units")
_KINDS: Final = re.compile(r"currency|type|kind|direction|in/out|unit", re.IGNORECASE)  # of figures, in a column
_INCOMING: Final = re.compile(r"\b(?:income|salary|refunds?|credit|deposit|received)\b", re.IGNORECASE)
# A number with what stands before and after it.
_FIGURE: Final = re.compile(
    r"(?P<before>[€$£]|[A-Z]{3}\s)?\s?(?P<number>[-+\u2212]?\d{1,12}(?:[.,'\u00a0\u2009\u202f ]\d+)*)"
    r"(?P<after>\s?[^\W\d_][^\d]{0,11}|\s?[%€$£])?"
)
_LONGEST: Final = 20  # a figure
_SLASHED: Final = re.compile(r"(\d\d?)/(\d\d?)/(\d{4})\b")
_NONE: Final = re.compile(r"[-\u2013\u2014]?")  # a cell that says there is no figure
_YES_OR_NO: Final = {
    **dict.fromkeys(("yes", "y", "true", "x", "\u2713", "\u2714", "done", "paid"), True),
    **dict.fromkeys(("no", "n", "false", "-", "\u2717", "\u2718", "open", "unpaid"), False),
}
_NOT_DONE: Final = re.compile(r"\bun(?=(?:paid|sold|used|signed|returned|finished|answered|opened)\b)", re.IGNORECASE)
_MOST_SHOWN: Final = 10
_MOST_COLUMNS: Final = 64
_TIMES: Final = stems_of("year month day date week")
_MONTHS: Final = stems_of(" ".join((*MONTH_NAMES, *(name[:3] for name in MONTH_NAMES))))
YEAR: Final = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)")


def operation_of(question: str) -> Operation | None:
    """What a question asks to be worked out, by its words; None unless that is one thing."""
    text = _A_DAY.sub("", canonical_question(question))
    found = dict.fromkeys(operation for operation, form in _OPERATIONS if re.search(form, text))
    if _OTHERWISE.search(text) or len({*found} - {"count"}) > 1:
        return None
    is_both = "count" in found and found.keys() & {"most", "least", "average"}
    return None if is_both else next(iter(found), None)


def worked_out(question: str, passages: Sequence[Passage]) -> Reply | None:
    """How many rows, the total or average of a column, or what its most or least is of; `passages` are one table."""
    operation, table = operation_of(question), _Table.of(passages)
    if operation is None or table is None or (_A_DAY.search(question) and not table.has_one_row_a_day):
        return None
    question = _A_DAY.sub("", _NOT_DONE.sub("not ", question))
    stems, counted = content_stems(_THIS_YEAR.sub("", question)), _counted(question)
    name, rows = table.column_for(question, stems), table.rows_for(question, stems)
    if operation == "count" and (name is None or not counted & table.stems[name]):
        return table.count(question, counted, rows)
    figures = table.figures_of(name, rows, question) if name else {}
    if name is None or len(figures) < 2:
        return None
    if operation in ("most", "least"):
        best = (max if operation == "most" else min)(figures.values())
        return table.of_rows(question, stems, name, [at for at in figures if figures[at] == best], rows)
    return table.total(name, figures, is_mean=operation == "average")


def is_of_one_row(question: str, text: str, texts: Sequence[str]) -> bool:
    """Whether a total or average is asked for, and the text is one row of several, of what the question does not name."""
    row = next(iter(table_rows(text)), None)
    if row is None or operation_of(question) not in ("total", "average"):
        return False
    names, values = zip(*row, strict=True)
    if sum(names == tuple(name for name, _ in other) for each in texts for other in table_rows(each)) < 2:
        return False
    is_total = any(map(_TOTAL.search, names)) or any(map(_TOTAL.fullmatch, values))
    return not is_total and content_stems(question).isdisjoint(stems_of(*values))


def _of_sign(question: str, figures: Mapping[int, Decimal]) -> Mapping[int, Decimal]:
    """Expenses as positive numbers, or income alone, if there are negative figures and the question is about either."""
    is_of_expenses = _OF_EXPENSES.search(question) is not None
    if not (is_of_expenses or _OF_INCOME.search(question)) or min(figures.values(), default=0) >= 0:
        return figures
    return {number: abs(value) for number, value in figures.items() if (value < 0) == is_of_expenses}


class _Figures(NamedTuple):
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


class _Table:
    """The rows of a table, numbered, each with its passage; its columns of figures, of dates, and of what was done."""

    def __init__(self, rows: Sequence[tuple[int, Row]], said: str, *, has_totals: bool) -> None:
        self.rows, self.said, self.has_totals = rows, said, has_totals
        self.cells: dict[str, dict[int, str]] = {}
        for number, (_, row) in enumerate(rows):
            for name, value in row:
                self.cells.setdefault(name, {})[number] = value
        self.stems = {name: _stems_of_name(name) for name in self.cells}
        days = {name: _days(cells.values()) for name, cells in self.cells.items()}
        self.dates = {name: dict(zip(self.cells[name], found, strict=True)) for name, found in days.items() if found}
        # The first column says what a row is about.
        named = [name for name in [*self.cells][1:] if name not in self.dates and not _IDENTIFIER.fullmatch(name)]
        mark = _decimal_mark(chain.from_iterable(self.cells[name].values() for name in named))
        found = {name: _figures(name, self.cells[name], mark) for name in named}
        self.figures = {name: column for name, column in found.items() if column and not _is_numbering(column)}
        self.done = {name: done for name in self.cells if (done := self._rows_done(name)) is not None}

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> "_Table | None":
        """The only table in passages; None if there are several, or a row is unlike the others."""
        lines = [
            (at, rows[0] if rows else None)
            for at, passage in enumerate(passages)
            for line in passage.text.splitlines()
            if line.strip()
            for rows in [table_rows(line)]
        ]
        places = [place for place, (_, row) in enumerate(lines) if row]
        found = [(at, row) for at, row in lines[places[0] : places[-1] + 1] if row] if places else []
        is_broken = bool(places) and len(found) <= places[-1] - places[0]  # by other lines
        if is_broken or any(len({name for name, _ in row}) < len(row) for _, row in found):
            return None
        found = [(at, row) for at, row in found if not any(_CARRIED.fullmatch(value) for _, value in row)]
        counted = [(at, row) for at, row in found if not any(_TOTAL.fullmatch(value) for _, value in row)]
        names = {name for _, row in counted for name, _ in row}
        if not counted or len(names) > _MOST_COLUMNS or any(row[0][0] != counted[0][1][0][0] for _, row in counted):
            return None
        said = f"{passages[0].name} {passages[0].context}"
        return cls(counted, said, has_totals=len(counted) < len(found))

    def _rows_done(self, name: str) -> set[int] | None:
        """The rows that have a yes, or a figure, in a column of what was done; None for another column."""
        cells = self.cells[name]
        if all(cell.lower() in _YES_OR_NO for cell in cells.values()):
            return {number for number, cell in cells.items() if _YES_OR_NO[cell.lower()]}
        if name in self.figures and re.search(r"\b(?:paid|\w{2,}ed)$", name, re.IGNORECASE):
            return {number for number, value in self.figures[name].values.items() if value}
        return None

    def _names_rows(self, name: str) -> bool:
        """Whether a column has other words for each row, and no numbers."""
        cells = {*self.cells[name].values()}
        return len(cells) == len(self.rows) and not re.search(r"\d", " ".join(cells))

    @property
    def has_one_row_a_day(self) -> bool:
        days = [*next(iter(self.dates.values()), {}).values()]
        return len(days) == len({*days}) == len(self.rows)

    def item(self, text: str, number: int) -> Item:
        at, row = self.rows[number]
        return Item.of_row(text, at, row)

    def column_for(self, question: str, wanted: set[str]) -> str | None:
        """The column of figures that a question asks for, by its name, or because the question implies such a name."""
        for stems in (wanted, *(implied for asking, implied in _IMPLIED if asking.search(question))):
            shared = {name: len(stems & self.stems[name]) for name in self.figures}
            best = [name for name in shared if shared[name] == max(shared.values())]
            if len(best) > 1:  # points, beside board points
                best = [name for name in best if self.stems[name] <= stems]
            if len(best) == 1 and shared[best[0]]:
                is_best = re.search(r"\b(?:best|worst)\b", question, re.IGNORECASE)
                sizes = [names for asking, names in _OF_SIZE if asking.search(question)]
                needed = [_INCOME] if is_best else [] if self.stems[best[0]] <= wanted else sizes
                return best[0] if all(names & self.stems[best[0]] for names in needed) else None
        return None

    def figures_of(self, name: str, rows: Sequence[int], question: str) -> Mapping[int, Decimal]:
        """The figures of some rows; none if they are not of one kind: of one unit, with all cells read."""
        column = self.figures[name]
        figures = {number: column.values[number] for number in rows if number in column.values}
        units = {column.units[number] for number in figures}
        is_unclear = len(units) > 1 or not column.unreadable.isdisjoint(rows) or self._is_mixed(name, rows, question)
        return {} if is_unclear else _of_sign(question, figures)

    def _is_mixed(self, name: str, rows: Sequence[int], question: str) -> bool:
        """Whether figures are prices beside quantities, in several currencies, or both spent and earned."""
        kinds = [other for other in self.cells if _KINDS.fullmatch(other)]
        is_of_money = _OF_EXPENSES.search(question) or _OF_INCOME.search(question)
        texts = " ".join(value for number in rows for _, value in self.rows[number][1])
        has_income = is_of_money and min(self.figures[name].values.values()) >= 0 and _INCOMING.search(texts)
        is_price = not self.stems[name].isdisjoint(_PRICES)
        has_quantity = not _PIECES.isdisjoint(chain(*self.stems.values()))
        has_kinds = any(len({self.cells[kind].get(number, "") for number in rows}) > 1 for kind in kinds)
        return bool(has_kinds or has_income or (is_price and has_quantity))

    def total(self, name: str, figures: Mapping[int, Decimal], *, is_mean: bool) -> Reply | None:
        """The total or mean of a column's figures; no total of levels or parts, nor if a row of the table has it."""
        column = self.figures[name]
        unit = column.units[next(iter(figures))]
        if not is_mean and (self.has_totals or _LEVEL.search(name) or "%" in unit[1]):
            return None
        total = sum(figures.values(), Decimal())
        text = column.written(total / len(figures) if is_mean else total, unit, is_mean=is_mean)
        return Reply(text, tuple(self.item(text, number) for number in [*figures][:_MOST_SHOWN]), is_certain=True)

    def rows_for(self, question: str, wanted: set[str]) -> list[int]:
        """The rows that a question is about; none if it has words that neither they nor all rows have."""
        chosen = {*range(len(self.rows))}
        dates = self._dates_for(wanted)
        years = {day[:4] for day in dates.values()}
        if _THIS_YEAR.search(question) and len(years) > 1 and not YEAR.search(self.said):
            return []
        if dates:
            wanted = wanted - _TIMES
        years_asked = {*YEAR.findall(question)}
        is_of_all = not dates and not months_in(question) and years_asked == {*YEAR.findall(self.said)}
        if not is_of_all and (months_in(question) or period_in(question) or years_asked):
            if len(dates) < len(self.rows):
                return []
            chosen = {number for number, day in dates.items() if _is_of(question, day, years)}
            wanted = {stem for stem in wanted if not stem.isdigit()} - _TIMES - _MONTHS
        quantities = stems_of(*(name for name in self.figures if name not in self.done))
        asked = [name for name in self.done if not wanted.isdisjoint(self.stems[name] - quantities)]
        if asked:
            done = self.done[min(asked, key=len)]
            chosen = chosen - done if NEGATION.search(question) else chosen & done
        elif NEGATION.search(question):
            return []
        in_names = {*chain(*self.stems.values())}
        for stem in missing(wanted - _ASKING - in_names, f"{self.said} {' '.join(self.cells)}"):
            chosen &= self._rows_with(stem, wanted)
        return sorted(chosen)

    def _dates_for(self, wanted: set[str]) -> Mapping[int, str]:
        """The dates of rows by the only column of dates, or the only one that a question names."""
        names = [name for name in self.dates if len(self.dates) == 1 or wanted & self.stems[name] - _TIMES]
        return self.dates[names[0]] if len(names) == 1 else {}

    def _rows_with(self, stem: str, wanted: set[str]) -> set[int]:
        """The rows with a word, not among the figures, or a number; in the columns of this value that are asked for."""
        found: dict[str, set[int]] = {}
        for name, cells in self.cells.items():
            if stem.isdigit() or name not in self.figures:
                having = {number for number, value in cells.items() if not missing({stem}, value)}
                found |= {name: having} if having else {}
        shared = {name: len(wanted & self.stems[name]) for name in found}
        return set().union(*(found[name] for name in found if shared[name] == max(shared.values())))

    def count(self, question: str, counted: set[str], rows: Sequence[int]) -> Reply | None:
        """How many rows a question is about, if a row is one of what it asks for."""
        # A row is of what its first column says, or of the column that is counted if each row has other words there.
        named = [name for name in self.cells if self.stems[name] == counted and self._names_rows(name)]
        first = next(iter([*named, *self.cells]))
        others = [name for name in self.cells if name != first]
        done = {*chain(*(self.stems[name] for name in self.done))}
        counted = counted - done
        is_named = not missing(counted, first)
        is_of_others = any(counted & self.stems[name] for name in others)
        # Of a table of quantities, a row is not one of what is counted.
        is_limited = len(rows) < len(self.rows) or not done.isdisjoint(stems_of(question))
        is_one_a_row = is_limited and _QUANTITIES.isdisjoint(chain(*self.stems.values()))
        is_repeated = len({self.cells[first].get(number) for number in rows}) < len(rows)
        if not rows or not counted or is_of_others or is_repeated or not (is_named or is_one_a_row):
            return None
        text = str(len(rows))
        return Reply(text, tuple(self.item(text, number) for number in rows[:_MOST_SHOWN]), is_certain=True)

    def of_rows(
        self, question: str, wanted: set[str], name: str, first: Sequence[int], rows: Sequence[int]
    ) -> Reply | None:
        """What a question asks of the first of some rows by a column: the figure, another cell, or their name."""
        asked = [other for other in self.cells if other != name and not wanted.isdisjoint(self.stems[other])]
        asked = [other for other in asked if other not in self.figures or not self.stems[other] <= self.stems[name]]
        if asks_when(question) or not wanted.isdisjoint(_TIMES):
            dates = self._dates_for(wanted)
            asked = [other for other in self.dates if self.dates[other] == dates] or asked
        if asks_when(question) and not asked:
            return None
        texts = {
            at: next((value for key, value in self.rows[at][1] if key in asked), name_of(self.rows[at][1]))
            for at in rows
        }
        is_of_things = asked or re.match(
            r"\W*(?:(?:at|in|on|for|to) )?(?:who|whom|where|which)\b", question, re.IGNORECASE
        )
        is_of_months = wanted & stems_of("month year") and not wanted & stems_of("day date")
        if not asked and wanted & self.stems[name] and re.match(r"\W*(?:what|how)\b", question, re.IGNORECASE):
            column, (best, *_) = self.figures[name], first
            texts, first = {best: column.written(column.values[best], column.units[best])}, [best]
        elif (is_of_things and len({*texts.values()}) < len(rows) and not _LEVEL.search(name)) or is_of_months:
            return None  # the figures of one thing, or of a month, would have to be added
        items = tuple(self.item(texts[at], at) for at in first)
        return Reply(joined([texts[at] for at in first]), items, is_certain=True)


def _stems_of_name(name: str) -> set[str]:
    """The stems of a column's name, also as programs write it: SampleID."""
    return stems_of(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))


def _counted(question: str) -> set[str]:
    """The stems of what a question asks how many there are of: the first word that it does not ask with."""
    asked = re.match(r"\W*how many ([\w' -]+)", question, re.IGNORECASE)
    stems = content_stems(asked[1]) - _ASKING if asked else set()
    return next((own for word in asked[1].split() if (own := stems_of(word) & stems)), set()) if asked else set()


def _is_of(question: str, day: str, years: Collection[str]) -> bool:
    """Whether an ISO date is of the time that a question names, or since then if it says so; `years` are of all dates."""
    period, months = period_in(question), months_in(question)
    is_unclear = len({*YEAR.findall(question)}) > 1 or (period is None and (len(years) > 1 or not months))
    if is_unclear or (days_in(question) and not (period and period.day)):
        return False
    if re.search(r"\bsince\b", question, re.IGNORECASE):
        first = period.span[0].isoformat() if period else f"{day[:5]}{min(months):02}"
        return (period is not None or len(months) == 1) and day >= first
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


def _decimal_mark(cells: Iterator[str]) -> str | None:
    """The decimal mark of a table by its figures; "" if they do not tell, None if they contradict each other."""
    numbers = [match["number"] for cell in cells if len(cell) <= _LONGEST and (match := _FIGURE.fullmatch(cell))]
    marks = {mark for number in numbers for mark in ",." if re.search(rf"\{mark}(?:\d{{1,2}}|\d{{4,}})$", number)}
    marks |= {number.lstrip("+-\u2212")[1] for number in numbers if re.match(r"[-+\u2212]?0[.,]\d", number)}
    return None if len(marks) > 1 else next(iter(marks), "")


def _figures(name: str, cells: Mapping[int, str], mark: str | None) -> _Figures | None:
    """A column of which most cells are figures; None for another, or if a mark may be of decimals or thousands."""
    found = {
        number: _FIGURE.fullmatch(cell[: _LONGEST + 1]) for number, cell in cells.items() if not _NONE.fullmatch(cell)
    }
    figures = {number: match for number, match in found.items() if match}
    if mark is None or len(figures) <= len(found) / 2:
        return None
    values, decimals = {}, 0
    for number, match in figures.items():
        written = match["number"].replace("\u2212", "-")
        whole, _, part = written.partition(mark) if mark else (written, "", "")
        groups = re.split(r"\D", whole.lstrip("+-"))
        is_unclear = not mark and re.search(r"[.,]", whole)
        if is_unclear or re.search(r"\D", part) or any(len(group) != 3 for group in groups[1:]):
            return None  # a date, a version, a telephone number
        values[number] = Decimal(f"{'-' * whole.startswith('-')}{''.join(groups)}.{part or 0}")
        decimals = max(decimals, len(part))
    currency = _CURRENCY.search(name)
    of_all = ("", "") if currency is None else (currency[0], "") if len(currency[0]) == 1 else ("", f" {currency[0]}")
    units = {
        number: (match["before"] or "", match["after"] or "") if match["before"] or match["after"] else of_all
        for number, match in figures.items()
    }
    return _Figures(values, units, found.keys() - figures.keys(), decimals, mark or ".")


def _is_numbering(column: _Figures) -> bool:
    """Whether a column numbers its rows."""
    values = [*column.values.values()]
    return len(values) > 2 and not column.decimals and values == [values[0] + at for at in range(len(values))]
