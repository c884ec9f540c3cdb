"""OpenDocument: texts and presentations as they are shown, tracked changes accepted."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from lxml.etree import _Element as Element

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import Content, TextBuilder, UnreadableFile, damage_is_unreadable, tidy
from mbc_engine.text.formats.archives import (
    Archive,
    FlatDocument,
    open_document_properties,
    read_open_document,
)
from mbc_engine.text.tables import table_lines

_SPACES: Final = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT: Final = f"{{{_SPACES}text:1.0}}"
_TABLE: Final = f"{{{_SPACES}table:1.0}}"
_DRAW: Final = f"{{{_SPACES}drawing:1.0}}"
_OFFICE: Final = f"{{{_SPACES}office:1.0}}"
_STYLE: Final = f"{{{_SPACES}style:1.0}}"
_DC: Final = "{http://purl.org/dc/elements/1.1/}"
# Deleted text, forms' controls, and what is generated from the rest.
_LEFT_OUT: Final = {
    *(f"{_TEXT}{name}" for name in ("tracked-changes", "note-citation", "ruby-text", "table-of-content")),
    *(f"{_TEXT}{name}" for name in ("page-number", "page-count", "sequence-decls", "hidden-text")),
    f"{_TEXT}alphabetical-index-mark",
    f"{_OFFICE}annotation-end",
    f"{_OFFICE}forms",
    f"{_TABLE}shapes",
}
_SIGNS: Final = {f"{_TEXT}s": " ", f"{_TEXT}tab": " ", f"{_TEXT}line-break": "\n"}
# A sheet may declare a million empty columns.
_MOST_REPEATED: Final = 1000


def read_odt(stream: ByteStream) -> Iterator[Content]:
    """The text or the presentation, dated by its properties: last modified, else created."""
    with damage_is_unreadable():
        data, archive = read_open_document(stream)
        document = _Document(archive)
        title, date = open_document_properties(archive)
    yield document.builder.content(data, date, title=title or document.title, losses=document.losses)


class _Document:
    def __init__(self, archive: Archive | FlatDocument) -> None:
        self.builder, self.losses, self.title = TextBuilder(), Counter[str](), ""
        self._numbered: dict[tuple[str, int], bool] = {}
        self._titles = {"Title"}  # styles of paragraphs
        roots = [archive.xml(name) for name in ("styles.xml", "content.xml") if name in archive.names]
        for root in roots:
            for style in root.iter(f"{_TEXT}list-style"):
                for level in style:
                    key = style.get(f"{_STYLE}name", ""), int(level.get(f"{_TEXT}level", "1"))
                    self._numbered[key] = level.tag == f"{_TEXT}list-level-style-number"
            of_title = (
                style for style in root.iter(f"{_STYLE}style") if style.get(f"{_STYLE}parent-style-name") == "Title"
            )
            self._titles.update(style.get(f"{_STYLE}name", "") for style in of_title)
        body = roots[-1].find(f"{_OFFICE}body") if roots else None
        if body is None:
            raise UnreadableFile("is damaged: it has no body")
        headers, footers = (self._page_texts(roots[0], kind) for kind in ("header", "footer"))
        for text in headers:
            self.builder.add(text)
        self._blocks(body, self.builder, is_body=True)
        self.builder.heading(1, "")
        for text in footers:
            self.builder.add(text)
        self.losses["macro"] = int(any(name.startswith("Basic/") and name.endswith(".xml") for name in archive.names))

    def _page_texts(self, styles: Element, kind: str) -> list[str]:
        texts = (self._within(part) for part in styles.iter(f"{_STYLE}{kind}"))
        return list(dict.fromkeys(texts))

    def _within(self, container: Element) -> str:
        builder = TextBuilder("\n")
        self._blocks(container, builder)
        return builder.text()

    def _blocks(self, container: Element, builder: TextBuilder, *, is_body: bool = False) -> None:
        slide = 0
        for element in container:
            name = element.tag
            if name in _LEFT_OUT:
                continue
            if name in (f"{_TEXT}h", f"{_TEXT}p"):
                self._paragraph(element, builder, is_body=is_body)
            elif name == f"{_TEXT}list":
                self._list(element, builder, 1, element.get(f"{_TEXT}style-name", ""))
            elif name == f"{_TABLE}table":
                self._table(element, builder)
            elif name == f"{_DRAW}page":
                slide += 1
                self._slide(element, slide)
            elif name == f"{_OFFICE}annotation":
                self._add_note("Comment", element, builder)
            else:
                self._count(element)
                self._blocks(element, builder, is_body=is_body)

    def _count(self, element: Element) -> None:
        if element.tag == f"{_DRAW}image":
            self.losses["picture"] += 1
        elif element.tag in (f"{_DRAW}object", f"{_DRAW}object-ole"):
            self.losses["embedded object"] += 1

    def _paragraph(
        self, element: Element, builder: TextBuilder, gap: str | None = None, *, is_body: bool = False, label: str = ""
    ) -> None:
        after: list[tuple[str, Element]] = []
        text = tidy("".join(self._texts(element, after)))
        text = f"{label}{text}" if text else ""
        if element.tag == f"{_TEXT}h" and is_body and text:
            builder.heading(int(element.get(f"{_TEXT}outline-level", "1")), text)
        else:
            builder.add(text, gap)
        if is_body and element.get(f"{_TEXT}style-name") in self._titles:
            self.title = self.title or " ".join(text.split())
        for kind, part in after:
            if kind:
                self._add_note(kind, part, builder)
            else:
                builder.add(self._within(part), gap)

    def _add_note(self, kind: str, part: Element, builder: TextBuilder) -> None:
        inner = TextBuilder("\n")
        for child in part:
            if not str(child.tag).startswith(_DC):
                self._blocks([child] if child.tag == f"{_TEXT}p" else child, inner)
        builder.add_note(kind, part.findtext(f"{_DC}creator") or "", inner.text())

    def _texts(self, element: Element, after: list[tuple[str, Element]]) -> Iterator[str]:
        """The texts of a paragraph; notes, comments and boxes in it go to `after`, with what they are."""
        yield element.text or ""
        for child in element:
            name = child.tag
            if name in _SIGNS:
                yield _SIGNS[name]
            elif name == f"{_TEXT}note":
                after.append((child.get(f"{_TEXT}note-class", "footnote").capitalize(), child))
            elif name == f"{_OFFICE}annotation":
                after.append(("Comment", child))
            elif name in (f"{_DRAW}frame", f"{_DRAW}custom-shape", f"{_DRAW}rect"):
                after.append(("", child))
            elif name not in _LEFT_OUT and isinstance(name, str):
                yield from self._texts(child, after)
            yield child.tail or ""

    def _list(self, element: Element, builder: TextBuilder, level: int, style: str) -> None:
        number = 0
        for item in element:
            is_item = item.tag == f"{_TEXT}list-item"
            number = int(item.get(f"{_TEXT}start-value", number + is_item))
            label = (f"{number}. " if self._numbered.get((style, level)) else "- ") if is_item else ""
            for child in item:
                if child.tag == f"{_TEXT}list":
                    self._list(child, builder, level + 1, child.get(f"{_TEXT}style-name", style))
                elif child.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    gap = "\n" if number > 1 or level > 1 or not label else "\n\n"
                    self._paragraph(child, builder, gap, label=label)
                    label = ""

    def _table(self, table: Element, builder: TextBuilder) -> None:
        headers = sum(len(list(part.iter(f"{_TABLE}table-row"))) for part in table.iter(f"{_TABLE}table-header-rows"))
        rows: list[list[str]] = []
        for row in _own(table, "table-row"):
            written: list[str] = []
            for cell in row:
                times = min(int(cell.get(f"{_TABLE}number-columns-repeated", "1")), _MOST_REPEATED)
                if cell.tag == f"{_TABLE}covered-table-cell":
                    is_beside = bool(written) and not (rows and len(written) < len(rows[-1]) and not written[-1])
                    text = written[-1] if is_beside else rows[-1][len(written)] if rows else ""
                else:
                    text = self._within(cell)
                written += [text] * times
            rows.append(written)
        builder.add_lines(table_lines(rows, headers or None))

    def _slide(self, page: Element, number: int) -> None:
        presentation = f"{{{_SPACES}presentation:1.0}}"
        titles = [shape for shape in page if shape.get(f"{presentation}class") == "title"]
        title = " ".join(self._within(shape) for shape in titles)
        self.builder.heading(1, title or f"Slide {number}", is_shown=bool(title))
        for shape in page:
            if shape.tag == f"{presentation}notes":
                self.builder.add_note("Notes", "", self._within(shape), "\n\n")
            elif shape not in titles and shape.tag not in _LEFT_OUT:
                self._count(shape)
                self.builder.add(self._within(shape))


def _own(table: Element, name: str) -> Iterator[Element]:
    """The rows of a table, not of one inside it."""
    for child in table:
        if child.tag == f"{_TABLE}{name}":
            yield child
        elif child.tag in (f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group"):
            yield from _own(child, name)
