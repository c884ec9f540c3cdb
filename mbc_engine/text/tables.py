"""Tables as lines of text: which rows name columns, and each row with these names."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, takewhile, zip_longest
from typing import Final, NamedTuple

from mbc_engine.text.language import word_set


def table_lines(rows: Iterable[Sequence[str]], num_headers: int | None = None) -> list[str]:
    """A table as a line per row, `Header: value; Header: value`, in which no cell needs the lines above it.

    Args:
        rows: their cells; a cell that spans several columns or rows is repeated in each.
        num_headers: how many rows at the top name the columns; None to tell by the rows.

    Rows without text, and empty cells, are left out. A row of one cell alone, as a heading between rows, stays as it is.
    """
    table: Sequence[Sequence[str]] = [cells for row in rows if any(cells := [cell.strip() for cell in row])]
    width = max(map(len, table), default=0)
    if width > 1 and (titles := list(takewhile(lambda row: _is_one_cell(row) or len(row) == 1, table))):
        rest = None if num_headers is None else max(num_headers - len(titles), 0)
        return [*(row[0] for row in titles), *table_lines(table[len(titles) :], rest)]
    if num_headers is None and all(row[0].endswith(":") for row in table):
        return [line for row in table for line in _form_lines(row)]
    if num_headers is None and (form := form_rows(table)):
        table, num_headers = form, 0
    if num_headers is None:
        num_headers = int(len(table) > 1 and len({*table[0]} - {""}) > 1 and not holds_values(table[0], table[1:]))
        if num_headers and (names := names_of_two_rows(table)):
            table = [names, *table[2:]]
    headers, body = table[:num_headers], table[num_headers:]
    if not body:
        return ["; ".join(distinct(row)) for row in headers]
    columns = [distinct(row[column] for row in headers if column < len(row)) for column in range(width)]
    names = [" ".join(" ".join(column).split()).rstrip(":") for column in columns]
    return [_row_line(names, row) for row in body]


# Characters that cells which span several columns or rows may add to a table.
_MOST_REPEATED: Final = 1 << 20


class SpanningCell(NamedTuple):
    """A cell with the numbers of columns and rows that it spans."""

    text: str
    columns: int = 1
    rows: int = 1


def spread_rows(rows: Iterable[Iterable[SpanningCell]], width: int | None = None) -> list[list[str]]:
    """Rows in which each cell is repeated where it spans several columns or rows, as `table_lines` takes them.

    After `width` columns, a row goes on in the next one.
    """
    spread, above, left = list[list[str]](), dict[tuple[int, int], str](), _MOST_REPEATED

    def fill(row: list[str]) -> None:
        while (text := above.pop((len(spread), len(row)), None)) is not None:
            row.append(text)

    for cells in rows:
        row: list[str] = []
        spread.append(row)
        fill(row)
        for text, columns, lines in cells:
            while width and len(row) >= width:
                row = []
                spread.append(row)
                fill(row)
            across, down = max(1, min(columns, width - len(row)) if width else columns), lines
            cost = (across * down - 1) * (len(text) + 1)
            if cost > left:
                across = down = 1
            else:
                left -= cost
            for column in range(len(row), len(row) + across):
                row.append(text)
                above.update({(len(spread) + below, column): text for below in range(1, down)})
            fill(row)
    return spread


# Names of the column that holds the text of a document.
TEXT_FIELDS: Final = ("text", "content", "body")
# The headers of a table that names one property of a thing in each row.
_KEYS: Final = word_set("property key field attribute parameter setting variable feature name eigenschaft feld merkmal")
_KEY_VALUES: Final = word_set("value values wert inhalt")
LONGEST_FORM: Final = 100
# Values of so many kinds, none of which has this share, are of one thing; those of a column may have odd ones among them.
_FEWEST_KINDS: Final = 3
_MOST_OF_ONE_KIND: Final = 0.7
_KINDS: Final = {
    "date": re.compile(r"(?:19|20)\d\d-|\d\d?[./]\d\d?[./]|\d\d?:\d\d|\d\d?\.? [A-Z][a-z]{2}"),
    "address": re.compile(r"\S+@|https?:"),
    "phone": re.compile(r"(?:\+|0|\d+-)[\d ()-]{4,}$"),
}


def form_rows(table: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """The rows of a short table of two columns that are the names and values of one thing; [] if it is another table.

    Its header, colons after the names, or values of several kinds tell. That header is left out.
    """
    if max(map(len, table), default=0) != 2 or not 1 < len(table) <= LONGEST_FORM + 1:
        return []
    first = [cell.lower() for cell in table[0]]
    if {*TEXT_FIELDS} & {*first}:
        return []
    if first[0] in _KEYS and first[-1] in _KEY_VALUES:
        return table[1:]
    pairs = [row for row in table if len(row) == 2 and all(row) and not _is_one_cell(row)]
    names = [name for name, _ in pairs]
    if pairs and all(name.endswith(":") for name in names):
        return table
    kinds = Counter(_kind(value) for _, value in pairs[1:])  # the first may name the columns
    are_names = len({*names}) == len(names) and not any(is_value(name) or name.endswith("?") for name in names)
    are_names = are_names and 2 * sum(any(map(str.isdigit, name)) for name in names) <= len(names)  # else of records
    is_mixed = len(kinds) >= _FEWEST_KINDS and max(kinds.values()) < _MOST_OF_ONE_KIND * len(pairs[1:])
    return table if are_names and is_mixed else []


def _kind(cell: str) -> str:
    if not is_value(cell):
        return "number" if is_period(cell) else "words"
    return next((kind for kind, pattern in _KINDS.items() if pattern.match(cell)), "number")


# "12.50 EUR", "2024-03-01", "555-0101", "a@example.org"; but years and quarters may head the columns of a report.
_VALUE = re.compile(
    r"[-+(~<>]*(?:[A-Z]{3}\s|[€$£¥]\s?)?\d[\d\s.,:/()+%€$£-]*(?:\s?[^\W\d_]{1,4})?|\S+@\S+\.\S+|https?://\S+"
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./](?:\d{4}|\d\d)?")
_LONGEST_VALUE: Final = 100
_PERIOD = re.compile(r"(?:19|20)\d\d(?:[ /-]?(?:[QHW]\d\d?|\d\d))?")


def is_period(cell: str) -> bool:
    """Whether a cell is a year, or a quarter or month of one."""
    return _PERIOD.fullmatch(cell) is not None


def is_value(cell: str) -> bool:
    """Whether a cell is a number, date or address, but no period."""
    is_short = len(cell) <= _LONGEST_VALUE  # the pattern takes quadratic time
    return is_short and _VALUE.fullmatch(cell) is not None and not is_period(cell)


def holds_values(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table has a value, or a period above another, none of which names a column.

    Several days do, unless others stand below.
    """
    first = _without_unit(first, below)
    columns = [(cell, [row[at] for row in below if at < len(row)]) for at, cell in enumerate(first)]
    days = [cell for cell, column in columns if _DAY.fullmatch(cell) and not any(map(_DAY.fullmatch, column))]
    return any(
        (is_value(cell) and not (cell in days and len(days) > 1)) or (is_period(cell) and any(map(is_period, column)))
        for cell, column in columns
    )


