"""Tables of separated cells (CSV), in the dialect that their first lines show."""

import csv
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice, zip_longest
from typing import Final

from mbc_engine.text.decoding import LINE_CHARACTERS, ByteStream, lines, storable
from mbc_engine.text.document import Content, UnreadableFile
from mbc_engine.text.formats.rows import LONGEST_NAME, Cell, Row, as_seen
from mbc_engine.text.tables import (
    LONGEST_FORM,
    TEXT_FIELDS,
    form_rows,
    holds_values,
    is_period,
    is_value,
    names_of_two_rows,
    table_lines,
)

# The first wins a tie: the later ones are more common in prose.
_SEPARATORS: Final = "\t|;,"
_NONE: Final = "\x1f"
_SEPARATOR_LINE: Final = re.compile(r'\s*"?sep=(.)"?\s*', re.IGNORECASE)
# How much of a table tells its dialect.
_HEAD_LINES: Final = 200
_HEAD_CHARACTERS: Final = 1 << 20
_MOST_ABOVE: Final = 30
_MOST_LEFT: Final = 2
_LONGEST_ABOVE: Final = 100
_FEWEST_NAMES: Final = 3
# Rows that show what a table is.
_FEW: Final = 100
# A quotation mark that is not closed within so many lines is a letter.
_MOST_CELL_LINES: Final = 5000
csv.field_size_limit(max(csv.field_size_limit(), LINE_CHARACTERS))
# After so many lines were read in vain to find the end of a cell, no cell has several.
_MOST_IN_VAIN: Final = 50_000


def read_csv(stream: ByteStream, *, by_row: bool = False) -> Iterator[Content | Row]:
    """What stands above the header, as one text, and the non-blank rows below, numbered from 1.

    A table of the names and values of one thing is one text too, except `by_row`.
    """
    source = lines(stream, "")
    head, size = list[str](), 0
    for line in source:
        if line is None:
            source = chain([line], source)
            break
        if head or line.strip():
            head.append(line)
            size += len(line)
        if len(head) == _HEAD_LINES or size > _HEAD_CHARACTERS:
            break
    if not head:
        return
    if declared := _SEPARATOR_LINE.fullmatch(head[0]):
        separator, head = declared[1], head[1:]
    else:
        separator = _separator(head)
    shown = list(_records(head, separator, 0))
    width = _most_common(len(cells) for cells in shown if any(cells))
    above = _num_above(shown, width)
    records: Iterator[list[str]] = _records(chain(head, _short(source)), separator, width)
    title = "\n".join(table_lines((_trimmed(cells) for cells in islice(records, above)), 0))
    if title:
        yield Content(storable(title), title.encode(), part="header")
    named = "; ".join(line for line in title.splitlines() if len(line) <= _LONGEST_ABOVE)  # else it explains the file
    yield from _table(records, shown[above:], named, by_row=by_row)


def _table(
    records: Iterator[list[str]], shown: Sequence[list[str]], context: str, *, by_row: bool
) -> Iterator[Content | Row]:
    """The table whose first records are shown."""
    if not by_row and form_rows(_filled(shown)):
        ahead = list(islice(records, LONGEST_FORM + 2))
        if form := form_rows(_filled(ahead)):  # no line of it makes sense alone
            text = storable("\n".join(table_lines(form, 0)))
            yield Content(text, text.encode())
            return
        records = chain(ahead, records)
    first = next(records, [])
    columns = first if is_header(first, shown[1:]) else []
    if columns and (both := names_of_two_rows(shown[:_FEW])):
        columns = both
        next(records)
    names = [storable(name)[:LONGEST_NAME] for name in columns]
    yield from _rows(names, records if columns else chain([first], records), context)


def _rows(names: list[str], records: Iterator[list[str]], context: str) -> Iterator[Row]:
    for number, cells in enumerate(records, 1):
        if any(cells) and cells != names:  # in files that were put together, the names come again
            all_names = names + [""] * (len(cells) - len(names))
            texts = cells + [""] * (len(all_names) - len(cells))
            row = [Cell(name, as_seen(storable(text))) for name, text in zip(all_names, texts, strict=True)]
            yield Row(number, row, context=context[:LONGEST_NAME], is_table=True)


def _short(source: Iterable[str | None]) -> Iterator[str]:
    for line in source:
        if line is None:
            raise UnreadableFile(f"has a line longer than {LINE_CHARACTERS >> 20} MB")
        yield line


def _separator(head: Sequence[str]) -> str:
    """The separator that most lines have equally often."""
    if head[0].strip().strip('"').lower() in TEXT_FIELDS:  # a table of one column
        return _NONE

    def rank(separator: str) -> tuple[float, int]:
        widths = [len(cells) for cells in _records(head, separator, 0) if any(cells)]
        width = _most_common(number for number in widths if number > 1)
        if not width:
            return (0.0, 0)
        below = widths[widths.index(width) :]
        return (round(below.count(width) / len(below), 1), width)

    best = max(_SEPARATORS, key=rank)
    return best if rank(best) > (0.0, 0) else _NONE


