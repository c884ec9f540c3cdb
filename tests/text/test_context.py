"""What a chunk knows of its document: names, dates in them, title and headings."""

import pytest

from mbc_engine.text import Chunk, chunk
from mbc_engine.text.chunks import with_captions
from mbc_engine.text.context import context_parts, context_words, encoded_parts, shortened, spelled_out
from mbc_engine.text.document import Section, day_in_name
from tests.text.conftest import words


@pytest.mark.parametrize(
    ("name", "day", "spelled"),
    [
        ("2024-03-12 standup", "2024-03-12", "12 March 2024 standup"),
        ("standup_20240312", "2024-03-12", "standup 12 March 2024"),
        ("report_2024-03", "2024-03-01", "report March 2024"),
        ("12.3.2024", "2024-03-12", "12 March 2024"),
        ("120240312", None, "120240312"),
        ("Minutes committee 18 Jan 2024", "2024-01-18", "Minutes committee 18 January 2024"),
        ("notes_9may24 rough", "2024-05-09", "notes 9 May 2024 rough"),
        ("Sept. 1st, 2023 report", "2023-09-01", "1 September 2023 report"),
        ("newsletter March 2024", "2024-03-01", "newsletter March 2024"),
        ("itinerary v1 (May)", None, "itinerary v1 (May)"),
        ("dismay 2024", None, "dismay 2024"),
        ("12 \u017fep 2024", None, "12 \u017fep 2024"),
        ("9f1dec07ab", None, "9f1dec07ab"),
        ("Meeting 12 March 14.30", None, "Meeting 12 March 14.30"),
        ("Section 5 mar 20b", None, "Section 5 mar 20b"),
        ("2024-13-40", None, "2024 13 40"),
        ("budget-2019", None, "budget 2019"),
        ("OrionBudget_v2", None, "Orion Budget v2"),
    ],
)
def test_names_are_spelled_out(name, day, spelled):
    assert day_in_name(name) == day
    assert spelled_out(name) == spelled


def test_parts_are_not_repeated():
    assert context_parts("/home/ann/lynx/read-me.md", "", "") == ["lynx", "read me"]
    parts = ["p", "Orion Report", "Budget"]
    assert context_parts("/p/orion-report.md", "Orion report", "Orion Report > Budget") == parts
    assert context_parts("stdin:1234", "A title", "") == ["A title"]
    assert {"home", "ann", "March", "Lynx", "Log"} <= {*context_words("/home/ann/2024-03-12_Lynx.md", "Log").split()}


@pytest.mark.parametrize(
    ("source", "headings", "parts"),
    [
        ("/home/ann/lynx/read-me.md", "", ["read me"]),
        ("/home/ann/lynx/2024-03-12.md", "", []),
        ("/home/ann/lynx/story 17.txt", "", []),
        ("/home/ann/lynx/0017.txt", "", ["lynx"]),
        ("/home/ann/lynx/0017.txt", "2.1 Budget > 3", ["Budget"]),
        ("/home/0017.txt", "", ["home"]),
        ("/0017.txt", "12", []),
        ("stdin:1234", "", []),
    ],
)
def test_numbers_and_most_folders_are_not_encoded(source, headings, parts):
    assert encoded_parts(source, "", headings) == parts


def test_what_does_not_fit_is_left_out_from_the_general_to_the_specific():
    parts = ["folder", "name", "Part", "Chapter", "Section of three"]
    for most, left in [
        (7, "folder > name > Part > Chapter > Section of three"),
        (6, "name > Part > Chapter > Section of three"),
        (4, "name > Section of three"),
        *((3, "Section of three"), (2, "Section of"), (0, "")),
    ]:
        assert shortened(parts, lambda line, most=most: len(line.replace(">", "").split()) <= most) == left


def test_all_rows_know_the_line_above_their_table():
    rows = "Town: Vik; Boats: 3\nTown: Moss; Boats: 5\n"
    text = f"Report\n\nBoats:\n\n{rows}\nAs of May\n{rows}"
    start = text.index("Town")
    captioned = [(0, "Report"), (start, "Report > Boats"), (start + len(rows), "Report")]
    last = (text.rindex("Town: Vik"), "Report > As of May")
    assert with_captions(text, [Section(0, "Report")]) == [*captioned, last]
    assert with_captions(f"Boats\n{rows}", [Section(0, "Boats")]) == [(0, "Boats")]
    assert with_captions(f"It is so.\n{rows}", []) == with_captions(rows, []) == []
    assert with_captions(f"Boats\n{'a: b; ' * 9999}\na: {'b; ' * 99999}", []) == []  # in linear time


def test_sections_begin_chunks_unless_the_last_one_is_tiny():
    text = "Intro here.\n\nOrion\nIts budget is 1.\n\nVega\nIts budget is 2."
    starts = [text.index("Orion"), text.index("Vega")]
    sections = [Section(starts[0], "Projects > Orion"), Section(starts[1], "Projects > Vega")]
    assert chunk(text, words, 16, sections) == [
        Chunk("Intro here.", 0),
        Chunk("Orion\nIts budget is 1.", starts[0], "Projects > Orion"),
        Chunk("Vega\nIts budget is 2.", starts[1], "Projects > Vega"),
    ]
    assert chunk(text, words, 80, sections) == [Chunk(text, 0)]


def test_headings_that_a_chunk_does_not_show_are_named():
    text = "Name a, aged 1.\n\nName b, aged 2."
    sections = [Section(0, "People > First"), Section(text.rindex("Name"), "People > Second")]
    assert chunk(text, words, 99, sections) == [Chunk(text, 0, "People > First; Second")]


@pytest.mark.parametrize("gap", ["   ", "\t", "; "])
def test_rows_know_the_names_of_their_columns(gap):
    rows = [gap.join(row) for row in (("Boat", "Length", "Berth"), ("Vik", "7 m", "3"), ("Moss", "9 m", "12"))]
    (table,) = with_captions("Boats of the club\n\n" + "\n".join(rows), [])
    assert table == Section(19, "Boats of the club > Boat; Length; Berth")
    assert with_captions("\n".join(rows[1:]), []) == []
