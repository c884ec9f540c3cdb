"""PDF: the text of its pages as PDFium finds it, put into the order in which people read it.

Columns follow one another, the rows of a table are a line each, lines of a paragraph are joined, and what stands at the
top or the bottom of every page is there once. Fields of forms are read with their values, comments after their page.
"""

import ctypes
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import islice, pairwise
from math import hypot
from threading import Lock
from typing import Any, Final, NamedTuple

import pypdfium2
from pypdfium2 import PdfDocument, PdfPage, PdfTextPage, raw

from mbc_engine.text.characters import is_compound, readable
from mbc_engine.text.decoding import MOST_BINARY_BYTES, ByteStream, storable
from mbc_engine.text.document import Content, Place, Section, UnreadableFile, counted, damage_is_unreadable, day_of
from mbc_engine.text.tables import table_lines

# PDFium must not be called by two threads at a time.
_LOCK: Final = Lock()
_PASSWORD, _SECURITY = 4, 5  # FPDF_GetLastError
# A page with more runs of text, as a drawing, is read in the order in which it was written.
_MOST_RUNS: Final = 3000
_MOST_HEADINGS: Final = 5000


class _Run(NamedTuple):
    """Some text on a line, and the rectangle around it, from the top left corner of the page."""

    left: float
    top: float
    right: float
    bottom: float
    text: str
    size: float = 0.0  # of its letters, in points; 0 if unknown
    is_bold: bool = False

    @property
    def height(self) -> float:
        return max(1.0, self.bottom - self.top)


class _Line(NamedTuple):
    """A line of a page, which has several cells if there are wide gaps in it."""

    cells: tuple[_Run, ...]
    level: int = 0  # of a heading, 1 being the highest; else 0

    @property
    def top(self) -> float:
        return min(cell.top for cell in self.cells)

    @property
    def bottom(self) -> float:
        return max(cell.bottom for cell in self.cells)

    @property
    def text(self) -> str:
        return " ".join(cell.text for cell in self.cells)


_Piece = tuple[Sequence[float], str]  # left, bottom, right and top from the bottom left corner, and the text there
_Block = list[_Line]  # lines that are read from top to bottom


@dataclass
class _Page:
    """The lines of a page in reading order, by columns and what is above, between and below them."""

    height: float
    blocks: list[_Block]
    comments: list[str]

    def edges(self, number: int) -> Iterator[tuple[_Block, _Line, set[str]]]:
        """The lines near the top and the bottom, with their blocks, and what they may have in common on all pages.

        That is the text, or all but its first or its last number if that is the page's.
        """
        for block in self.blocks:
            for line in block:
                is_high, is_low = line.bottom < _EDGE * self.height, line.top > (1 - _EDGE) * self.height
                if is_high or is_low:
                    text = f"{is_high:d} {line.text.casefold()}"
                    numbers = list(re.finditer(r"(?<= )\d{1,6}\b|(?<=\W)\d{1,6}\b", text))
                    keys = {text}
                    for match in (*numbers[:1], *numbers[-1:]):
                        keys.add(f"{text[: match.start()]}#{int(match[0]) - number}{text[match.end() :]}")
                    yield block, line, keys


_EDGE: Final = 0.12
_FEW: Final = 7


def read_pdf(stream: ByteStream) -> Iterator[Content]:
    """The document without its damaged pages; raises UnreadableFile at the end if there are any."""
    data = stream.read_all(MOST_BINARY_BYTES)
    with _LOCK, damage_is_unreadable(), closing(_opened(data)) as document:
        pages = [_page(document, number) for number in range(len(document))]
        title, date = _metadata(document)
        bookmarks = _outline(document)
        attachments = document.count_attachments()
    readable_pages = [(number, page) for number, page in enumerate(pages, 1) if page is not None]
    empty = sum(not page.blocks and not page.comments for _, page in readable_pages)
    written = _written(readable_pages)
    text, places = written.finish(), tuple(written.places)
    if readable_pages and not text:
        raise UnreadableFile("has no text; it may be a scan")
    if readable_pages:
        pages_lost = (f"{lost} without text" for lost in counted({"page": empty}))
        losses = *pages_lost, *counted({"attachment": attachments})
        sections = _sections(text, places, bookmarks or written.headings)
        yield Content(text, data, date, title=title, sections=sections, losses=losses, places=places)
    if damaged := len(pages) - len(readable_pages):
        raise UnreadableFile(f"is damaged: {damaged} of {len(pages)} pages cannot be read")


