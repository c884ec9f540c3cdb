"""Long texts come in pieces that, put together again, are the whole text."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import Origin
from mbc_engine.sources import Files
from mbc_engine.text import Document, Part, Skipped, read_file, read_parts, read_stream
from mbc_engine.text import decoding as pieces
from mbc_engine.text.decoding import ByteStream
from mbc_engine.text.file_reader import is_changed
from mbc_engine.text.formats import SUFFIXES
from tests.text.conftest import named_texts


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 16)


def read_again(path, part):
    parts = (item for item in read_parts(path) if isinstance(item, Part) and item.may_hold(part))
    return next(filter(None, (item.find(part) for item in parts)))


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sixteen letters.", [("", "sixteen letters.")]),
        ("a line of text\nanother line\n", [("1", "a line of text\n"), ("2", "another line\n")]),
        ("words on a single line", [("1", "words on a "), ("2", "single line")]),
        ("x" * 20, [("1", "x" * 16), ("2", "xxxx")]),
        ("я" * 9 + "é", [("1", "я" * 8), ("2", "яé")]),
        ("a" + "я" * 9, [("1", "a" + "я" * 7), ("2", "яя")]),
        ("x" * 15 + "\r\n.", [("1", "x" * 15), ("2", "\n.")]),
        ("text\n" + " " * 30, [("1", "text\n           ")]),
    ],
)
def test_cuts(read, text, parts):
    assert named_texts(read("a.txt", text)) == parts


@given(
    text=st.text(st.sampled_from("aя \n\r") | st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")),
    encoding=st.sampled_from(["utf-8-sig", "utf-16", "utf-32"]),
    size=st.integers(8, 40),
)
def test_pieces_make_the_whole(text, encoding, size):
    data = text.encode(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", size)
        cut = list(pieces.pieces(ByteStream(io.BytesIO(data).read)))
    assert "".join(piece.text for piece in cut) == text.replace("\r\n", "\n").replace("\r", "\n")
    assert sum(piece.size or 0 for piece in cut) == len(data)
    assert all((piece.size or 0) <= size for piece in cut)


@pytest.mark.usefixtures("small_pieces")
def test_changed_line_changes_one_piece(write):
    before = list(read_file(write("a.txt", "first line....\nsecond line...\nthird")))
    after = list(read_file(write("a.txt.gz", gzip.compress(b"first line....\nsecond LINE...\nthird"))))
    same = [one.digest == other.digest for one, other in zip(before, after, strict=True)]
    assert same == [True, False, True]
    assert read_again(write("a.txt", "first line....\nsecond line...\nthird"), "2") == before[1]


def test_front_matter_date(read, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 32)
    items = read("a.md", "---\ndate: 2024-05-01\n---\nSome\n" + "Some more text to be cut\n" * 2)
    texts = ["date: 2024-05-01\n\nSome\n", "Some more text to be cut\n", "Some more text to be cut"]
    assert named_texts(items) == [*zip("123", texts, strict=True)]
    assert [[place.line for place in item.places] for item in items] == [[2], [5], [6]]
    assert {item.date for item in items} == {"2024-05-01"}


@pytest.mark.usefixtures("small_pieces")
def test_long_stream():
    first, second, skipped = read_stream(io.BytesIO(b"a line of text\nanother line...\n" + b"\0" * 16))
    assert first.source == second.source == f"stdin:{first.digest[:12]}"
    assert skipped == Skipped(first.source, "looks binary")


@given(text=st.text(st.sampled_from("aя日 \n") | st.characters(exclude_categories=["Cs"])), size=st.integers(8, 40))
def test_text_pieces(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", size)
        cut = list(pieces.text_pieces(text))
    assert "".join(cut) == text
    assert all(len(piece.encode()) <= size for piece in cut)


@pytest.mark.usefixtures("small_pieces")
def test_long_page(write):
    page = "<p>a line of text<p>another line<meta name=date content=2024-05-01>"
    path = write("a.html", page)
    items = list(read_file(path))
    assert named_texts(items) == [("1", "a line of text\n\n"), ("2", "another line")]
    first, second = items
    assert (first.size, second.size, first.date) == (16, 12, "2024-05-01")
    assert first.position < second.position == path.stat().st_size
    path.write_text(page.replace("another line", "another LINE"))
    assert read_again(path, "1").digest == first.digest
    assert read_again(path, "2").digest != second.digest
    path.write_text(page.replace("05-01", "05-02"))
    assert read_again(path, "1").digest != first.digest


@pytest.mark.usefixtures("small_pieces")
def test_long_rows(read):
    ada, other = {"id": "ada", "text": "a line of text\nanother line"}, {"text": "a line of text\nanother row"}
    rows = [ada, other, {"id": "ada, part 2", "text": "short"}]
    assert named_texts(read("a.jsonl", "\n".join(map(json.dumps, rows)))) == [
        ("ada, part 1", "a line of text\n"),
        ("ada, part 2", "another line"),
        ("row 2, part 1", "a line of text\n"),
        ("row 2, part 2", "another row"),
        ("row 3", "short"),
    ]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("column", [None, "review"])
def test_reread_pieces(write, column):
    rows = [
        {"id": name, "text": f"a line of {name}..\nanother line\nthird", "review": f"no line of {name}.\nelse"}
        for name in ("ada", "bea")
    ]
    documents = list(read_file(write("a.jsonl", "\n".join(map(json.dumps, rows))), column))
    page = list(read_file(write("a.html", "<p>a line of text<p>another line")))
    assert len(documents) > len(page) > 1
    files = Files()
    for own in [*documents, *reversed(documents), *page, *reversed(page)]:
        state, document = files.look(Origin(own.source, own.part, own.date), own.digest)
        assert (state, document) == ("unchanged", own)
    for source, part in ((documents[0].source, "ada, part 9"), (page[0].source, "9")):
        assert files.look(Origin(source, part, None), "0")[0] == "gone"
    hurried, (first, *_, last) = Files(most_seconds=-1), documents
    assert hurried.look(Origin(last.source, last.part, None), last.digest) == ("unknown", None)
    assert hurried.look(Origin(first.source, first.part, None), first.digest) == ("unchanged", first)


def test_parts_in_order_need_one_pass_also_after_a_later_one(write, monkeypatch):
    documents = list(read_file(write("a.jsonl", '{"text": "one"}\n{"text": "two"}\n{"text": "three"}')))
    passes = []

    def counted(path):
        passes.append(path)
        yield from read_parts(path)

    monkeypatch.setattr("mbc_engine.sources.read_parts", counted)
    files = Files()
    for own in [*documents, *documents]:
        assert files.look(Origin(own.source, own.part, None), own.digest) == ("unchanged", own)
    assert len(passes) == 2


@pytest.mark.usefixtures("small_pieces")
def test_encoding_is_part_of_the_digest(read):
    """The same bytes mean something else after other bytes."""
    japanese = "日本".encode("utf-16-le")
    russian = "Привет, друзья\n".encode("utf-16") + japanese
    first, second, plain = (read("a.txt", data)[-1] for data in (russian, russian, b"an ASCII text..\n" + japanese))
    assert first.digest == second.digest != plain.digest


def test_encoding_detection_looks_ahead(read, monkeypatch):
    """Three letters alone are taken for Western ones."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 32)
    text = "This is said of her in Russian: да\n" + "Она переехала в другой город весной и живёт там до сих пор.\n" * 20
    assert "".join(text for _, text in named_texts(read("a.txt", text.encode("cp1251")))) == text


def test_positions(write):
    data = b"".join(b"Line %06d of this file\n" % number for number in range(40_000))
    path = write("a.txt", data)
    ends = [item.position for item in read_file(path) if isinstance(item, Document)]
    assert ends[-1] == len(data)
    assert all(0 < end - start <= 1 << 15 for start, end in zip([0, *ends], ends, strict=False))


def test_inaccessible_file_is_not_gone(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("A boat.")
    refused = Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.setattr("os.open", refused)
    assert Files().look(Origin(str(tmp_path / "a.txt"), "", None), "0") == ("unreadable", None)


def test_a_pdf_that_has_changed_is_not_parsed_to_answer(tmp_path, monkeypatch):
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF-1.4 one")
    monkeypatch.setattr("mbc_engine.sources.read_parts", None)
    assert Files().look(Origin(str(path), "", None), "0") == ("changed", None)
    assert not is_changed(path, hashlib.sha256(f"{SUFFIXES['.pdf'].identity}\0%PDF-1.4 one".encode()).hexdigest()[:32])
    assert not is_changed(tmp_path / "gone.pdf", "0")
