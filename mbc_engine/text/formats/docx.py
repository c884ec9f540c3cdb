"""Word documents (.docx): paragraphs and tables in order, accepted changes only."""

import io
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.document import UnreadableFile, damage_is_unreadable, day_of_moment
from mbc_engine.text.formats.content import Break, Content, lay_out

if TYPE_CHECKING:
    from docx.document import Document as WordDocument
    from lxml import etree

MOST_BYTES = 512 << 20
# Parsed XML takes some twenty times its size in memory; a thousand pages of text are about 10 MB of it.
MOST_XML_BYTES = 64 << 20

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
# A text box comes twice, for new and for old programs; a moved text stands where it was moved to as well.
_LEFT_OUT = {"{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback", f"{_WORD}moveFrom"}
_TEXTS = {f"{_WORD}tab": " ", f"{_WORD}noBreakHyphen": "-"}
_BREAKS = {
    f"{_WORD}br": Break.LINE,
    f"{_WORD}cr": Break.LINE,
    f"{_WORD}tbl": Break.PARAGRAPH,
    f"{_WORD}tr": Break.LINE,
    f"{_WORD}tc": Break.CELL,
}


def read_docx(stream: ByteStream) -> Iterator[Content]:
    """The document, dated by its properties: the day it was last modified, else created."""
    data = stream.read_whole(MOST_BYTES)
    from docx import Document

    with damage_is_unreadable():
        _require_harmless(data)
        document = Document(io.BytesIO(data))
        text, date = lay_out(_pieces(document)), _date(document)
    yield Content(text, data, date)


def _require_harmless(data: bytes) -> None:
    """Refuse an archive that declares more than it should or holds more than it declares.

    python-docx takes parts whole, as large as they turn out to be; here they are unpacked block by block, each ending
    with an error as soon as it differs from what was declared.
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


def _pieces(document: "WordDocument") -> Iterator[str | Break]:
    # Not `document.paragraphs`: these leave out what content controls, text boxes and tracked insertions hold.
    from lxml import etree

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
            yield Break.PARAGRAPH


def _is_first_in_cell(paragraph: "etree._Element") -> bool:
    parent, previous = paragraph.getparent(), paragraph.getprevious()
    return parent is not None and parent.tag == f"{_WORD}tc" and (previous is None or previous.tag == f"{_WORD}tcPr")


def _date(document: "WordDocument") -> str | None:
    from docx.opc.constants import RELATIONSHIP_TYPE

    package = document.part.package
    # Asked for properties it does not have, python-docx makes some, dated now.
    if not any(link.reltype == RELATIONSHIP_TYPE.CORE_PROPERTIES for link in package.rels.values()):
        return None
    properties = document.core_properties
    return day_of_moment(properties.modified or properties.created)
