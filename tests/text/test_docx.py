"""Word documents: paragraphs and tables in order, dates, damage and bombs."""

import io
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from docx import Document as WordDocument
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from mbc_engine.text import Document

ReadOne = Callable[[str, bytes], Document]
Reason = Callable[[str, bytes], str]


def docx(*blocks: str | list[list[str]], modified: datetime | None = None, body: str = "") -> bytes:
    """A document of paragraphs and tables, and then what `body` says in XML."""
    document = WordDocument()
    for block in blocks:
        if isinstance(block, str):
            document.add_paragraph(block)
            continue
        table = document.add_table(len(block), len(block[0]))
        for row, cells in zip(table.rows, block, strict=True):
            for cell, text in zip(row.cells, cells, strict=True):
                cell.text = text
    if body:
        wrapped = parse_xml(f"<w:body {nsdecls('w')}>{body}</w:body>")
        for element in list(wrapped):
            document.element.body.insert(-1, element)
    if modified:
        document.core_properties.modified = modified
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def repacked(data: bytes, change: Callable[[str, bytes], bytes | None]) -> bytes:
    """The archive with its members changed; None leaves one out."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if (changed := change(name, old.read(name))) is not None:
                new.writestr(name, changed)
    return file.getvalue()


def test_order(read_one: ReadOne) -> None:
    data = docx("Heading", "Some  text.\nNext line.", [["a", "b\nc"], ["d", ""]], "After")
    assert read_one("a.docx", data).text == "Heading\n\nSome text.\nNext line.\n\na\tb\nc\nd\n\nAfter"


def test_where_text_is_read(read_one: ReadOne) -> None:
    body = (
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>"
        "<w:p><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>moved</w:t></w:r></w:moveFrom><w:r><w:tab/><w:t>tab</w:t></w:r>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
    )
    assert read_one("a.docx", docx("start", body=body)).text == "start\n\ncontrol\n\ninserted tab"


def test_date(read_one: ReadOne) -> None:
    data = docx("text", modified=datetime(2024, 5, 1, 12, tzinfo=UTC))
    assert read_one("a.docx", data).date == "2024-05-01"

    def without_properties(name: str, member: bytes) -> bytes | None:
        if name == "docProps/core.xml":
            return None
        return re.sub(rb"<Relationship [^>]*core-properties[^>]*/>", b"", member) if name == "_rels/.rels" else member

    bare = read_one("a.docx", repacked(data, without_properties))
    assert (bare.text, bare.date) == ("text", read_one("a.txt", b"text").date)


def test_unreadable_files(reason: Reason) -> None:
    assert reason("a.docx", docx()) == reason("a.docx", b"") == "is empty"
    assert reason("a.docx", b"PK\3\4 not an archive").startswith("is damaged: ")
    assert reason("a.docx", docx("text")[:-100]).startswith("is damaged: ")


def test_zip_bomb(reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1_234_567  # of which no other field of the archive has the bytes
    bomb = repacked(docx("text"), lambda name, data: b" " * size if name == "word/styles.xml" else data)
    monkeypatch.setattr("mbc_engine.text.formats.documents.MOST_XML_BYTES", 1 << 20)
    assert reason("a.docx", bomb) == "is too large when unpacked"
    liar = bomb.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert reason("a.docx", liar).startswith("is damaged: Bad CRC-32")
