"""Word: what a reader of the printed document sees, with the comments in its margin.

Tracked changes are accepted, hidden text is left out. Notes and comments follow the paragraph that they belong to, page
headers stand before the text, and footers after it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lxml.etree import _Element as Element

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import Content, TextBuilder, UnreadableFile, damage_is_unreadable, number_in, tidy
from mbc_engine.text.formats.archives import Archive, local_name, read_archive
from mbc_engine.text.formats.equations import MATH, equation
from mbc_engine.text.formats.slides import linked_lines
from mbc_engine.text.tables import holds_values, table_lines

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

# Properties, codes of fields, and what tracked changes took away; moved text also stands at its destination.
_LEFT_OUT = frozenset(
    ("pPr", "rPr", "del", "moveFrom", "delText", "delInstrText", "sdtPr", "sdtEndPr", "rt", "fldData")
)
# Fields whose values belong to a page, not to the text.
_PAGE_CODES = (["PAGE"], ["NUMPAGES"], ["SECTIONPAGES"])
# The signs of symbol fonts that mean something in a text.
_SYMBOLS = {"F0FC": "✓", "F0FE": "☒", "F0A8": "☐", "F06F": "☐", "F0FB": "✗", "F0E0": "→", "F0DF": "←"}
_DEEPEST_STYLE = 20
_CONTENTS = re.compile(r"toc \d")
_HEADING = re.compile(r"heading (\d)")


def read_docx(stream: ByteStream) -> Iterator[Content]:
    """The document, dated by its properties: last modified, else created."""
    with damage_is_unreadable():
        data, archive = read_archive(stream)
        main = next(archive.linked("", "officeDocument"), "word/document.xml")
        document = _Word(archive, main)
        title, date = archive.properties
    yield document.builder.content(data, date, title=title or document.title, losses=document.losses)


class _Style(NamedTuple):
    name: str = ""
    level: int | None = None  # of a heading, from 1
    numbering: tuple[str, int] = ("", 0)  # the list that its paragraphs belong to, and their level in it
    is_hidden: bool = False


@dataclass
class _Paragraph:
    """What is met while the text of a paragraph is read."""

    # Notes, comments and boxes: what each is, "" for a box, and its author.
    after: list[tuple[str, str, Element]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)  # the lines of charts and diagrams
    fields: list[str] = field(default_factory=list)  # the codes of the fields around, the innermost last


class _Word:
    def __init__(self, archive: Archive, main: str) -> None:
        self.builder, self.title = TextBuilder(), ""
        self.losses: Counter[str] = Counter()
        self._archive, self._links = archive, archive.links(main)
        self._carried = ""  # the text of a paragraph whose end was deleted
        self._caption = ""
        self._in_list = False
        self._styles = _styles(archive.linked_xml(main, "styles"))
        self._numbering = _Numbering(archive.linked_xml(main, "numbering"))
        self._notes = {
            (kind, note.get(f"{_W}id")): note
            for kind in ("footnote", "endnote", "comment")
            for root in archive.linked_xml(main, f"{kind}s")
            for note in root
        }
        headers, footers = (self._page_texts(archive, main, kind) for kind in ("header", "footer"))
        for text in headers:
            self.builder.add(text)
        body = archive.xml(main).find(f"{_W}body")
        if body is None:
            raise UnreadableFile("is damaged: it has no body")
        self._blocks(body, self.builder)
        self.builder.heading(1, "")
        for text in footers:
            self.builder.add(text)
        self.losses["macro"] = sum(name.endswith("vbaProject.bin") for name in archive.names)

    def _page_texts(self, archive: Archive, main: str, kind: str) -> list[str]:
        """The headers or footers, each once, though every part of a document may have its own."""
        return list(dict.fromkeys(map(self._within, archive.linked_xml(main, kind))))

    def _within(self, container: Element) -> str:
        builder = TextBuilder("\n")
        self._blocks(container, builder)
        return builder.text()

    def _blocks(self, container: Element, builder: TextBuilder) -> None:
        """The paragraphs and tables in a container, in order."""
        for element in _accepted(container):
            tag = element.tag
            if tag == f"{_W}p":
                self._paragraph(element, builder)
            elif tag == f"{_W}tbl":
                self._table(element, builder)
            elif tag == f"{_W}altChunk":
                self.losses["embedded document"] += 1
            elif tag != f"{_W}sectPr":
                self._blocks(element, builder)

    def _paragraph(self, element: Element, builder: TextBuilder) -> None:
        properties = element.find(f"{_W}pPr")
        style = self._styles[_value(properties, "pStyle")]
        if _CONTENTS.fullmatch(style.name):  # repeats the headings
            return
        met = _Paragraph()
        text = tidy(self._carried + "".join(self._texts(element, met)).replace("~~~~", ""))
        self._carried = ""
        if properties is not None and properties.find(f"{_W}rPr/{_W}del") is not None:
            self._carried = f"{text} " if text else ""
            text = ""
        label = self._numbering.label(properties, style) if text else ""
        gap = "\n" if label and self._in_list else None
        self._in_list, text = bool(label), label + text
        level = _heading_level("", _value(properties, "outlineLvl")) or style.level
        if level and text and builder is self.builder:
            builder.heading(level, text)
        else:
            builder.add(text, gap)
        if style.name == "title":
            self.title = self.title or text
        self._caption = text if style.name == "caption" else ""
        builder.add_lines(met.shown, gap)
        for kind, author, part in met.after:
            if kind:
                builder.add_note(kind, author, self._within(part))
            else:
                builder.add(self._within(part), gap)

    def _texts(self, element: Element, met: _Paragraph) -> Iterator[str]:  # noqa: C901, PLR0912 - a case per element
        """The text inside a paragraph or a part of it."""
        for child in _accepted(element):
            match name := str(child.tag).removeprefix(_W):
                case "t":
                    yield _text(child, met)
                case "tab" | "ptab":
                    yield " "
                case "br" | "cr":
                    yield "\n"
                case "noBreakHyphen":
                    yield "-"
                case "sym":
                    yield _SYMBOLS.get((child.get(f"{_W}char") or "").upper(), "")
                case "fldChar":
                    yield _field(child, met)
                case "instrText":
                    if met.fields:
                        met.fields[-1] += child.text or ""
                case "txbxContent":
                    met.after.append(("", "", child))
                case "footnoteReference" | "endnoteReference" | "commentReference":
                    self._note(name.removesuffix("Reference"), child, met)
                case _ if child.tag == f"{MATH}oMath":
                    yield equation(child)
                case _ if name not in _LEFT_OUT and not (name == "r" and self._is_hidden(child)):
                    if name in ("drawing", "pict", "object"):
                        yield self._drawing(child, met)
                    yield from self._texts(child, met)

    def _is_hidden(self, run: Element) -> bool:
        properties = run.find(f"{_W}rPr")
        if properties is None:
            return False
        if _value(properties, "color").upper() == "FFFFFF" and _is_on_paper(run):
            return True
        mark = properties.find(f"{_W}vanish")
        return self._styles[_value(properties, "rStyle")].is_hidden if mark is None else _is_on(mark)

    def _note(self, kind: str, reference: Element, met: _Paragraph) -> None:
        note = self._notes.get((kind, reference.get(f"{_W}id")))
        if note is not None:
            met.after.append((kind.capitalize(), note.get(f"{_W}author", ""), note))

    def _drawing(self, drawing: Element, met: _Paragraph) -> str:
        """Count what a drawing shows, or read it; its description, if somebody wrote one."""
        described = ""
        for element in drawing.iter():
            name = local_name(element)
            if name in ("txbxContent", "Fallback"):
                break
            if name in ("blip", "imagedata"):
                self.losses["picture"] += 1
            elif name == "OLEObject":
                self.losses["embedded file"] += 1
            elif name in ("chart", "relIds"):
                link = self._links.get(element.get(f"{_R}id") or element.get(f"{_R}dm") or "")
                lines = linked_lines(self._archive, link)
                self.losses["chart" if name == "chart" else "diagram"] += not lines
                met.shown += lines
            elif name == "docPr":
                described = element.get("descr") or ""
        return f" [{' '.join(described.split())}] " if described.strip() else ""

    def _table(self, table: Element, builder: TextBuilder) -> None:
        rows = [row for row in _rows(table, "tr") if row.find(f"{_W}trPr/{_W}del") is None]
        cells = [[cell for cell in _rows(row, "tc") if cell.find(f"{_W}tcPr/{_W}cellDel") is None] for row in rows]
        if max(map(len, cells), default=0) < 2:  # only a frame around its text
            for row in cells:
                for cell in row:
                    self._blocks(cell, builder)
            return
        caption, written = self._caption if builder is self.builder else "", list[list[str]]()
        for row in cells:
            written.append(self._cells(row, written[-1] if written else []))
        marks = (row.find(f"{_W}trPr/{_W}tblHeader") for row in rows)
        num_headers = next((number for number, mark in enumerate(marks) if not _is_on(mark)), 0)
        if not num_headers and _is_header(rows, written):
            num_headers = 1
        if caption:
            builder.begin(caption)
        builder.add_lines(table_lines(written, num_headers or None))
        if caption:
            builder.begin()

    def _cells(self, row: Iterable[Element], above: list[str]) -> list[str]:
        """The texts of a row's cells, each in all columns and rows that it spans."""
        written: list[str] = []
        for cell in row:
            merged = cell.find(f"{_W}tcPr/{_W}vMerge")
            if merged is not None and merged.get(f"{_W}val") != "restart":
                text = above[len(written)] if len(written) < len(above) else ""
            else:
                text = self._within(cell)
            written += [text] * min(number_in(_value(cell, "tcPr", "gridSpan"), 1), 100)
        return written


