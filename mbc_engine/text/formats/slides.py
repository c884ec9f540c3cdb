"""PowerPoint: a section per slide, with its tables, diagrams, charts, comments and notes."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final

from lxml.etree import _Element as Element

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import Content, TextBuilder, damage_is_unreadable, tidy
from mbc_engine.text.formats.archives import Archive, Link, local_name, read_archive, unescaped
from mbc_engine.text.formats.equations import MATH, equation
from mbc_engine.text.tables import table_lines

_A: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P: Final = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R: Final = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
# Placeholders whose text is about the slide, not on it.
_LEFT_OUT: Final = frozenset(("sldNum", "dt", "sldImg", "hdr"))
_TITLES: Final = frozenset(("title", "ctrTitle"))


def read_pptx(stream: ByteStream) -> Iterator[Content]:
    """The presentation, dated by its properties: last modified, else created."""
    with damage_is_unreadable():
        data, archive = read_archive(stream)
        main = next(archive.linked("", "officeDocument"), "ppt/presentation.xml")
        links = archive.links(main)
        slides = [links[slide.get(f"{_R}id", "")].target for slide in archive.xml(main).iter(f"{_P}sldId")]
        presentation = _Presentation(archive)
        for number, slide in enumerate(slides, 1):
            presentation.add(slide, number)
        presentation.losses["macro"] = sum(name.endswith("vbaProject.bin") for name in archive.names)
        title, date = archive.properties
    # What programs write if nobody gives a title.
    title = "" if title == "PowerPoint Presentation" else title
    yield presentation.builder.content(data, date, title=title, losses=presentation.losses)


class _Presentation:
    def __init__(self, archive: Archive) -> None:
        self.builder, self.losses = TextBuilder(), Counter[str]()
        self._archive = archive
        self._footers: set[str] = set()
        self._authors: dict[str, str] = {}
        for name in archive.names:
            if re.fullmatch(r"ppt/(?:commentAuthors|authors)\.xml", name):
                self._authors |= {author.get("id", ""): author.get("name", "") for author in archive.xml(name)}

    def add(self, slide: str, number: int) -> None:
        """A slide, from its title on."""
        root = self._archive.xml(slide)
        shapes = list(_shapes(root))
        title = " ".join(text for shape in shapes if _placeholder(shape) in _TITLES for text in _paragraphs(shape))
        self.builder.heading(1, title or f"Slide {number}", is_shown=bool(title))
        for shape in shapes:
            if _placeholder(shape) not in _TITLES | _LEFT_OUT:
                self._shape(shape)
        self._linked(slide)
        for notes in self._archive.linked_xml(slide, "notesSlide"):
            shown = (shape for shape in _shapes(notes) if _placeholder(shape) not in _LEFT_OUT)
            self.builder.add_note("Notes", "", "\n".join(chain.from_iterable(map(_paragraphs, shown))), "\n\n")

    def _linked(self, slide: str) -> None:
        """What a slide shows from other parts."""
        for link in self._archive.links(slide).values():
            if link.target not in self._archive.names:
                continue
            if lines := linked_lines(self._archive, link):
                self.builder.add_lines(lines)
            elif link.kind in ("image", "video", "audio", "media"):
                self.losses["picture" if link.kind == "image" else "recording"] += 1
            elif link.kind in ("oleObject", "package"):
                self.losses["embedded file"] += 1
            elif link.kind == "comments":
                self._comments(link.target)

    def _shape(self, shape: Element) -> None:
        for table in shape.iter(f"{_A}tbl"):
            self.builder.add_lines(table_lines(_rows(table)))
        texts = _paragraphs(shape)
        if _placeholder(shape) == "ftr":  # stands on every slide
            texts = [text for text in texts if text not in self._footers]
            self._footers.update(texts)
        self.builder.add_lines(texts)
        for described in shape.iter(f"{_P}cNvPr"):
            if shape.tag == f"{_P}pic" and (text := described.get("descr", "").strip()):
                self.builder.add(f"[{' '.join(text.split())}]")

    def _comments(self, name: str) -> None:
        for comment in self._archive.xml(name):
            author = self._authors.get(comment.get("authorId", ""), "")
            texts = [" ".join((element.text or "").split()) for element in comment.iter(f"{_P}text", f"{_A}t")]
            self.builder.add_note("Comment", author, " ".join(texts))


def linked_lines(archive: Archive, link: Link | None) -> list[str]:
    """The lines of the chart or the diagram that a part of a document refers to, if it is one."""
    if link is None or link.target not in archive.names or link.kind not in ("diagramData", "chart"):
        return []
    root = archive.xml(link.target)
    return _chart_lines(root) if link.kind == "chart" else _paragraphs(root)


def _chart_lines(root: Element) -> list[str]:
    """The title of a chart, and a line per category with its values."""
    space = f"{{{root.nsmap.get(root.prefix, '')}}}"
    title = root.find(f"{space}chart/{space}title")
    columns: list[tuple[str, list[str]]] = []
    categories: list[str] = []
    for series in root.iter(f"{space}ser"):
        name, points, values = (
            [value.text or "" for part in series.findall(f"{space}{tag}") for value in part.iter(f"{space}v")]
            for tag in ("tx", "cat", "val")
        )
        categories = categories or points
        columns.append((" ".join(name), values))
    rows = [["", *(name for name, _ in columns)]]
    for number, category in enumerate(categories):
        rows.append([category, *(values[number] if number < len(values) else "" for _, values in columns)])
    lines = [" ".join(" ".join(_paragraphs(title)).split())] if title is not None else []
    return [line for line in (*lines, *table_lines(rows, 1)) if line]


def _shapes(root: Element) -> Iterator[Element]:
    """The shapes of a slide in order, also those in groups; of several versions of one, the first."""
    for element in root:
        name = local_name(element)
        if name in ("sp", "graphicFrame", "pic", "cxnSp"):
            yield element
        elif name == "AlternateContent":
            yield from _shapes(element[0]) if len(element) else ()
        else:
            yield from _shapes(element)


def _placeholder(shape: Element) -> str:
    """What a shape is on its slide, as "title"; "" if it is no placeholder."""
    placeholder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return placeholder.get("type", "body") if placeholder is not None else ""


def _paragraphs(shape: Element) -> list[str]:
    """The texts of the paragraphs outside tables."""
    texts = (
        _text(paragraph)
        for paragraph in shape.iter(f"{_A}p")
        if not any(above.tag == f"{_A}tbl" for above in paragraph.iterancestors())
    )
    return [text for text in texts if text]


def _text(paragraph: Element) -> str:
    pieces = []
    for element in paragraph.iter(f"{_A}t", f"{_A}br", f"{_A}tab", f"{MATH}oMath"):
        if element.tag == f"{MATH}oMath":
            pieces.append(equation(element))
        elif not any(above.tag == f"{MATH}oMath" for above in element.iterancestors()):
            pieces.append({"t": element.text or "", "br": "\n"}.get(element.tag[len(_A) :], " "))
    return tidy(unescaped("".join(pieces)).replace("\v", "\n"))


def _rows(table: Element) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in table.findall(f"{_A}tr"):
        written: list[str] = []
        for cell in row.findall(f"{_A}tc"):
            if cell.get("hMerge") in ("1", "true"):
                text = written[-1] if written else ""
            elif cell.get("vMerge") in ("1", "true") and rows and len(written) < len(rows[-1]):
                text = rows[-1][len(written)]
            else:
                text = "\n".join(filter(None, (_text(paragraph) for paragraph in cell.iter(f"{_A}p"))))
            written.append(text)
        rows.append(written)
    return rows
