"""Rows of JSON Lines and CSV: a document each."""

import csv
import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mbc_engine.text import Document, Part, Skipped, read_document, read_file, reader, reread_file
from mbc_engine.text import decoding as encoding
from mbc_engine.text import formats as csv_format

Read = Callable[[str, bytes | str], list[Document | Skipped]]


def rows(items: list[Document | Skipped]) -> list[tuple[str, str]]:
    """The part and text of each document; where one was skipped, its number and the reason."""
    return [
        (item.part, item.text) if isinstance(item, Document) else (item.source.partition("#")[2], item.reason)
        for item in items
    ]


def test_fields_of_an_object(read: Read) -> None:
    (item,) = read(
        "a.jsonl", '{"id": "n-1", "date": "26-FEB-1987 15:01:01.79", "title": "Cocoa", "text": "It rained.", "x": [1]}'
    )
    assert isinstance(item, Document)
    assert (item.part, item.text, item.date) == ("n-1", "Cocoa\n\nIt rained.", "1987-02-26")
    assert item.size == len("1987-02-26\0Cocoa\n\nIt rained.")


def test_text_fields_and_title(read: Read) -> None:
    lines = (
        '{"content": "a"}\n{"text": " ", "body": "b"}\n{"title": "See", "text": "See here"}\n{"text": "t", "body": "b"}'
    )
    assert rows(read("a.jsonl", lines)) == [("row 1", "a"), ("row 2", "b"), ("row 3", "See here"), ("row 4", "t")]


def test_bad_rows(read: Read) -> None:
    lines = '[1]\n\n{"text": "good"}\n{"text": 5}\n{"id": 1}\nnonsense\n' + "[" * 100_000 + "\n" + "9" * 5000
    assert rows(read("a.ndjson", lines)) == [
        ("1", "is not a JSON object"),
        ("row 3", "good"),
        ("4", "has no text"),
        ("5", "has no text"),
        ("6", "is not JSON"),
        ("7", "is not JSON"),
        ("8", "is not JSON"),
    ]
    assert rows(read("b.jsonl", " \n\n")) == [("", "is empty")]


@pytest.mark.parametrize(
    ("identifier", "part"),
    [
        ('"x/1"', "x/1"),
        ("17", "17"),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("null", "row 1"),
        ("true", "row 1"),
        ("1.5", "row 1"),
        ('""', "row 1"),
        ('"row 9"', "row 1"),
        ('"a\\u0000"', "row 1"),
        ('"\\ud800"', "row 1"),
        (f'"{"x" * 200}"', "x" * 200),
        (f'"{"x" * 201}"', "row 1"),
    ],
)
def test_row_names(read: Read, identifier: str, part: str) -> None:
    assert rows(read("a.jsonl", f'{{"id": {identifier}, "text": "t"}}')) == [(part, "t")]


def test_same_row_in_json_and_csv(read: Read) -> None:
    (row,) = read("a.jsonl", '{"title": "T", "text": "a, b", "date": "2024-05-01T10:00:00Z", "id": 1}')
    (cells,) = read("a.csv", 'Text,Date,title\n"a, b",2024-05-01,T\n')
    assert isinstance(row, Document)
    assert isinstance(cells, Document)
    assert row.digest == cells.digest


def test_unstorable_text(read: Read) -> None:
    assert rows(read("a.jsonl", '{"text": "a\\u0000b \\ud800 \\ud83d\\ude00"}')) == [
        ("row 1", "a\ufffdb \ufffd \U0001f600")
    ]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators(read: Read, separator: str) -> None:
    table = 'ID;TEXT;When\n1;"a; b, c\td\nnext ""line""";x\n\n2;e;\n'
    assert rows(read("a.csv", table.replace(";", separator))) == [
        ("1", 'a; b, c\td\nnext "line"'.replace(";", separator)),
        ("2", "e"),
    ]


def test_bad_cells(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_format, "LINE_CHARACTERS", 10)
    limit = csv.field_size_limit(10)
    try:
        items = read("a.csv", "text,id\ngood,1\na,b,c\n,2\n" + "x" * 11 + ",3\nshort\nok,4,,\n")
    finally:
        csv.field_size_limit(limit)
    assert rows(items) == [
        ("1", "good"),
        ("2", "has more cells than the header"),
        ("3", "has no text"),
        ("4", "is broken: field larger than field limit (10)"),
        ("row 5", "short"),
        ("4", "ok"),
    ]


def test_empty_tables(reason: Callable[[str, str], str]) -> None:
    assert reason("a.csv", '"a\n') == "is empty"
    assert reason("a.csv", "\n") == reason("a.tsv", "text\n") == "is empty"


def test_two_text_columns(reason: Callable[[str, str], str]) -> None:
    assert reason("a.csv", "text,Text\nfirst,second\n") == "has two columns named text"


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "cp1251"])
def test_encodings(read: Read, codec: str) -> None:
    russian = "Съешь же ещё этих мягких французских булок"
    assert rows(read("a.csv", f"text\tid\r\n{russian}\t1\r\n".encode(codec))) == [("1", russian)]
    if codec != "cp1251":
        assert rows(read("a.jsonl", f'{{"text": "{russian}"}}\r\n'.encode(codec))) == [("row 1", russian)]