def _opened(data: bytes) -> PdfDocument:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        code = raw.FPDF_GetLastError()
        if code == _PASSWORD:
            raise UnreadableFile("is password-protected") from error
        if code == _SECURITY:
            raise UnreadableFile("uses an encryption that is not supported") from error
        raise
    with suppress(pypdfium2.PdfiumError):
        document.init_forms()
    return document


def _metadata(document: PdfDocument) -> tuple[str, str | None]:
    written = document.get_metadata_dict(skip_empty=True)
    title = " ".join(readable(storable(written.get("Title", ""))).split()).removeprefix("Microsoft Word - ")
    digits = re.match(r"(?:D:)?(\d{14}|\d{12}|\d{8})(?:([+-]\d\d)'?(\d\d))?", written.get("CreationDate", ""))
    date = None
    with suppress(ValueError):
        if digits:
            zone = f"{digits[2]}{digits[3]}" if digits[2] and len(digits[1]) > 8 else "+0000"
            date = day_of(datetime.strptime(digits[1].ljust(14, "0") + zone, "%Y%m%d%H%M%S%z").isoformat())
    return "" if title.lower() in ("untitled", "unspecified", "(anonymous)") else title, date


def _outline(document: PdfDocument) -> list[tuple[int, str, int]]:
    """The levels, titles and pages, from 1, of the bookmarks."""
    headings: list[tuple[int, str, int]] = []
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        for bookmark in islice(document.get_toc(max_depth=6), _MOST_HEADINGS):
            target = bookmark.get_dest()
            index = target.get_index() if target else None
            title = " ".join(readable(storable(bookmark.get_title())).split())
            if index is not None and title:
                headings.append((bookmark.level, title, index + 1))
    return headings


def _page(document: PdfDocument, number: int) -> _Page | None:
    """A page; None if it is damaged."""
    with suppress(OSError, UnreadableFile), damage_is_unreadable(), closing(document[number]) as page:
        runs, comments = _in_rows(_runs(page), _rules(page)), list[str]()
        for added in _annotations(document, page):
            if isinstance(added, str):
                comments.append(added)
            else:
                runs.append(_labelled(added, runs))
        blocks = _blocks(runs) if len(runs) <= _MOST_RUNS else [[_Line((run,)) for run in runs]]
        return _Page(page.get_height(), blocks, comments)
    return None


def _runs(page: PdfPage) -> list[_Run]:
    with closing(page.get_textpage()) as texts:
        count = texts.count_rects()
        if count > _MOST_RUNS:
            lines = map(_clean, texts.get_text_range().splitlines())
            return [_Run(0, float(row), page.get_width(), row + 1.0, text) for row, text in enumerate(lines) if text]
        runs, position = list[_Run](), 0
        for index in range(count):
            rectangle = texts.get_rect(index)
            written = texts.get_text_bounded(*rectangle)
            if not written.strip():
                continue
            # A rectangle is on one line: what else is in it stands above or below, and has one of its own.
            written = max(written.split("\r\n"), key=len)
            first = max(0, _letter(texts, rectangle, position))
            size, is_bold = _type(texts, first)
            position = first + len(written)
            for part, text in _parted(texts, first, rectangle, written, size):
                if cleaned := _clean(text):
                    run = _turned(page, _without_spaces(part, text, size), cleaned)._replace(size=size, is_bold=is_bold)
                    runs.append(_on_line(runs[-1], run) if runs else run)
        return runs


def _without_spaces(box: Sequence[float], text: str, size: float) -> Sequence[float]:
    """The rectangle of a text without the spaces at its ends, which part it from the text beside it."""
    left, bottom, right, top = box
    if right - left < size:
        return box
    return left + size / 4 * text[:1].isspace(), bottom, right - size / 4 * text[-1:].isspace(), top


def _on_line(before: _Run, run: _Run) -> _Run:
    """A run, which if it is an index or exponent of the run before is on its line, as in "10^-4"."""
    is_beside = -1 < run.left - before.right < 0.3 * before.size and run.top < before.bottom and run.bottom > before.top
    if not is_beside or not 0 < run.size < _SCRIPT * before.size:
        return run
    is_raised = run.top + run.bottom < before.top + before.bottom
    is_exponent = is_raised and before.text[-1:].isdigit() and _EXPONENT.fullmatch(run.text)
    return run._replace(top=before.top, bottom=before.bottom, text=f"^{run.text}" if is_exponent else run.text)


_SCRIPT: Final = 0.85
_EXPONENT: Final = re.compile(r"[-\u2212]?\d{1,3}")


