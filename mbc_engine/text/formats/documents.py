"""Formats with one text per file: HTML, Markdown, Word and PDF.

HTML: title and visible text, with a break where a browser makes one. Markdown: no front matter, no comments. Word:
paragraphs and tables in order, accepted changes only. PDF: the text of the pages that have any.
"""

import codecs
import io
import logging
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from mbc_engine.text.decoding import ByteStream, decode, detect, pieces
from mbc_engine.text.document import (
    CELL,
    LINE,
    PARAGRAPH,
    Content,
    UnreadableFile,
    damage_is_unreadable,
    day_of,
    day_of_moment,
    lay_out,
    with_title,
)

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from lxml import etree
    from pypdf import PdfReader

MOST_HTML_BYTES = 64 << 20

_PARAGRAPHS = (
    "address article aside blockquote body caption details div dl fieldset figcaption figure footer form h1 h2 h3 h4 "
    "h5 h6 header hr main ol p pre section summary table ul"
)
_HTML_BREAKS = {
    **dict.fromkeys(_PARAGRAPHS.split(), PARAGRAPH),
    **dict.fromkeys(("br", "dd", "dt", "legend", "li", "tr"), LINE),
    **dict.fromkeys(("td", "th"), CELL),
}
_HTML_LEFT_OUT = frozenset(
    ("button", "canvas", "iframe", "nav", "noscript", "object", "script", "select", "style", "svg", "template")
)
# The names, properties and item properties of meta elements with a date, the most specific first.
_DATES = (
    *("article:published_time", "datepublished", "citation_publication_date", "citation_date", "dc.date.issued"),
    *("dcterms.issued", "dcterms.created", "dc.date.created", "dc.date", "dcterms.date", "pubdate", "publish-date"),
    *("date", "datecreated", "article:modified_time", "datemodified", "last-modified"),
)
_DECLARED = re.compile(
    rb"""<(?:meta\b[^>]{0,500}?charset|\?xml\b[^>]{0,500}?encoding)\s*=\s*["']?\s*([\w.:-]{2,40})""", re.IGNORECASE
)
# What browsers decode these names as (WHATWG Encoding).
_MEANT = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "iso8859-9": "cp1254",
    "utf-16": "utf-8",
}
_TRUSTED = re.compile(
    r"utf-8|cp125\d|cp866|cp874|cp932|cp949|iso8859-\d+|koi8-[ru]|mac-\w+|gb18030|big5|euc_jp|iso2022_jp"
)


def read_html(stream: ByteStream) -> Iterator[Content]:
    """The page as one document, dated by its meta or time elements."""
    data = stream.read_all(MOST_HTML_BYTES)
    from lxml import etree

    page = _Page()
    if text := _decoded(data).strip():
        with damage_is_unreadable():
            parser = etree.HTMLParser(target=page, encoding="utf-8", huge_tree=True)
            etree.fromstring(text.encode(), parser)
    yield Content(page.text(), data, page.date())


class _Page:
    """Target of lxml's parser. A tree would take fifty times the memory, and end at the first `</html>`."""

    def __init__(self) -> None:
        self._pieces: list[str | int] = []
        self._title: list[str] = []
        self._dates: dict[str, str] = {}
        self._left_out = self._titles = self._preformatted = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._count(tag, 1)
        if tag in _HTML_BREAKS:
            self._pieces.append(_HTML_BREAKS[tag])
        elif tag == "meta":
            name = attributes.get("property") or attributes.get("name") or attributes.get("itemprop") or ""
            self._dates.setdefault(name.lower(), attributes.get("content", ""))
        elif tag == "time" and not self._left_out:
            self._dates.setdefault("<time>", attributes.get("datetime", ""))

    def end(self, tag: str) -> None:
        self._count(tag, -1)
        if tag in _HTML_BREAKS:
            self._pieces.append(_HTML_BREAKS[tag])

    def data(self, text: str) -> None:
        if self._left_out:
            return
        if self._titles:
            self._title.append(text)
        elif self._preformatted:
            for line in text.splitlines(keepends=True):
                self._pieces += (line, LINE) if line.endswith("\n") else (line,)
        else:
            self._pieces.append(text)

    def close(self) -> None: ...

    def _count(self, tag: str, step: int) -> None:
        self._left_out += step * (tag in _HTML_LEFT_OUT)
        self._titles += step * (tag == "title")
        self._preformatted += step * (tag == "pre")

    def text(self) -> str:
        return with_title(lay_out(self._title), lay_out(self._pieces))

    def date(self) -> str | None:
        days = (day_of(self._dates.get(name)) for name in (*_DATES, "<time>"))
        return next((day for day in days if day), None)


def _decoded(data: bytes) -> str:
    encoding = detect(data, is_whole=True)
    # If the bytes are UTF-8, any other declaration is wrong; ASCII may be Japan's seven-bit ISO-2022-JP.
    if not encoding.startswith("utf"):
        encoding = _declared(data[:4096]) or encoding
    text = decode(data, encoding).removeprefix("\ufeff")
    if "\0" in text:
        raise UnreadableFile("looks binary")
    return text


def _declared(head: bytes) -> str | None:
    match = _DECLARED.search(head)
    try:
        name = codecs.lookup(match[1].decode("ascii")).name if match else ""
    except (LookupError, ValueError):
        return None
    name = _MEANT.get(name, name)
    # Python also has codecs that no page uses, and slow ones.
    return name if _TRUSTED.fullmatch(name) else None


# A first line of dashes starts front matter only if a key follows; otherwise it is a horizontal rule.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_DATE = re.compile(r"^date[ \t]*:[ \t]*([^\n#]+)", re.MULTILINE)