def _is_on_paper(run: Element) -> bool:
    """Whether nothing behind a run may have a colour: it is in no table or box, and has no shading."""
    coloured = (f"{_W}rPr/{_W}shd", f"{_W}rPr/{_W}highlight", f"{_W}pPr/{_W}shd", f"{_W}background")
    return not any(
        element.tag in (f"{_W}tbl", f"{_W}txbxContent") or any(element.find(path) is not None for path in coloured)
        for element in (run, *run.iterancestors())
    )


def _text(element: Element, met: _Paragraph) -> str:
    is_of_page = any(code.split()[:1] in _PAGE_CODES for code in met.fields)
    if is_of_page or not element.text:
        return ""
    run = element.getparent()
    marks = [] if run is None else [run.find(f"{_W}rPr/{_W}{name}") for name in ("strike", "dstrike")]
    return f"~~{element.text}~~" if any(map(_is_on, marks)) else element.text


def _field(mark: Element, met: _Paragraph) -> str:
    """Note that a field begins or ends; a box to be ticked is a sign, and a list the entry that was chosen."""
    kind = mark.get(f"{_W}fldCharType")
    if kind == "end" and met.fields:
        met.fields.pop()
    if kind != "begin":
        return ""
    met.fields.append("")
    chosen = mark.find(f"{_W}ffData/{_W}ddList")
    if chosen is not None:
        entries = [entry.get(f"{_W}val", "") for entry in chosen.findall(f"{_W}listEntry")]
        return "".join(entries[number_in(_value(chosen, "result") or _value(chosen, "default"), 0) :][:1])
    box = mark.find(f"{_W}ffData/{_W}checkBox")
    if box is None:
        return ""
    ticked = box.find(f"{_W}checked")
    ticked = box.find(f"{_W}default") if ticked is None else ticked
    return "☒ " if _is_on(ticked) else "☐ "