_IN_UNIT: Final = re.compile(r"((?:19|20)\d\d),?(?: in)? ?\(?(k?(?:[A-Z]{3,4}|[\u20ac$\u00a3]))\)?")


def _without_unit(first: Sequence[str], below: Sequence[Sequence[str]]) -> Sequence[str]:
    """The years of columns without the currency that they have in common, if no cell below has it: 2022 EUR, 2023 EUR."""
    years = [match for cell in first if (match := _IN_UNIT.fullmatch(cell))]
    units = {year[2] for year in years}
    is_priced = any(unit in cell for unit in units for row in below for cell in row)
    if is_priced or len(units) != 1 or len({year[1] for year in years}) < max(2, len(years)):
        return first
    return [match[1] if (match := _IN_UNIT.fullmatch(cell)) else cell for cell in first]


def names_of_two_rows(table: Sequence[Sequence[str]]) -> list[str]:
    """The names of the columns of a table whose second row has their units, or the first the names of groups; else []."""
    if len(table) < 3 or len(table[1]) > len(table[0]) or any(map(is_value, table[1])):
        return []
    columns = [[row[at] for row in table[2:] if at < len(row) and row[at]] for at in range(len(table[1]))]
    units = [at for at, cell in enumerate(table[1]) if cell]
    if 2 * len(units) >= len(table[0]) and all(_is_unit(table[1][at], table[0][at], columns[at]) for at in units):
        return [f"{name} ({unit})" if unit else name for name, unit in zip_longest(table[0], table[1], fillvalue="")]
    groups = [cell.strip() for cell in table[0]]
    inner = [column for column in range(1, len(groups)) if groups[column] in ("", groups[column - 1])]
    for column in inner:
        groups[column] = groups[column - 1]
    names = [*table[1], *[""] * (len(groups) - len(table[1]))]
    grouped = {*inner, *(column - 1 for column in inner)}
    below = [[row[column] for row in table[2:] if column < len(row) and row[column]] for column in sorted(grouped)]
    if not inner or not all(names[column] for column in grouped) or not all(any(map(is_value, rest)) for rest in below):
        return []
    return [" ".join(distinct(pair)) for pair in zip(groups, names, strict=True)]