def _parted(texts: PdfTextPage, first: int, box: Sequence[float], text: str, size: float) -> Iterator[_Piece]:
    """A run in parts, if columns in it are made of spaces, which PDFium shows as one; `first` is its first letter."""
    left, bottom, right, top = box
    start = 0
    is_wide = right - left > _WIDEST * size * len(text)
    if is_wide and first + len(text) <= texts.count_chars():
        for match in re.finditer(r"(?<=\S) (?=\S)", text):
            before, after = (texts.get_charbox(first + index) for index in (match.start() - 1, match.end()))
            if after[0] - before[2] > size:
                yield (left, bottom, before[2], top), text[start : match.start()]
                left, start = after[0], match.end()
    yield (left, bottom, right, top), text[start:]


# Letters are as wide on average, by their size, where there are no gaps.
_WIDEST: Final = 0.63


def _turned(page: PdfPage, rectangle: Sequence[float], text: str = "") -> _Run:
    """A run on a page that may be shown turned; PDF counts from the bottom."""
    left, bottom, right, top = rectangle
    width, height = page.get_size()
    match page.get_rotation():
        case 90:
            return _Run(bottom, left, top, right, text)
        case 180:
            return _Run(width - right, bottom, width - left, top, text)
        case 270:
            return _Run(width - top, height - right, width - bottom, height - left, text)
    return _Run(left, height - top, right, height - bottom, text)


def _type(texts: PdfTextPage, index: int) -> tuple[float, bool]:
    """The size in points of a letter, or the first one after spaces; 0 if unknown; and whether it is bold."""
    while 0 < raw.FPDFText_GetUnicode(texts.raw, index) <= ord(" "):  # PDFium adds some that have no size
        index += 1
    matrix, name = raw.FS_MATRIX(), ctypes.create_string_buffer(128)
    if not raw.FPDFText_GetMatrix(texts.raw, index, matrix):
        return 0.0, False
    raw.FPDFText_GetFontInfo(texts.raw, index, name, len(name), None)
    is_bold = raw.FPDFText_GetFontWeight(texts.raw, index) >= _BOLD or b"bold" in name.value.lower()
    return round(raw.FPDFText_GetFontSize(texts.raw, index) * hypot(matrix.c, matrix.d), 1), is_bold


def _letter(texts: PdfTextPage, rectangle: Sequence[float], after: int) -> int:
    """The index of the first letter in a rectangle, -1 if unknown; probably one soon after another."""
    left, bottom, right, top = rectangle
    for index in range(after, min(after + 9, texts.count_chars())):
        box = texts.get_charbox(index)
        if left <= (box[0] + box[2]) / 2 <= right and bottom <= (box[1] + box[3]) / 2 <= top:
            return index
    return int(raw.FPDFText_GetCharIndexAtPos(texts.raw, left + 1, (bottom + top) / 2, 2.0, 2.0))


_BOLD: Final = 600
# Rules are thinner, in points, and not as close.
_THIN: Final = 3.0


def _rules(page: PdfPage) -> list[_Run]:
    """The straight lines that are drawn on a page across or upright."""
    drawn = list(islice(page.get_objects(filter=[raw.FPDF_PAGEOBJ_PATH], max_depth=3), _MOST_RULES + 1))
    if len(drawn) > _MOST_RULES:  # a drawing
        return []
    boxes = (_turned(page, path.get_bounds()) for path in drawn)
    return [box for box in boxes if (box.bottom - box.top < _THIN) != (box.right - box.left < _THIN)]


def _in_rows(runs: list[_Run], rules: list[_Run]) -> list[_Run]:
    """The runs, of which those of a row of a ruled table are one for each cell, at one height, if a cell has several lines."""
    across = sorted(rule.top for rule in rules if rule.bottom - rule.top < _THIN)
    for above, below in pairwise(across):
        if below - above < 2 * _THIN or below - above > _HIGHEST_ROW:
            continue
        sides = sorted(rule.left for rule in rules if rule.top < above + _THIN and rule.bottom > below - _THIN)
        sides = [side for side, before in zip(sides, [-_THIN, *sides], strict=False) if side - before >= _THIN]
        if len(sides) < 3:
            continue
        inside = [run for run in runs if above < (run.top + run.bottom) / 2 < below]
        inside = [run for run in inside if sides[0] < (run.left + run.right) / 2 < sides[-1]]
        cells: dict[int, list[_Run]] = {}
        for run in inside:
            cells.setdefault(bisect_right(sides, run.left + 1), []).append(run)
        if len(cells) > 1 and any(len(_lines(cell)) > 1 for cell in cells.values()):
            middle = (above + below) / 2
            replaced = {id(run) for run in inside}
            runs = [run for run in runs if id(run) not in replaced]
            for cell in cells.values():
                text = reduce(_continued, (line.text for line in _lines(cell)))
                left, right = min(run.left for run in cell), max(run.right for run in cell)
                runs.append(cell[0]._replace(left=left, right=right, top=middle - 0.5, bottom=middle + 0.5, text=text))
    return runs