def _num_above(records: Sequence[Sequence[str]], width: int) -> int:
    """How many records stand above the table: short ones, or one cell, or two at the left, of wider rows."""
    counts = Counter(sum(map(bool, cells)) for cells in records if any(cells))
    # Of most; if in doubt, fewer.
    filled = max(counts, key=lambda texts: ((counts[texts] - 1) * texts, -texts), default=0)
    if short := num_short_above(records, width, filled):
        return short
    for number, cells in enumerate(records[:_MOST_ABOVE]):
        texts = sum(map(bool, cells))
        is_left = texts == 1 or (texts <= _MOST_LEFT and not any(cells[texts:]))
        if len(cells) >= min(width, 2) and texts and not (is_left and texts < filled):
            return number
    return 0


def num_short_above(records: Sequence[Sequence[str]], width: int, filled: int) -> int:
    """How many records stand above the names of columns, as a statement's bank and account, with cells missing at the end.

    Most records have `width` cells, of which `filled` are not blank.
    """
    texts = (sum(map(bool, cells)) for cells in records[:_MOST_ABOVE])
    number = next((at for at, count in enumerate(texts) if count >= max(filled, _FEWEST_NAMES)), 0)
    are_short = all(len(_trimmed(cells)) < width - 1 for cells in records[:number])
    below = records[number + 1 :]
    # A row of a table without values looks like names of columns too.
    is_table = number and are_short and below and any(map(is_value, below[0])) and is_header(records[number], below)
    return number if is_table and not names_of_two_rows(records[number - 1 : number + _FEW]) else 0


def _filled(records: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    return [_trimmed(cells) for cells in records if any(cells)]


def _trimmed(cells: Sequence[str]) -> Sequence[str]:
    return cells[: max((end for end, cell in enumerate(cells, 1) if cell), default=0)]


def _most_common(numbers: Iterable[int]) -> int:
    """The width of the rows that most cells are in: a short month may have fewer rows than there are lines above it."""
    counts = Counter(numbers)
    return max(counts, key=lambda number: ((counts[number] - 1) * number, number), default=0)


def is_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether the first row holds names: none is a value, or stands again in its column, but where the whole row does."""
    cells, below = [cell for cell in first if cell], [row for row in below if [*row] != [*first]]
    if any(cell.lower() in TEXT_FIELDS for cell in cells):
        return True
    if not below or any("\n" in cell or len(cell) > LONGEST_NAME for cell in cells):
        return False
    if holds_values(first, below):
        return False
    columns = zip(first, zip_longest(*below), strict=False)
    return not all(map(is_period, cells)) and not any(cell and cell in column for cell, column in columns)


_CLOSING: Final = re.compile(r'(?:[^"]|"")*+" *')


def _records(source: Iterable[str], separator: str, width: int) -> Iterator[list[str]]:
    """The cells of each record; `width` is how many most have, 0 if that is not known."""
    ahead = _Ahead(source)
    for line in ahead:
        if '"' in line and separator != '"':
            cells = _quoted(line, ahead, separator, width)
            if cells is None:  # a quotation mark too many: each is a letter, unless they are around a cell
                cells = [_unquoted(cell) for cell in line.split(separator)]
        else:
            cells = line.split(separator)
        stripped = [cell.strip() for cell in cells]
        # As a spreadsheet must not take for a number.
        yield [cell[2:-1] if cell[:2] == '="' and cell[-1] == '"' else cell for cell in stripped]


class _Ahead:
    """Lines without their ends, some of which can be put back."""

    def __init__(self, source: Iterable[str]) -> None:
        self._source, self._back = iter(source), deque[str]()
        self.in_vain = 0  # lines that were put back

    def __iter__(self) -> Iterator[str]:
        while (line := self.next()) is not None:
            yield line

    def next(self) -> str | None:
        line = self._back.popleft() if self._back else next(self._source, None)
        return None if line is None else line.rstrip("\r\n")

    def put_back(self, lines: Sequence[str]) -> None:
        self.in_vain += len(lines)
        self._back.extendleft(reversed(lines))


def _quoted(line: str, ahead: _Ahead, separator: str, width: int) -> list[str] | None:
    """The cells of a record that begins with this line; None, with no other line taken, if it has a stray mark."""
    taken, is_stray, cells = [line], False, list[str]()

    def lines() -> Iterator[str]:
        nonlocal is_stray
        yield line
        size = len(line)
        while ahead.in_vain <= _MOST_IN_VAIN and (following := ahead.next()) is not None:
            taken.append(following)
            size += len(following)
            closing = _CLOSING.match(following)
            is_text_after = closing and following[closing.end() : closing.end() + 1] not in ("", separator)
            if is_text_after or len(taken) > _MOST_CELL_LINES or size > LINE_CHARACTERS:
                break
            yield f"\n{following}"
        is_stray = True  # a mark is not closed

    with suppress(csv.Error):
        cells = next(csv.reader(lines(), delimiter=separator, skipinitialspace=separator != " "))
    whole = sum(_is_whole(each, separator, width) for each in taken)
    are_records = len(taken) > 1 and width > 2 and 3 * whole > 2 * len(taken)
    if not cells or is_stray or are_records:
        ahead.put_back(taken[1:])
        return None
    return cells


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1].replace('""', '"') if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell


def _is_whole(line: str, separator: str, width: int) -> bool:
    """Whether a line may be a record of its own, with all cells; a cell does not span such lines."""
    return line.count(separator) == width - 1
