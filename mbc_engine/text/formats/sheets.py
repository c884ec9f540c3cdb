"""Spreadsheets, Excel's (XLSX) and OpenDocument's (ODS): a document per row, as in other tables, named by its sheet.

Values are as shown: dates, percentages and decimals by their formats, stored results of formulas. The files are read as
XML, row by row. Libraries fill the grid between cells, so that one cell in the last corner takes all memory, and give
no formats (calamine), or no comments and merged cells unless the whole sheet is in memory (openpyxl).
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from io import BytesIO
from itertools import chain, groupby
from typing import Final

from lxml import etree
from lxml.etree import _Element as Element

from mbc_engine.text.decoding import ByteStream, storable
from mbc_engine.text.document import MONTH_NAMES, counted, damage_is_unreadable, number_in
from mbc_engine.text.formats.archives import (
    Archive,
    open_document_properties,
    read_archive,
    read_open_document,
    unescaped,
)
from mbc_engine.text.formats.delimited import is_header, num_short_above
from mbc_engine.text.formats.rows import LONGEST_NAME, Cell, Row
from mbc_engine.text.tables import LONGEST_FORM, form_rows, is_value

# The row and column of a cell, from 1.
_Place = tuple[int, int]
# Larger merged areas, and longer repetitions, are decoration.
_MOST_REPEATED: Final = 1000
# How many rows of a table tell the names of its columns.
_HEAD_ROWS: Final = 200


@dataclass
class _Sheet:
    name: str
    rows: dict[int, dict[int, str]] = field(default_factory=dict)  # the texts that are not blank, by row and column
    groups: set[int] = field(default_factory=set)  # rows with a text over several columns
    comments: dict[int, list[str]] = field(default_factory=dict)  # by row

    def put(self, place: _Place, text: str) -> None:
        if text := storable(text).strip():
            self.rows.setdefault(place[0], {})[place[1]] = text

    def comment(self, place: _Place, said: str) -> None:
        self.rows.setdefault(place[0], {place[1]: ""})
        self.comments.setdefault(place[0], []).append(storable(said))

    def merge(self, first: _Place, last: _Place) -> None:
        """Repeat the text of a merged area in each of its cells, unless it is a line above the whole table."""
        text = self.rows.get(first[0], {}).get(first[1])
        width, height = last[1] - first[1] + 1, last[0] - first[0] + 1
        if text is None or not 1 < width * height <= _MOST_REPEATED:
            return
        if width > 1:
            if len(self.rows[first[0]]) == 1:
                return
            self.groups.add(first[0])
        for row in range(first[0], last[0] + 1):
            for column in range(first[1], last[1] + 1):
                if row == first[0] or row in self.rows:
                    self.rows[row].setdefault(column, text)

    def table_rows(self, title: str, date: str | None, *, by_row: bool) -> Iterator[Row]:
        """Each row with the names above it. A line of one text names what is below it. A form is one row, except `by_row`."""
        names: dict[int, str] = {}
        caption = ""
        for block in self._blocks():
            rest = list(block)
            while rest and len(self.rows[rest[0]]) == 1:
                number = rest.pop(0)
                text = next(iter(self.rows[number].values()))
                yield self._row(number, {}, title, date)
                caption = " ".join(text.split())[:LONGEST_NAME]
            for number in rest[: self._num_short_above(rest[:_HEAD_ROWS])]:
                rest.remove(number)
                texts = dict.fromkeys(text for _, text in sorted(self.rows[number].items()))
                caption = "; ".join(filter(None, (caption, *texts)))[:LONGEST_NAME]
                yield self._row(number, {}, title, date)
            if not names and not by_row and (form := self._form(rest)):
                context = " > ".join(filter(None, (title, self.name, caption)))
                yield replace(self._row(rest[0], {}, context, date, rest), cells=form)
                continue
            if rest and (header := self._names(rest)) and {*chain(*header)} != {*names}:
                names = {column: _name(row.get(column, "") for row in header) for column in chain(*header)}
                del rest[: len(header)]
            for number in rest:
                if self.rows[number] == names and number not in self.comments:  # again, as on each page
                    continue
                yield self._row(number, names, " > ".join(filter(None, (title, self.name, caption))), date)

    def _blocks(self) -> Iterator[list[int]]:
        """The numbers of rows without blank rows between them."""
        numbers = sorted(self.rows)
        for _, block in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            yield [number for _, number in block]

    def _num_short_above(self, block: list[int]) -> int:
        table = self._table(block)
        counts = Counter(len(self.rows[number]) for number in block)
        number = num_short_above(table, max(map(len, table), default=0), max(counts, key=counts.__getitem__, default=0))
        return 0 if self.groups.intersection(block[:number]) else number

    def _table(self, block: list[int]) -> list[list[str]]:
        columns = sorted({column for number in block for column in self.rows[number]})
        return [[self.rows[number].get(column, "") for column in columns] for number in block]

    def _names(self, block: list[int]) -> list[dict[int, str]]:
        """The rows at the top of a block that name its columns: one, below those that group columns; [] if none does."""
        rows = [self.rows[number] for number in block[:_HEAD_ROWS]]
        ends = (not self._parts(block[at], rows[at + 1]) for at in range(len(rows) - 1))
        num_rows = 1 + next((at for at, is_end in enumerate(ends) if is_end), len(rows) - 1)
        columns = sorted({column for row in rows[:num_rows] for column in row})
        first, *others = ([row.get(column, "") for column in columns] for row in (rows[0], *rows[num_rows:]))
        return [] if len(columns) < 2 or not is_header(first, others) else rows[:num_rows]

    def _form(self, block: list[int]) -> list[Cell]:
        """The names and values of a short block that is a form, about one thing; else []."""
        rows = form_rows(self._table(block)) if len(block) <= LONGEST_FORM + 1 else []
        return [Cell(name.rstrip(":") if value else "", value or name) for name, value in rows]

    def _parts(self, number: int, below: dict[int, str]) -> bool:
        """Whether a text over several columns has others, and no value, below it."""
        row = self.rows[number] if number in self.groups else {}
        pairs = [(column, column + 1) for column in row if row[column] == row.get(column + 1)]
        return not any(map(is_value, below.values())) and any(
            len({below.get(column) for column in pair} - {None}) > 1 for pair in pairs
        )

    def _row(
        self, number: int, names: Mapping[int, str], context: str, date: str | None, block: Sequence[int] = ()
    ) -> Row:
        """A row, with the comments on it, or on all of a block."""
        cells = [Cell(names.get(column, ""), text) for column, text in sorted(self.rows[number].items())]
        if not names and len(cells) == 2:  # a name and its value
            cells = [Cell(cells[0].text.rstrip(":"), cells[1].text)]
        below = "\n".join(chain.from_iterable(self.comments.pop(of, ()) for of in block or [number]))
        return Row(number, cells, below, self.name, context, date=date)


def _name(parts: Iterable[str]) -> str:
    """The name of a column from those in several rows."""
    return " ".join(" ".join(dict.fromkeys(parts)).split())[:LONGEST_NAME]


def read_xlsx(stream: ByteStream, *, by_row: bool = False) -> Iterator[Row]:
    """The rows of all sheets, hidden ones too."""
    with damage_is_unreadable():
        _, archive = read_archive(stream)
        title, date = archive.properties
        losses = Counter[str](macro=int("xl/vbaProject.bin" in archive.names))
        rows = [row for sheet in _excel_sheets(archive, losses) for row in sheet.table_rows(title, date, by_row=by_row)]
    yield from _with_losses(rows, losses)


def _with_losses(rows: list[Row], losses: Counter[str]) -> Iterator[Row]:
    for row in rows[:1]:
        yield replace(row, losses=counted(losses))
    yield from rows[1:]


def _excel_sheets(archive: Archive, losses: Counter[str]) -> Iterator[_Sheet]:
    book = next(archive.linked("", "officeDocument"))
    root, links = archive.xml(book), archive.links(book)
    strings = [text for name in archive.linked(book, "sharedStrings") for text in _strings(archive, name)]
    is_1904 = any(mark.get("date1904") in ("1", "true") for mark in _all(root, "workbookPr"))
    formats = [code for styles in archive.linked_xml(book, "styles") for code in _formats(styles)]
    people = {
        person.get("id"): person.get("displayName", "")
        for part in archive.linked_xml(book, "person")
        for person in _all(part, "person")
    }
    for element in _all(root, "sheet"):
        link = links.get(next((value for key, value in element.items() if key.endswith("}id")), ""))
        if link is None or link.target not in archive.names:
            continue
        if link.kind != "worksheet":
            losses["chart"] += link.kind == "chartsheet"
            continue
        hidden = " (hidden)" if element.get("state", "visible") != "visible" else ""
        sheet = _Sheet(storable(" ".join(element.get("name", "").split())) + hidden)
        _read_sheet(archive.read(link.target), sheet, strings, formats, losses, is_1904=is_1904)
        for reference, said in _excel_comments(archive, link.target, people):
            if place := _place(reference):
                sheet.comment(place, said)
        for drawing in archive.linked_xml(link.target, "drawing"):
            losses["picture"] += sum(1 for _ in _all(drawing, "pic"))
            losses["chart"] += sum(1 for _ in _all(drawing, "graphicFrame"))
            for shape in _all(drawing, "txBody"):
                if text := _text(shape):
                    sheet.put((max(sheet.rows, default=0) + 2, 1), text)
        yield sheet


def _excel_comments(archive: Archive, sheet: str, people: Mapping[str | None, str]) -> Iterator[tuple[str, str]]:
    """The cells of a sheet that have comments, and these; of one with replies, not its copy for older programs."""
    for root in archive.linked_xml(sheet, "threadedComment"):
        for comment in _all(root, "threadedComment"):
            author = people.get(comment.get("personId"))
            said = comment.findtext("{*}text") or ""
            yield comment.get("ref", ""), f"Comment by {author}: {said}" if author else f"Comment: {said}"
    for root in archive.linked_xml(sheet, "comments"):
        authors = dict(enumerate(author.text or "" for author in _all(root, "author")))
        for comment in _all(root, "comment"):
            author = authors.get(number_in(comment.get("authorId"), 0), "")
            if not author.startswith("tc="):
                yield comment.get("ref", ""), f"Comment: {_text(comment)}"


def _all(root: Element, name: str) -> Iterator[Element]:
    yield from root.iter(f"{{*}}{name}")


def _text(element: Element) -> str:
    """The text of runs, a line per paragraph, without readings of Chinese characters."""
    pieces = []
    for part in element.iter("{*}t", "{*}p"):
        if str(part.tag).endswith("}p"):
            pieces.append("\n")
        elif (parent := part.getparent()) is None or not str(parent.tag).endswith("}rPh"):
            pieces.append(part.text or "")
    return storable(unescaped("".join(pieces))).strip()


def _strings(archive: Archive, name: str) -> Iterator[str]:
    for _, element in etree.iterparse(
        BytesIO(archive.read(name)), tag="{*}si", resolve_entities=False, no_network=True
    ):
        yield _text(element)
        element.clear()


_BUILT_IN: Final = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 37: "#,##0", 38: "#,##0", 39: "#,##0.00",
    40: "#,##0.00", 44: "#,##0.00", **dict.fromkeys((14, 15, 16, *range(27, 37), *range(50, 59)), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21), "hh:mm:ss"), 22: "yyyy-mm-dd hh:mm", 17: "mmm-yy", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss",
}  # fmt: skip


def _formats(styles: Element) -> Iterator[str]:
    """The number format of each style of cells."""
    custom = {element.get("numFmtId", ""): element.get("formatCode", "") for element in _all(styles, "numFmt")}
    for cells in _all(styles, "cellXfs"):
        for style in cells:
            id = style.get("numFmtId", "0")
            yield custom.get(id) or _BUILT_IN.get(number_in(id, 0), "")


_REFERENCE: Final = re.compile(r"\$?([A-Z]{1,3})\$?([1-9]\d{0,6})")


def _place(reference: str) -> _Place | None:
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return int(match[2]), column


def _read_sheet(
    data: bytes, sheet: _Sheet, strings: list[str], formats: list[str], losses: Counter[str], *, is_1904: bool
) -> None:
    tags = ("{*}row", "{*}mergeCell")
    number = 0
    for _, element in etree.iterparse(BytesIO(data), tag=tags, resolve_entities=False, no_network=True):
        if str(element.tag).endswith("}mergeCell"):
            places = [_place(part) for part in element.get("ref", "").split(":")]
            if len(places) == 2 and places[0] and places[1]:
                sheet.merge(places[0], places[1])
            continue
        number = number_in(element.get("r"), number + 1)
        column = 0
        for cell in element.iterchildren("{*}c"):
            place = _place(cell.get("r", ""))
            column = place[1] if place else column + 1
            text = _cell_text(cell, strings, formats, is_1904=is_1904)
            losses["formula without its result"] += not text and cell.find("{*}f") is not None
            sheet.put((number, column), text)
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]


def _cell_text(cell: Element, strings: list[str], formats: list[str], *, is_1904: bool) -> str:
    kind, value = cell.get("t", "n"), cell.findtext("{*}v") or ""
    if kind == "inlineStr":
        return _text(cell)
    with suppress(ValueError, IndexError, OverflowError):
        if kind == "s":
            return strings[int(value)]
        if kind == "b":
            return "true" if value == "1" else "false" if value else ""
        style = cell.get("s", "")
        if kind == "n" and value:
            return _shown(float(value), formats[int(style)] if style else "", is_1904=is_1904)
    return unescaped(value)


_NOT_SHOWN: Final = re.compile(r'"[^"]*"|\\.|_.|\*.|\[[^\]]*\]')
_HOURS: Final = re.compile(r"\[h+\]", re.IGNORECASE)
_DECIMALS: Final = re.compile(r"0\.(0+)")
_CURRENCY: Final = re.compile(r'[€$£¥]|"([^"\d]{1,6})"|\[\$([^\]\d-]{1,5})')


def _shown(number: float, code: str, *, is_1904: bool) -> str:
    """A number in a format, which may be that of a date, in seconds since 1899 or 1904 then."""
    code = code.partition(";")[0]
    plain = _NOT_SHOWN.sub("", code).lower()
    if "general" not in plain and re.search(r"[ymdhs]", plain):
        moment = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)  # noqa: DTZ001 - no zone is stored
        moment += timedelta(seconds=round(number * 86400))
        has_day, has_time = re.search(r"[yd]|mmm", plain), "h" in plain or "s" in plain
        if has_day and not has_time and "d" not in plain and moment.day == 1:  # a month, or a year
            month = MONTH_NAMES[moment.month - 1] if "m" in plain else ""
            return f"{month} {moment.year if 'y' in plain else ''}".strip()
        if has_day:
            return moment.strftime("%Y-%m-%d %H:%M" if has_time else "%Y-%m-%d")
        seconds = f":{moment:%S}" if "s" in plain and ("h" not in plain or moment.second) else ""
        if "h" not in plain and not _HOURS.search(code):
            return f"{round(number * 86400) // 60:02}{seconds}"
        return f"{moment:%H:%M}{seconds}" if 0 <= number < 1 else f"{int(number * 24)}:{moment:%M}{seconds}"
    decimals = len(match[1]) if (match := _DECIMALS.search(plain)) else None
    if "%" in plain:
        return f"{number * 100:.{decimals or 0}f}%"
    if decimals is None or "e" in plain or "?" in plain:
        text = str(int(number)) if number.is_integer() and abs(number) < 1e15 else f"{number:.15g}"
    else:
        text = f"{number:.{decimals}f}"
    unit = _CURRENCY.search(code)
    return f"{text} {(unit[1] or unit[2] or unit[0]).strip()}".strip() if unit else text


_TABLE: Final = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"


def read_ods(stream: ByteStream, *, by_row: bool = False) -> Iterator[Row]:
    """The rows of all sheets, hidden ones too."""
    with damage_is_unreadable():
        _, archive = read_open_document(stream)
        root, losses = archive.xml("content.xml"), Counter[str]()
        title, date = open_document_properties(archive)
        rows: list[Row] = []
        for table in _all(root, "table"):
            if str(table.tag).startswith(_TABLE):
                losses["picture"] += sum(1 for _ in _all(table, "image"))
                losses["chart"] += sum(1 for _ in _all(table, "object"))
                rows += _ods_sheet(table).table_rows(title, date, by_row=by_row)
    yield from _with_losses(rows, losses)


def _ods_sheet(table: Element) -> _Sheet:
    sheet, number = _Sheet(storable(" ".join(table.get(f"{_TABLE}name", "").split()))), 0
    merged: list[tuple[_Place, _Place]] = []
    for row in table.iter(f"{_TABLE}table-row"):
        repeated, column = _count(row, "number-rows-repeated"), 0
        for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            times = _count(cell, "number-columns-repeated")
            text = "\n".join("".join(line.itertext()) for line in cell.iterchildren("{*}p"))
            for offset in range(min(times, _MOST_REPEATED) if text.strip() else 0):
                for line in range(repeated if repeated <= _MOST_REPEATED else 1):
                    sheet.put((number + 1 + line, column + 1 + offset), text)
            spans = _count(cell, "number-rows-spanned"), _count(cell, "number-columns-spanned")
            if spans != (1, 1):
                first = number + 1, column + 1
                merged.append((first, (number + spans[0], column + spans[1])))
            for comment in cell.iterchildren("{*}annotation"):
                said = "\n".join("".join(line.itertext()) for line in _all(comment, "p")).strip()
                sheet.comment((number + 1, column + 1), f"Comment: {said}")
            column += times
        number += repeated
    for first, last in merged:
        sheet.merge(first, last)
    return sheet


def _count(element: Element, name: str) -> int:
    return max(1, number_in(element.get(f"{_TABLE}{name}"), 1))