def _accepted(container: Element) -> Iterator[Element]:
    """The children, without what a control shows before it is filled in; the first of several versions of one."""
    for child in container:
        if child.tag == f"{_MC}AlternateContent":
            yield from child[:1]
        elif (child.tag == f"{_W}fldSimple" and (child.get(f"{_W}instr") or "").split()[:1] in _PAGE_CODES) or (
            child.tag == f"{_W}sdt" and child.find(f"{_W}sdtPr/{_W}showingPlcHdr") is not None
        ):
            continue
        elif child.tag not in (f"{_W}del", f"{_W}moveFrom") and isinstance(child.tag, str):
            yield child


def _rows(container: Element, name: str) -> Iterator[Element]:
    """The rows of a table or the cells of a row, also those in controls."""
    for child in _accepted(container):
        if child.tag == f"{_W}{name}":
            yield child
        elif child.tag in (f"{_W}sdt", f"{_W}sdtContent", f"{_W}customXml", f"{_W}ins"):
            yield from _rows(child, name)


def _is_header(rows: Sequence[Element], written: Sequence[Sequence[str]]) -> bool:
    """Whether the first row of a table, alone, is bold, and holds no values, as a first item does."""
    is_bold, *others = map(_is_bold, rows)
    return is_bold and not any(others) and not holds_values(written[0], written[1:])


def _is_bold(row: Element) -> bool:
    runs = [run for run in row.iter(f"{_W}r") if run.find(f"{_W}t") is not None]
    return bool(runs) and all(_is_on(run.find(f"{_W}rPr/{_W}b")) for run in runs)