def read_markdown(stream: ByteStream) -> Iterator[Content]:
    """The text in pieces if it is long; all of them have the date of the front matter."""
    written: str | None = None
    for number, piece in enumerate(pieces(stream)):
        text = piece.text
        if number == 0 and (front_matter := _FRONT_MATTER.match(text)):
            text = text[front_matter.end() :]
            if date := _DATE.search(front_matter[1]):
                written = day_of(date[1].strip().strip("\"'"))
        yield replace(piece, text=_without_comments(text), date=written)


def _without_comments(text: str) -> str:
    # A regular expression would take quadratic time on many unclosed comments.
    parts, position = list[str](), 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[position:start])
        position = end + 3
    return "".join([*parts, text[position:]])


MOST_BYTES = 512 << 20
# Parsed XML takes some twenty times its size in memory; a thousand pages of text are about 10 MB of it.
MOST_XML_BYTES = 64 << 20

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# A text box is stored twice, for new and old programs; moved text also at its destination.
_WORD_LEFT_OUT = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_WORD}moveFrom"}
_WORD_TEXTS = {f"{_WORD}tab": " ", f"{_WORD}noBreakHyphen": "-"}
_WORD_BREAKS = {f"{_WORD}tbl": PARAGRAPH, f"{_WORD}tc": CELL} | {f"{_WORD}{tag}": LINE for tag in ("br", "cr", "tr")}


def read_docx(stream: ByteStream) -> Iterator[Content]:
    """The document, dated by its properties: last modified, else created."""
    data = stream.read_all(MOST_BYTES)
    from docx import Document

    with damage_is_unreadable():
        _require_harmless(data)
        document = Document(io.BytesIO(data))
        text, date = lay_out(_word_pieces(document)), _word_date(document)
    yield Content(text, data, date)


def _require_harmless(data: bytes) -> None:
    """Reject an archive that declares too much, or holds more than it declares, before python-docx loads it whole."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        xml = sum(member.file_size for member in members if member.filename.lower().endswith((".xml", ".rels")))
        if sum(member.file_size for member in members) > MOST_BYTES or xml > MOST_XML_BYTES:
            raise UnreadableFile("is too large when unpacked")
        for member in members:
            with archive.open(member) as unpacked:
                while unpacked.read(1 << 16):
                    pass


def _word_pieces(document: "WordDocument") -> Iterator[str | int]:
    from lxml import etree

    # `document.paragraphs` would leave out content controls, text boxes and tracked insertions.
    walk = etree.iterwalk(document.element.body, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "start" and tag in _WORD_LEFT_OUT:
            walk.skip_subtree()
        elif tag in _WORD_BREAKS:
            yield _WORD_BREAKS[tag]
        elif event == "end":
            continue
        elif tag == f"{_WORD}t":
            yield element.text or ""
        elif tag in _WORD_TEXTS:
            yield _WORD_TEXTS[tag]
        elif tag == f"{_WORD}p" and not _is_first_in_cell(element):
            yield PARAGRAPH


def _is_first_in_cell(paragraph: "etree._Element") -> bool:
    parent, previous = paragraph.getparent(), paragraph.getprevious()
    return parent is not None and parent.tag == f"{_WORD}tc" and (previous is None or previous.tag == f"{_WORD}tcPr")


def _word_date(document: "WordDocument") -> str | None:
    from docx.opc.constants import RELATIONSHIP_TYPE

    package = document.part.package
    # If there are no properties, python-docx would create some, dated now.
    if not any(link.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for link in package.rels.values()):
        return None
    properties = document.core_properties
    return day_of_moment(properties.modified or properties.created)


# A line of at least this share of the page's longest is full: broken by the margin, not by the writer.
_FULL = 0.7


def read_pdf(stream: ByteStream) -> Iterator[Content]:
    """The document without its damaged pages; raises UnreadableFile at the end if there are any."""
    data = stream.read_all(MOST_BYTES)
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    with _quiet_log(), damage_is_unreadable():
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableFile("is password-protected")
            num_pages = len(reader.pages)
        except DependencyError as error:
            raise UnreadableFile("uses an encryption that is not supported") from error
        texts = [_page_text(reader, number) for number in range(num_pages)]
        date = _pdf_date(reader)
    pages = [text for text in texts if text is not None]
    text = "\n\n".join(page for page in pages if page)
    if pages and not text:
        raise UnreadableFile("has no text; it may be a scan")
    if pages:
        yield Content(text, data, date)
    if damaged := num_pages - len(pages):
        raise UnreadableFile(f"is damaged: {damaged} of {num_pages} pages cannot be read")


def _page_text(reader: "PdfReader", number: int) -> str | None:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        return _unwrapped(reader.pages[number].extract_text())
    return None


def _pdf_date(reader: "PdfReader") -> str | None:
    with suppress(OSError, UnreadableFile), damage_is_unreadable():
        return day_of_moment(reader.metadata.creation_date) if reader.metadata else None
    return None


def _unwrapped(page: str) -> str:
    """Join each full line of a page with the next, so that line breaks do not end sentences."""
    lines = [line.strip() for line in page.splitlines()]
    full = _FULL * max(map(len, lines), default=0)
    written: list[str] = []
    for line, following in zip(lines, [*lines, ""][1:], strict=True):
        runs_on = len(line) >= full and bool(line) and bool(following)
        if runs_on and line.endswith("-") and line[-2:-1].isalpha() and following[0].islower():
            written.append(line[:-1])
        else:
            written += (line, " " if runs_on else "\n")
    return "".join(written).strip()


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Silence pypdf, which logs every oddity that it works around."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
