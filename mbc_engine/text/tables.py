"""Tables as lines of text: which rows name columns, and each row with these names."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise, takewhile
from typing import Final


def table_lines(rows: Iterable[Sequence[str]], num_headers: int | None = None) -> list[str]:
    """A table as a line per row, `Header: value; Header: value`, in which no cell needs the lines above it.

    Args:
        rows: their cells; a cell that spans several columns or rows is repeated in each.
        num_headers: how many rows at the top name the columns; None to tell by the rows.

    Rows without text, and empty cells, are left out. A row of one cell alone, as a heading between rows, stays as it is.
    """
    table = [cells for row in rows if any(cells := [cell.strip() for cell in row])]
    width = max(map(len, table), default=0)
    if width > 1 and (titles := list(takewhile(lambda row: _is_one_cell(row) or len(row) == 1, table))):
        # Below the only marked headers, two columns are names and values more often than not.
        rest = num_headers and (max(num_headers - len(titles), 0) or (0 if width == 2 else None))
        return [*(row[0] for row in titles), *table_lines(table[len(titles) :], rest)]
    if num_headers is None and all(row[0].endswith(":") for row in table):
        return [line for row in table for line in _form_lines(row)]
    if num_headers is None and width == 2:
        values = [row[1] for row in table[1:] if row[1:] and row[1] and not _is_one_cell(row)]
        # Else they are names and values, more often than not.
        num_headers = None if all(is_value(text) or is_period(text) for text in values) else 0
    if num_headers is None:
        num_headers = int(len(table) > 1 and _is_spread(table[0]) and not holds_values(table[0], table[1:]))
        if num_headers and (names := names_of_two_rows(table)):
            table = [names, *table[2:]]
    headers, body = table[:num_headers], table[num_headers:]
    if not body:
        return ["; ".join(distinct(row)) for row in headers]
    columns = [distinct(row[column] for row in headers if column < len(row)) for column in range(width)]
    names = [" ".join(" ".join(column).split()).rstrip(":") for column in columns]
    return [_row_line(names, row) for row in body]


# From this share of numbers on, values are those of a column, in which some may be lacking.
_MOST_OF_ONE_KIND: Final = 0.7


def is_form(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of two cells are names with values, as colons after the names, or values of several kinds, tell."""
    pairs = [(row[0], row[1]) for row in rows if len(row) == 2]
    names, kinds = [name for name, _ in pairs], [is_value(text) or is_period(text) for _, text in pairs[1:]]
    are_names = len({*names}) == len(names) and not any(map(is_value, names))
    is_mixed = any(kinds) and sum(kinds) < _MOST_OF_ONE_KIND * len(kinds)
    return bool(pairs) and ((are_names and is_mixed) or all(name.endswith(":") for name in names))


# "12.50 EUR", "2024-03-01", "555-0101", "a@example.org"; but years and quarters may head the columns of a report.
_VALUE = re.compile(
    r"[-+(~<>]*(?:[A-Z]{3}\s|[€$£¥]\s?)?\d[\d\s.,:/()+%€$£-]*(?:\s?[^\W\d_]{1,4})?|\S+@\S+\.\S+|https?://\S+"
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d|\d\d?[./]\d\d?[./](?:\d{4}|\d\d)?")
_PERIOD = re.compile(r"(?:19|20)\d\d(?:[ /-]?(?:[QHW]\d\d?|\d\d))?")


def is_period(cell: str) -> bool:
    """Whether a cell is a year, or a quarter or month of one."""
    return _PERIOD.fullmatch(cell) is not None


def is_value(cell: str) -> bool:
    """Whether a cell is a number, date or address, but no period."""
    return _VALUE.fullmatch(cell) is not None and not is_period(cell)


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
    """The names of the columns of a table whose first row names groups of columns, and the second these; else []."""
    if len(table) < 3 or len(table[1]) > len(table[0]) or any(map(is_value, table[1])):
        return []
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


def _is_spread(row: Sequence[str]) -> bool:
    """Whether a row holds more than one text."""
    return len({cell for cell in row if cell}) > 1


def distinct(texts: Iterable[str]) -> list[str]:
    """Texts without the empty ones and those that repeat the one before."""
    distinct: list[str] = []
    for text in texts:
        if text and text not in distinct[-1:]:
            distinct.append(text)
    return distinct