class _Numbering:
    """Counts the paragraphs of numbered lists."""

    def __init__(self, roots: Iterable[Element]) -> None:
        self._levels: dict[str, dict[int, tuple[str, str, int]]] = {}  # format, label and start of each level of a list
        self._lists: dict[str, str] = {}  # the abstract list that a list is one of; these count together
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for root in roots:
            abstract = {
                definition.get(f"{_W}abstractNumId"): {
                    number_in(level.get(f"{_W}ilvl"), 0): (
                        _value(level, "numFmt"),
                        _value(level, "lvlText"),
                        number_in(_value(level, "start"), 1),
                    )
                    for level in definition.findall(f"{_W}lvl")
                }
                for definition in root.findall(f"{_W}abstractNum")
            }
            for numbering in root.findall(f"{_W}num"):
                name, of = numbering.get(f"{_W}numId") or "", _value(numbering, "abstractNumId")
                levels = dict(abstract.get(of, {}))
                self._lists[name] = of
                for override in numbering.findall(f"{_W}lvlOverride"):
                    number = number_in(override.get(f"{_W}ilvl"), 0)
                    format, label, start = levels.get(number, ("decimal", f"%{number + 1}.", 1))
                    levels[number] = format, label, number_in(_value(override, "startOverride"), start)
                    self._lists[name] = f"own {name}"
                self._levels[name] = levels

    def label(self, properties: Element | None, style: _Style) -> str:
        """The number or sign in front of the next paragraph, with a space; "" if it is in no list."""
        written = properties.find(f"{_W}numPr") if properties is not None else None
        name, level = style.numbering
        if written is not None:
            name, level = _value(written, "numId") or name, number_in(_value(written, "ilvl"), level)
        levels = self._levels.get(name, {})
        if level not in levels:
            return ""
        format, label, start = levels[level]
        if format == "bullet":
            return "- "
        if format == "none":
            return ""
        counts = self._counts[self._lists[name]]
        counts[level] = counts.get(level, start - 1) + 1
        for deeper in [other for other in counts if other > level]:
            del counts[deeper]

        def number(match: re.Match[str]) -> str:
            above = int(match[1]) - 1
            format, _, start = levels.get(above, ("decimal", "", 1))
            return _written_number(counts.get(above, start), format)

        text = re.sub(r"%(\d)", number, label).strip()
        return f"{text} " if text else ""


def _written_number(number: int, format: str) -> str:
    if format.endswith("Letter") and number > 0:
        letter = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 9)
    elif format.endswith("Roman") and 0 < number < 4000:
        signs = ((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"))
        letter = ""
        for value, sign in (*signs, (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")):
            letter += sign * (number // value)
            number %= value
    else:
        return f"{number:02}" if format == "decimalZero" else str(number)
    return letter.upper() if format.startswith("upper") else letter


def _styles(roots: Iterable[Element]) -> defaultdict[str, _Style]:
    """The styles by id, each with what it has from those it is based on."""
    written = {style.get(f"{_W}styleId") or "": style for root in roots for style in root.findall(f"{_W}style")}
    styles: defaultdict[str, _Style] = defaultdict(_Style)
    for id, element in written.items():
        chain, based = list[Element](), element
        while based is not None and len(chain) < _DEEPEST_STYLE:
            chain.append(based)
            based = written.get(_value(based, "basedOn"))
        level = _first(_heading_level(_value(one, "name").lower(), _value(one, "pPr", "outlineLvl")) for one in chain)
        numbering = _first(one.find(f"{_W}pPr/{_W}numPr") for one in chain)
        hidden = _first(one.find(f"{_W}rPr/{_W}vanish") for one in chain)
        number = _value(numbering, "numId"), number_in(_value(numbering, "ilvl"), 0)
        styles[id] = _Style(_value(element, "name").lower(), level, number, _is_on(hidden))
    return styles


def _first(items: Iterable[Any]) -> Any:
    return next((item for item in items if item is not None), None)


def _heading_level(style: str, outline: str) -> int | None:
    if match := _HEADING.fullmatch(style):
        return int(match[1])
    level = number_in(outline, 9) + 1
    return level if level <= 9 else None


def _value(element: Element | None, *path: str) -> str:
    """The value of a property, "" if it is not there."""
    inner = element.find("/".join(f"{_W}{name}" for name in path)) if element is not None else None
    return (inner.get(f"{_W}val") or "") if inner is not None else ""


def _is_on(mark: Element | None) -> bool:
    return mark is not None and mark.get(f"{_W}val", "1") not in ("0", "false", "off")
