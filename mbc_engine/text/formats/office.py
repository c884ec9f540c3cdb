"""Word documents: paragraphs and tables in order, accepted changes only. PDF: the text of the pages that have any."""

import io
import logging
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import (
    CELL,
    LINE,
    PARAGRAPH,
    Content,
    UnreadableFile,
    damage_is_unreadable,
    day_of_moment,
    lay_out,
)

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from lxml import etree
    from pypdf import PdfReader

MOST_BYTES = 512 << 20
# Parsed XML takes some twenty times its size in memory; a thousand pages of text are about 10 MB of it.
MOST_XML_BYTES = 64 << 20

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# A text box is there twice, for new and old programs; moved text also where it was moved to.
_LEFT_OUT = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_WORD}moveFrom"}
_TEXTS = {f"{_WORD}tab": " ", f"{_WORD}noBreakHyphen": "-"}
_BREAKS = {f"{_WORD}tbl": PARAGRAPH, f"{_WORD}tc": CELL} | {f"{_WORD}{tag}": LINE for tag in ("br", "cr", "tr")}


def read_docx(stream: ByteStream) -> Iterator[Content]:
    """The document, dated by its properties: last modified, else created."""
    data = stream.read_whole(MOST_BYTES)
    from docx import Document

    with damage_is_unreadable():
        _require_harmless(data)
        document = Document(io.BytesIO(data))
        text, date = lay_out(_word_pieces(document)), _word_date(document)
    yield Content(text, data, date)


def _require_harmless(data: bytes) -> None:
    """Refuse an archive that declares too much or holds more than it declares.

    python-docx loads parts whole, whatever their size. Here they are unpacked block by block, which ends with an error
    as soon as one differs from what was declared.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        xml = sum(member.file_size for member in members if member.filename.lower().endswith((".xml", ".rels")))
        if sum(member.file_size for member in members) > MOST_BYTES or xml > MOST_XML_BYTES:
            raise UnreadableFile("unpacks to more than can be read")
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
        if event == "start" and tag in _LEFT_OUT:
            walk.skip_subtree()
        elif tag in _BREAKS:
            yield _BREAKS[tag]
        elif event == "end":
            continue
        elif tag == f"{_WORD}t":
            yield element.text or ""
        elif tag in _TEXTS:
            yield _TEXTS[tag]
        elif tag == f"{_WORD}p" and not _is_first_in_cell(element):
            yield PARAGRAPH


def _is_first_in_cell(paragraph: "etree._Element") -> bool:
    parent, previous = paragraph.getparent(), paragraph.getprevious()
    return parent is not None and parent.tag == f"{_WORD}tc" and (previous is None or previous.tag == f"{_WORD}tcPr")


def _word_date(document: "WordDocument") -> str | None:
    from docx.opc.constants import RELATIONSHIP_TYPE

    package = document.part.package
    # Where there are no properties, python-docx would make some, dated now.
    if not any(link.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for link in package.rels.values()):
        return None
    properties = document.core_properties
    return day_of_moment(properties.modified or properties.created)


# A line of at least this share of the page's longest is full: the margin ended it, not the writer.
_FULL = 0.7


def read_pdf(stream: ByteStream) -> Iterator[Content]:
    """The document without its damaged pages; if there are any, ends with `UnreadableFile`."""
    data = stream.read_whole(MOST_BYTES)
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    with _quiet_log(), damage_is_unreadable():
        try:
            reader = PdfReader(io.BytesIO(data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise UnreadableFile("is protected by a password")
            num_pages = len(reader.pages)
        except DependencyError as error:
            raise UnreadableFile("is encrypted in a way that cannot be read") from error
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
    """A page whose full lines run on in the next one, so that they do not end a sentence."""
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
    """Pypdf would print every oddity that it copes with."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
