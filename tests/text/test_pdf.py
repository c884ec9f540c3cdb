"""PDF: text of pages, dates, and the ways in which one can be unreadable."""

import io
from collections.abc import Callable

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from mbc_engine.text import Document, Skipped

ReadOne = Callable[[str, bytes], Document]


def pdf(*pages: list[str], metadata: dict[str, str] | None = None, password: str | None = None) -> bytes:
    """A document whose pages hold these lines."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject(f"/{key}"): NameObject(f"/{value}")
            for key, value in {"Type": "Font", "Subtype": "Type1", "BaseFont": "Helvetica"}.items()
        }
    )
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        written = " T* ".join(f"({line}) Tj" for line in lines)
        stream.set_data(f"BT /F1 12 Tf 14 TL 72 720 Td {written} ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata(metadata or {})
    if password is not None:
        writer.encrypt(password, "owner", algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_pages(read_one: ReadOne) -> None:
    document = read_one("a.pdf", pdf(["First page."], [], ["Second page."]))
    assert document.text == "First page.\n\nSecond page."


def test_line_breaks(read_one: ReadOne) -> None:
    lines = [
        "A heading",
        "The committee met on Monday in New",
        "York and looked at the many docu-",
        "ments. It was over at six.",
        "Short line",
        "A-",
        "Z",
    ]
    assert read_one("a.pdf", pdf(lines)).text == (
        "A heading\nThe committee met on Monday in New York and looked at the many documents. It was over at six. "
        "Short line\nA-\nZ"
    )


@pytest.mark.parametrize(("written", "day"), [("D:20240501003000+02'00'", "2024-04-30"), ("D:20240501", "2024-05-01")])
def test_date(read_one: ReadOne, written: str, day: str) -> None:
    assert read_one("a.pdf", pdf(["text"], metadata={"/CreationDate": written})).date == day


def test_bad_date(read_one: ReadOne) -> None:
    document = read_one("a.pdf", pdf(["text"], metadata={"/CreationDate": "D:yesterday"}))
    assert document.date == read_one("a.txt", b"text").date


def test_passwords(read_one: ReadOne, reason: Callable[[str, bytes], str]) -> None:
    assert read_one("a.pdf", pdf(["open"], password="")).text == "open"
    assert reason("a.pdf", pdf(["closed"], password="secret")) == "is password-protected"


def test_unreadable_files(reason: Callable[[str, bytes], str], capfd: pytest.CaptureFixture[str]) -> None:
    assert reason("a.pdf", pdf([], [])) == "has no text; it may be a scan"
    assert reason("a.pdf", b"") == "is empty"
    assert reason("a.pdf", pdf(["text"])[:200]).startswith("is damaged: ")
    assert capfd.readouterr() == ("", "")


def test_damaged_page(read: Callable[[str, bytes], list[Document | Skipped]]) -> None:
    good = pdf(["First."], ["Second."])
    document, skipped = read("a.pdf", good.replace(b"(First.) Tj", b"<<<<<<<< Tj"))
    assert isinstance(document, Document)
    assert document.text == "Second."
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "is damaged: 1 of 2 pages cannot be read"
