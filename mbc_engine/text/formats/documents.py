"""Word: paragraphs and tables in order, accepted changes only."""

import io
import zipfile
from collections.abc import Iterator
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