_HIGHEST_ROW: Final = 300.0
_MOST_RULES: Final = 1000


# PDFium's marks of a hyphen at the end of a line.
_BROKEN: Final = "\u00ad"


# Dots that lead from an entry to its price or page.
_LEADER: Final = re.compile(r"\s*(?:\. ?|\u2026 ?){4,}\s*")


def _clean(text: str) -> str:
    """The text of a run, in which a soft hyphen at the end stands for any hyphen that PDFium takes for one."""
    text = " ".join(storable(text.replace("\x02", "\ufffe")).split())
    text = _LEADER.sub(" ", text).strip()
    is_broken = text.endswith(("\ufffe", "\u00ad"))
    return readable(text.rstrip("\ufffe").replace("\ufffe", "-")) + _BROKEN * is_broken


def _annotations(document: PdfDocument, page: PdfPage) -> Iterator[_Run | str]:
    """The filled fields of forms where they stand, and the texts of comments."""
    for index in range(raw.FPDFPage_GetAnnotCount(page.raw)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == raw.FPDF_ANNOT_WIDGET and document.formenv:
                if value := _field(document.formenv.raw, annotation):
                    box = raw.FS_RECTF()
                    raw.FPDFAnnot_GetRect(annotation, box)
                    bottom, top = sorted((box.bottom, box.top))
                    yield _turned(page, (box.left, bottom, box.right, top), value)
            elif kind not in (raw.FPDF_ANNOT_WIDGET, raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_LINK) and (
                text := _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
            ):
                yield text
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _field(form: Any, annotation: Any) -> str:
    """The value of a field, after its name and a NUL in case it has no label; "" if it is empty."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind not in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        return ""
    value = _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation)
    name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    name = name or _string(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    return f"{name}\0{value}" if value else ""


def _string(function: Any, *arguments: Any) -> str:
    """A text from a function of PDFium that fills a buffer with UTF-16, and tells its size."""
    size = function(*arguments, None, 0)
    if size <= 2 or size > 1 << 20:
        return ""
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    function(*arguments, buffer, size)
    text = bytes(buffer)[:size].decode("utf-16-le", "replace").rstrip("\0")
    return " ".join(readable(storable(text)).split())


def _labelled(field: _Run, runs: Iterable[_Run]) -> _Run:
    """A field with its name, if nothing stands before it or just above it."""
    name, _, value = field.text.rpartition("\0")
    middle = (field.top + field.bottom) / 2
    has_label = not name or any(
        (run.top - run.height <= middle <= run.bottom + run.height / 2 and run.left < field.left)
        or (0 <= field.top - run.bottom < 2 * run.height and run.left < field.right and run.right > field.left)
        for run in runs
    )
    return field._replace(text=value if has_label else f"{name}: {value}")


def _blocks(runs: list[_Run], depth: int = 0) -> list[_Block]:
    """Runs in reading order: columns of prose one after another, anything else line by line."""
    gutter = _gutter(runs) if depth < 4 else None
    if gutter is None:
        lines = _lines(runs)
        return [lines] if lines else []
    blocks: list[_Block] = []
    across = sorted((run for run in runs if run.left < gutter < run.right), key=lambda run: run.top)
    beside = sorted((run for run in runs if not run.left < gutter < run.right), key=lambda run: run.top)
    position = 0
    for run in [*across, None]:
        band: list[_Run] = []
        while position < len(beside) and (run is None or beside[position].bottom <= run.bottom):
            band.append(beside[position])
            position += 1
        sides = [one for one in band if one.right <= gutter], [one for one in band if one.left >= gutter]
        if all(map(_is_column, sides)):
            blocks += [block for side in sides for block in _blocks(side, depth + 1)]
            band = []
        for line in _lines([*band, *([run] if run else [])]):
            last = blocks[-1] if blocks else None
            if last is None or last[-1].bottom > line.top or (line.cells == (run,) and _is_prose(last)):
                blocks.append([])
            blocks[-1].append(line)
    return blocks


def _gutter(runs: list[_Run]) -> float | None:
    """Where a page is parted in columns: the white space that the fewest runs cross, with prose on both sides."""
    if len(runs) < 6:
        return None
    best: tuple[int, float] | None = None
    least, most = min(run.left for run in runs), max(run.right for run in runs)
    for start in sorted({round(run.left, 1) for run in runs}):
        x = start - 0.5
        if not least + 0.15 * (most - least) < x < most - 0.15 * (most - least):
            continue
        left = [run for run in runs if run.right <= x]
        right = [run for run in runs if run.left >= x]
        crossing = len(runs) - len(left) - len(right)
        aligned = sum(run.left < start + 3 for run in right)
        if min(len(left), aligned) < 3 or crossing > len(runs) / 3 or (best and (crossing, -aligned) >= best):
            continue
        if _is_prose(_lines(left)) and _is_column(right):
            best = crossing, -aligned
            gutter = x
    return gutter if best else None


def _lines(runs: list[_Run]) -> _Block:
    """Runs from top to bottom, those at the same height in one line."""
    rows: list[list[_Run]] = []
    for run in sorted(runs, key=lambda run: (run.top + run.bottom, run.left)):
        middle = (run.top + run.bottom) / 2
        last = rows[-1][-1] if rows else None
        if last and last.top <= middle <= last.bottom and run.height < 4 * last.height:
            rows[-1].append(run)
        else:
            rows.append([run])
    return [_Line(tuple(_cells(sorted(row)))) for row in rows]


_BULLETS: Final = frozenset("•‣▪●○◦·")


def _cells(row: list[_Run]) -> Iterator[_Run]:
    """The runs of a line, of which those that are hardly apart are joined."""
    cell = row[0]
    for run in row[1:]:
        height = min(cell.height, run.height)
        if run.left - cell.right > 1.25 * height and cell.text not in _BULLETS:
            yield cell
            cell = run
        else:
            gap = " " * (cell.text in _BULLETS or run.left - cell.right > 0.15 * height or cell.text.endswith(":"))
            right, top, bottom = max(cell.right, run.right), min(cell.top, run.top), max(cell.bottom, run.bottom)
            text, is_bold = cell.text + gap + run.text, cell.is_bold and run.is_bold
            cell = _Run(cell.left, top, right, bottom, text, max(cell.size, run.size), is_bold)
    yield cell


def _runs_on(text: str) -> bool:
    """Whether a line may go on a sentence: it does not begin with a capital letter, a number or a mark."""
    return text[:1].isalpha() and not text[:1].isupper() and not _ITEM.match(text)


_ITEM: Final = re.compile(r"(?:[•‣▪●○◦·*\u2013\u2014-]|\(?(?:\d{1,3}|[a-zA-Z])[.)])\s")
_NUMBERED: Final = re.compile(r"(?:\d{1,3}\.?)+\s")
_ENDS: Final = (".", "!", "?", ":", ";", "\u3002")


def _is_column(runs: list[_Run]) -> bool:
    """Whether the leftmost runs are prose; what stands beside them may be another column."""
    left = min((run.left for run in runs), default=0)
    return _is_prose(_lines([run for run in runs if run.left < left + _INDENT]))


# How far the lines of a column are indented at most, in points.
_INDENT: Final = 30.0


def _is_prose(lines: _Block) -> bool:
    """Whether most lines of a block are parts of sentences, as far as their beginnings tell."""
    texts = [line.text for line in lines if len(line.cells) == 1]
    if len(texts) < 2 or 2 * len(texts) < len(lines):
        return False
    mean = sum(map(len, texts)) / len(texts)
    return mean > 18 and 4 * sum(map(_runs_on, texts[1:])) >= len(texts) - 1


def _paragraphs(block: _Block, headers: list[list[str]]) -> Iterator[str]:
    """The paragraphs of a block, and the rows of its tables; `headers` holds the last header, for the next page."""
    position = 0
    while position < len(block):
        if block[position].level:
            yield from ("", block[position].text, "")
            position += 1
            continue
        end = position
        while end < len(block) and (len(block[end].cells) > 1 or _is_below(block, end, position)):
            end += 1
        if end - position > 1 and (tables := list(_tables(block[position:end]))):
            for table in tables:
                if isinstance(table, _Line):
                    yield " ".join(cell.text.rstrip(_BROKEN) for cell in table.cells)
                else:
                    yield from _table(table, headers)
        else:
            end = max(end, position + 1)
            while end < len(block) and len(block[end].cells) == 1 and not block[end].level:
                end += 1
            yield from _joined(block[position:end])
        position = end


def _is_below(block: _Block, index: int, first: int) -> bool:
    """Whether a line goes on a cell of the row above, not its first."""
    if index == first or len(block[index - 1].cells) < 2 or len(block[index].cells) > 1:
        return False
    cell = block[index].cells[0]
    is_close = cell.top - block[index - 1].bottom < cell.height
    return is_close and any(abs(above.left - cell.left) < 3 for above in block[index - 1].cells[1:])


def _tables(lines: _Block) -> Iterator[list[list[str]] | _Line]:
    """The rows of the tables that lines with several cells make, one after another, and lines that are in none.

    Nothing if there is no table.
    """
    if rows := _rows(lines):
        yield rows
        return
    tables: list[list[list[str]] | _Line] = []
    position = 0
    while position < len(lines):
        end, best = position + 1, list[list[str]]()
        while end < len(lines) and not _is_far(lines, position, end) and (rows := _rows(lines[position : end + 1])):
            end, best = end + 1, rows
        above = tables[-1] if best and tables else None
        if isinstance(above, _Line) and (names := _grouped(above, lines[position:end])):
            tables.pop()
            best[0] = [" ".join(filter(None, pair)) for pair in zip(names, best[0], strict=True)]
        tables.append(best or lines[position])
        position = end
    if any(not isinstance(table, _Line) for table in tables):
        yield from tables


def _is_far(lines: _Block, first: int, index: int) -> bool:
    """Whether a line stands further below the one before than that below its own."""
    if index - first < 2:
        return False
    gap, before = (lines[at].top - lines[at - 1].bottom for at in (index, index - 1))
    return gap > max(1.8 * before, lines[index].cells[0].height)


def _grouped(above: _Line, lines: _Block) -> list[str]:
    """The cell of a line, each over several columns of a table below, that stands over each column; [] if none does."""
    columns = _columns(lines)
    names = [next((cell.text for cell in reversed(above.cells) if cell.left - 3 <= start), "") for start, _ in columns]
    return (
        names if above.bottom > lines[0].top - 2 * lines[0].cells[0].height and len(above.cells) < len(columns) else []
    )


def _columns(lines: _Block) -> list[list[float]]:
    """Where the columns of a table start and end."""
    spans: list[list[float]] = []
    for cell in sorted(cell for line in lines for cell in line.cells):
        if spans and cell.left < spans[-1][1] - 1:
            spans[-1][1] = max(spans[-1][1], cell.right)
        else:
            spans.append([cell.left, cell.right])
    return spans


def _rows(lines: _Block) -> list[list[str]]:
    """The cells of a table by its columns; [] if they do not stand below each other."""
    spans = _columns(lines)
    starts = [start for start, _ in spans]
    rows: list[list[str]] = []
    for line in lines:
        columns = [bisect_right(starts, cell.left + 1) - 1 for cell in line.cells]
        if len(set(columns)) < len(columns):
            return []
        if rows and len(columns) == 1:
            rows[-1][columns[0]] = f"{rows[-1][columns[0]]} {line.text}".strip()
            continue
        rows.append([""] * len(starts))
        for column, cell in zip(columns, line.cells, strict=True):
            rows[-1][column] = cell.text.rstrip(_BROKEN)
    return rows if len(starts) > 1 and len(rows) > 1 else []


_NUMBER: Final = re.compile(r"[^\w]*\d[\d.,'\s]*\W*\w{0,3}")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


def _table(rows: list[list[str]], headers: list[list[str]]) -> Iterator[str]:
    """Rows with the names of their columns, if the first row has these, or that of a table of as many columns had."""
    width = len(rows[0])
    if width > 2 and all(row[0].endswith(":") for row in rows):
        yield from table_lines(rows)
        return
    filled, below = (sum(map(bool, row)) for row in rows[:2])
    if filled <= below and any(text and not any(cells) for text, *cells in zip(*rows, strict=True)):
        # It names no columns, as the number and the date of an invoice above its table.
        yield from table_lines(rows[:1], 0)
        yield from _table(rows[1:], headers) if len(rows) > 2 else table_lines(rows[1:], 0)
        return

    def is_number(text: str) -> bool:
        return bool(_NUMBER.fullmatch(text)) and not _YEAR.fullmatch(text)

    columns = [(name, [*filter(None, cells)]) for name, *cells in zip(*rows, strict=True)]
    names = [name for name, cells in columns if cells and all(map(is_number, cells))]  # of the columns of numbers
    is_header = not any(map(is_number, names)) and (width > 2 or bool(names))
    is_form = width == 2 and sum(row[0].endswith(":") for row in rows) * 2 > len(rows)
    if is_header and not is_form and len([text for text in rows[0] if text]) > 1:
        headers[:] = [rows[0]]
    elif is_form or not headers or len(headers[0]) != width:
        yield from table_lines(rows, 0)
        return
    else:
        rows = [headers[0], *rows]
    yield from table_lines(rows, 1)


_CUT_NUMBER: Final = re.compile(r"\d-$")  # of "12-inch"


def _joined(lines: _Block) -> Iterator[str]:
    """The lines of a paragraph as one, others as they are."""
    texts = [line.text for line in lines]
    is_prose = _is_prose(lines)
    right = max(line.cells[-1].right for line in lines)
    left = min(line.cells[0].left for line in lines)
    written = texts[0]
    for line, following, text in zip(lines, lines[1:], texts[1:], strict=False):
        is_full = line.cells[-1].right - left > 0.7 * (right - left)
        is_close = following.top - line.bottom < 1.5 * max(line.cells[0].height, following.cells[0].height)
        ends = written.endswith(_ENDS) or bool(_ITEM.match(text))
        is_broken = written.endswith(_BROKEN) or (_CUT_NUMBER.search(written) is not None and text[:1].islower())
        if is_close and (is_broken or (is_full and (_runs_on(text) or (is_prose and not ends)))):
            written = _continued(written, text)
        elif is_close and is_full and is_prose and not _ITEM.match(text):
            written = f"{written} {text}"
        else:
            yield written.replace(_BROKEN, "-")
            if not is_close and is_prose:
                yield ""
            written = text
    yield written  # a hyphen at its end may go on on the next page


def _continued(written: str, text: str) -> str:
    """Two parts of a paragraph as one; a word that is parted between them is joined."""
    is_broken = written.endswith(_BROKEN)
    start = written.rstrip(_BROKEN)
    if is_broken or (start.endswith(("-", "\u2010")) and start[-2:-1].isalnum()):
        start = start.rstrip("-\u2010")
        return f"{start}{'-' * is_compound(start, text)}{text}"
    has_spaces = not ("\u3000" <= written[-1:] <= "\u9fff" and "\u3000" <= text[:1] <= "\u9fff")
    return f"{written}{' ' * has_spaces}{text}"


class _Text:
    """The text of a document, and where in it each page begins."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.places: list[Place] = []
        self.headings: list[tuple[int, str, int]] = []  # their levels, texts and pages

    def add(self, page: int, text: str) -> None:
        """A text of a page, which goes on the sentence before it if that is not at its end."""
        last = self._parts[-1] if self._parts else ""
        first_line, line = text.partition("\n")[0], last[last.rfind("\n") + 1 :]
        if line and not line.endswith(_ENDS) and _runs_on(first_line):
            joined = _continued(line, first_line)
            self._replace_last(last.removesuffix(line) + joined.removesuffix(first_line))
        elif last:
            self._replace_last(last.replace(_BROKEN, "-") + "\n\n")
        if not self.places or self.places[-1].page != page:
            self.places.append(Place(self._length, page=page))
        self._parts.append(text)
        self._length += len(text)

    def _replace_last(self, text: str) -> None:
        self._length += len(text) - len(self._parts[-1])
        self._parts[-1] = text

    def finish(self) -> str:
        return "".join(self._parts).replace(_BROKEN, "-")


def _written(pages: list[tuple[int, _Page]]) -> _Text:
    text, headers, seen = _Text(), list[list[str]](), set[str]()
    is_heading, counts = _Headings(pages), Counter[str]()
    for number, page in pages:
        counts.update(set().union(*(keys for *_, keys in page.edges(number))))
    # What lines at the edges of several pages, more than a few of many, have in common.
    repeated = {key for key, times in counts.items() if times > 2 or (times > 1 and len(pages) < _FEW)}
    late: list[tuple[int, str]] = []  # what follows a page, unless its last sentence goes on
    for number, page in pages:
        above, below = list[str](), [f"Comment: {comment}" for comment in page.comments]
        for block, line, keys in list(page.edges(number)):
            if common := keys & repeated:
                block.remove(line)
                if not common & seen and not _PAGE_NUMBER.fullmatch(line.text):
                    (above if line.bottom < _EDGE * page.height else below).append(line.text)
                seen |= common
        below += is_heading.footnotes(page.blocks)
        page.blocks = [is_heading.marked(block) for block in page.blocks]
        lines = (line for block in page.blocks for line in block if line.level)
        text.headings += [(line.level, line.text, number) for line in lines]
        shown = ("\n".join(_paragraphs(block, headers)).strip() for block in page.blocks if block)
        body = re.sub("\n{3,}", "\n\n", "\n\n".join(filter(None, [*above, *shown])))
        if not _runs_on(body):
            for page_number, written in late:
                text.add(page_number, written)
            late = []
        if body:
            text.add(number, body)
        late += [(number, written) for written in below]
    for page_number, written in late:
        text.add(page_number, written)
    return text


class _Headings:
    """Tells headings and footnotes by their type, which is larger or bolder, or smaller, than that of most letters."""

    def __init__(self, pages: Iterable[tuple[int, _Page]]) -> None:
        letters: Counter[tuple[float, bool]] = Counter()
        for _, page in pages:
            for line in (line for block in page.blocks for line in block):
                for cell in line.cells:
                    letters[cell.size, cell.is_bold] += len(cell.text)
        self._size, self._is_bold = max(letters, key=letters.__getitem__, default=(0.0, False))
        kinds = {kind for kind in letters if self._is_larger(*kind)}
        self._levels = {kind: level for level, kind in enumerate(sorted(kinds, reverse=True), 1)}

    def _is_larger(self, size: float, is_bold: bool) -> bool:
        is_bolder = is_bold and not self._is_bold and size > 0.9 * self._size
        return self._size > 0 and (size > 1.15 * self._size or is_bolder)

    def marked(self, block: _Block) -> _Block:
        """The lines with the levels of headings, of which those of several lines are one."""
        lines: _Block = []
        for line in block:
            cell = line.cells[0]
            level = self._levels.get((cell.size, cell.is_bold), 0) if len(line.cells) == 1 else 0
            is_close = bool(lines) and line.top - lines[-1].bottom < 0.6 * cell.height
            if is_close and level and lines[-1].level == level and not _NUMBERED.match(cell.text):
                above = lines.pop().cells[0]
                cell = cell._replace(text=f"{above.text} {cell.text}", top=above.top, left=min(above.left, cell.left))
            is_title = len(cell.text) <= _LONGEST_HEADING and not cell.text.endswith((".", ",", ";", ":", _BROKEN))
            is_title = is_title and any(map(str.isalpha, cell.text))
            lines.append(_Line((cell,), level) if level and is_title else line)
        return lines

    def footnotes(self, blocks: list[_Block]) -> list[str]:
        """The small lines at the end of a page from a mark on, which are taken from it."""
        lines = blocks[-1] if blocks else []
        first = len(lines)
        while first > 0 and len(lines[first - 1].cells) == 1 and 0 < lines[first - 1].cells[0].size < 0.92 * self._size:
            first -= 1
        first = next((at for at in range(first, len(lines)) if _NOTE.match(lines[at].text)), len(lines))
        notes = "\n".join(_joined(lines[first:])) if first < len(lines) else ""
        del lines[first:]
        return [notes] if notes else []


_LONGEST_HEADING: Final = 150
_NOTE: Final = re.compile(r"\[?(?:\d{1,3}|[*†‡§]{1,3})[\].)]?\s?\S")
_PAGE_NUMBER: Final = re.compile(
    r"\W*(?:page|p\.|seite|s\.|side|página|pagina)?\W*\d+(?:\s*(?:of|/|von|av|de|di)\s*\d+)?\W*", re.IGNORECASE
)


def _sections(text: str, places: Sequence[Place], headings: Sequence[tuple[int, str, int]]) -> tuple[Section, ...]:
    """The bookmarks, each from where its page has its title on a line, else from the start of its page."""
    ends = [place.start for place in places[1:]] + [len(text)]
    spans: dict[int, tuple[int, int]] = {}
    for place, end in zip(places, ends, strict=True):
        spans.setdefault(place.page, (place.start, end))
    contexts: dict[int, str] = {}
    above: list[tuple[int, str]] = []
    for level, title, page in headings:
        above = [*((other, name) for other, name in above if other < level), (level, title)]
        if page in spans:
            start, end = spans[page]
            written = r"\s+".join(map(re.escape, title.split()))
            line = re.compile(rf"^(?:[\w.]+[ \t]+)?{written}\s*$", re.MULTILINE | re.IGNORECASE)
            match = line.search(text, start, end)
            start = match.start() if match else max(start, *contexts, 0)
            contexts[start] = " > ".join(name for _, name in above)
    return tuple(Section(start, contexts[start]) for start in sorted(contexts))