def test_too_long_lines(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "LINE_CHARACTERS", 20)
    items = read("a.jsonl", '{"text": "first"}\n{"text": "' + "x" * 100 + '"}\n{"text": "third"}')
    assert rows(items) == [("row 1", "first"), ("2", "is longer than 16 MB"), ("row 3", "third")]
    assert rows(read("a.csv", "text\nfirst\n" + "x" * 30)) == [("row 1", "first"), ("", "has a line longer than 16 MB")]


def test_table_without_text_column(read: Read) -> None:
    table = 'Id,Product,Note,\n7,"Tent, red",  ,x\n8,,"two\nlines",\n,,,\n9,Stove\n'
    assert rows(read("a.csv", table)) == [
        ("7", "Id: 7\nProduct: Tent, red\nx"),
        ("8", "Id: 8\nNote: two\nlines"),
        ("9", "Id: 9\nProduct: Stove"),
    ]


def test_separator_without_text_column(read: Read) -> None:
    (item,) = read("a.tsv", "Name, full\tDate\nAda, L.\t2024-05-01\n")
    assert isinstance(item, Document)
    assert (item.text, item.date, item.part) == ("Name, full: Ada, L.\nDate: 2024-05-01", "2024-05-01", "row 1")


TABLE = "id,text,Review,title\na,short,It leaks.,Tent\nb,only,,Stove\nb,,It burns.,\n"


def test_named_text_column(write: Callable[[str, str], Path]) -> None:
    assert rows(list(read_file(write("a.csv", TABLE), "Review"))) == [
        ("a", "Tent\n\nIt leaks."),
        ("2", "has no text"),
        ("row 3", "It burns."),
    ]
    lines = '{"text": "a"}\n{"review": "b"}\n{"review": 5}\n{"Review": "c", "review": "d"}'
    path = write("a.jsonl", lines)
    assert rows(list(read_file(path, "review"))) == [
        ("1", "has no text"),
        ("row 2", "b"),
        ("3", "has no text"),
        ("row 4", "d"),
    ]
    assert rows(list(read_file(path, "Review")))[1:] == [("row 2", "b"), ("3", "has no text"), ("row 4", "c")]


@pytest.mark.parametrize(
    ("name", "data", "columns"),
    [
        ("a.csv", "Id,Name\n1,Ada\n2,Bruno\n", "id, name"),
        ("a.jsonl", '{"q": 1, "a\\u0007": 2}\n{"c": "d"}', "q, a?"),
        ("b.csv", f"{'x' * 300},y\n1,2\n", f"{'x' * 200}…"),
    ],
)
def test_unknown_column(write: Callable[[str, str], Path], name: str, data: str, columns: str) -> None:
    path = write(name, data)
    reason = f"has no column named 'review'; its columns are {columns}"
    assert list(read_file(path, "review")) == [Skipped(str(path.resolve()), reason)]


def test_unknown_column_ends_reading(write: Callable[[str, str], Path]) -> None:
    path = write("a.csv", "id,text\n1,Ada\n2,Bruno\n3," + "x" * 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "LINE_CHARACTERS", 20)
        (skipped,) = read_file(path, "review")
    assert isinstance(skipped, Skipped)
    assert skipped.reason == "has no column named 'review'; its columns are id, text"


def test_short_rows(write: Callable[[str, str], Path]) -> None:
    path = write("a.csv", "text,review\nshort\nwhole,It leaks.\n")
    assert rows(list(read_file(path, "review"))) == [("1", "has no text"), ("row 2", "It leaks.")]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
@pytest.mark.parametrize("column", [None, "review", "title"])
def test_reread_rows(write: Callable[[str, str], Path], name: str, column: str | None) -> None:
    objects = '{"id": "a", "text": "t", "review": "r", "title": "T", "x": 1}\n{"id": "b", "review": "s", "title": "U"}'
    path = write(name, TABLE if name == "a.csv" else objects)
    read = [item for item in read_file(path, column) if isinstance(item, Document)]
    assert read
    for item in read:
        assert read_document(item.source, item.part, item.digest[:16]) == item
    names = [part.name for part in reread_file(path) if isinstance(part, Part)]
    assert set(names) >= {item.part for item in read}


def test_reread_changed_row(write: Callable[[str, str], Path]) -> None:
    path = write("a.csv", TABLE)
    assert read_document(str(path), "a", "0" * 64).text == "Tent\n\nshort"


def test_other_rows_are_not_hashed(write: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []

    def sha256(data: bytes) -> Any:
        hashed.append(data)
        return hashlib.sha256(data)

    monkeypatch.setattr(reader, "hashlib", SimpleNamespace(sha256=sha256))
    path = write("a.csv", "text,review\n" + "".join(f"text {number},review {number}\n" for number in range(100)))
    assert read_document(str(path), "row 100", "0" * 64).text == "text 99"
    assert hashed == [b"row\0None\0text 99", b"row\0None\0review 99"]
