"""Whatever state a file is in, reading it gives documents or says why not."""

import gzip
import io
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from docx import Document as WordDocument
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, NameObject

from mbc_engine.documents import Document, Skipped, read_file


def docx() -> bytes:
    document = WordDocument()
    document.add_paragraph("A paragraph.")
    document.add_table(2, 2).cell(0, 0).text = "cell"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def pdf() -> bytes:
    writer = PdfWriter()
    for line in ("First", "Second"):
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode())
        page = writer.add_blank_page(600, 800)
        page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())
    writer.add_metadata({"/CreationDate": "D:20240501"})
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


HTML = (
    '<?xml version="1.0"?><!DOCTYPE html><html><head><meta charset="utf-8"><title>T</title><meta name="date" '
    'content="2024-05-01"></head><body><!-- c --><p class="x">caf&eacute; é<br>b</p><table><tr><td>c</table></body>'
).encode()
ROWS = b'{"id": "a", "title": "T", "text": "caf\\u00e9", "date": "2024-05-01"}\n' * 5


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, a stretch lost, doubled or zeroed."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        position = chance.randrange(len(changed))
        changed[position] = chance.randrange(256)
    start = chance.randrange(len(changed))
    stretch = slice(start, start + chance.randrange(1, 200))
    replacement = chance.choice((changed[stretch], changed[stretch] * 2, b"", b"\0" * 50))
    changed[stretch] = replacement
    return bytes(changed)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("name", "data", "times"),
    [
        ("a.pdf", pdf(), 250),
        ("a.docx", docx(), 60),
        ("a.html", HTML, 250),
        ("a.jsonl.xz", lzma.compress(ROWS), 250),
        ("a.txt.gz", gzip.compress(HTML, mtime=0), 250),
        ("a.jsonl", ROWS, 250),
        ("a.csv", b"id,title,text\n" + b'1,"a ""b""","c\nd"\n' * 5, 250),
        ("a.txt", "Zoë\r\nжж".encode("utf-16"), 250),
    ],
)
def test_no_damage_raises(write: Callable[[str, bytes], Path], name: str, data: bytes, times: int) -> None:
    chance = random.Random(0)
    for _ in range(times):
        for item in read_file(write(name, mutated(data, chance))):
            assert isinstance(item, Document | Skipped)
            text = item.text + item.part if isinstance(item, Document) else item.reason
            assert "\0" not in text
            text.encode()