_UNIT: Final = re.compile(r"[^\W\d_]{0,8}[%\u00b0\u00b5/.^*\u00b2\u00b3\d() -]{0,4}[^\W\d_]{0,4}[\u00b2\u00b3\d-]{0,2}")


def _is_unit(cell: str, name: str, below: Sequence[str]) -> bool:
    """Whether a cell may be the unit of the numbers below it."""
    return bool(
        name
        and _UNIT.fullmatch(cell)
        and len(below) > 1
        and all(map(is_value, below))
        and cell.lower() not in _NO_UNITS
    )


_NO_UNITS: Final = word_set("- n/a na nan nil none null unknown")


def _row_line(names: Sequence[str], row: Sequence[str]) -> str:
    if _is_one_cell(row):
        return row[0]
    if not any(names) and len(row) == 2 and all(row):
        return f"{' '.join(row[0].split()).rstrip(':')}: {_on_one_line(row[1])}"
    row = [_on_one_line(cell) for cell in row]
    filled = (f"{name}: {cell}" if name else cell for name, cell in zip(names, row, strict=False) if cell)
    return "; ".join(distinct(filled))


def _form_lines(row: Sequence[str]) -> Iterator[str]:
    """A line per name, which ends in a colon, and its values."""
    line = ""
    for cell in distinct(row):
        if cell.endswith(":") and line:
            yield line
            line = ""
        line += f"{' ' if line.endswith(':') else '; ' * bool(line)}{_on_one_line(cell)}"
    yield line


def _is_one_cell(row: Sequence[str]) -> bool:
    """Whether a row is one cell over several columns."""
    return len(row) > 1 and row.count(row[0]) == len(row) and not row[0].isdecimal()


def _on_one_line(cell: str) -> str:
    """A cell with commas for line breaks and marks of items, unless lines end in other signs or go on in lower case."""
    if "\n" not in cell:
        return cell
    lines = [line for line in (line.strip().removeprefix("- ") for line in cell.split("\n")) if line]
    gaps = (" " if line[-1] in ".,;:!?-" or after[0].islower() else ", " for line, after in pairwise(lines))
    return "".join(chain.from_iterable(zip(lines, chain(gaps, [""]), strict=False)))


def distinct(texts: Iterable[str]) -> list[str]:
    """Texts without the empty ones and those that repeat the one before."""
    distinct: list[str] = []
    for text in texts:
        if text and text not in distinct[-1:]:
            distinct.append(text)
    return distinct
