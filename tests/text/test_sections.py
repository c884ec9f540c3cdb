"""What a document's chunks must know of it goes with each piece of a long text."""

import pytest

from mbc_engine.text.document import Section, TextBuilder
from mbc_engine.text.tables import table_lines


@pytest.mark.parametrize(
    ("rows", "num_headers", "lines"),
    [
        ([["a", "b"], ["1", "2\n3"], ["", ""], ["", "4"]], None, ["a: 1; b: 2, 3", "b: 4"]),
        ([["Tap", "drips.\nLeaks\nalways"], ["Door", "- A\n- B"]], 0, ["Tap: drips. Leaks always", "Door: A, B"]),
        # Below a title over all columns.
        ([["Stock"] * 3, ["Pump", "Bar", "At"], ["Idun", "5", "in\nuse"]], None, ["Stock", "Pump: Idun; Bar: 5; At: in use"]),
        ([["a", "a"]] * 2000, None, ["a"] * 2000),
        ([["Light"] * 2, ["Built", "1868"], ["Height", "31 m"]], 1, ["Light", "Built: 1868", "Height: 31 m"]),
        ([["Staff"] * 3, ["Anna", "Cook", "Oslo"], ["Ben", "Driver", "Rome"]], 1, ["Staff", "Anna; Cook; Oslo", "Ben; Driver; Rome"]),
        ([["Staff"] * 3, ["Name", "Job", "At"], ["Ben", "Driver", "Rome"]], 2, ["Staff", "Name: Ben; Job: Driver; At: Rome"]),
        # Two columns: with names, or a form.
        ([["Country", "Capital"], ["Italy", "Rome"]], None, ["Country: Italy; Capital: Rome"]),
        ([["Name", "Date"], ["Fair", "2024-05-01"], ["Show", "open"]], None, ["Name: Fair; Date: 2024-05-01", "Name: Show; Date: open"]),
        ([["Property", "Value"], ["Model", "Hydra 9"]], None, ["Model: Hydra 9"]),
        ([["Head", "Kai"], ["At", "Oslo"], ["Born", "2001-05-02"], ["Pay", "41 EUR"]], None, ["Head: Kai", "At: Oslo", "Born: 2001-05-02", "Pay: 41 EUR"]),
        ([["Name:", "Ann"], ["Born:", "1954"]], None, ["Name: Ann", "Born: 1954"]),
        ([["Name:", "Ann", "Born:", "1954"], ["At:", "a\nB", "a\nB", ""]], None, ["Name: Ann", "Born: 1954", "At: a, B"]),
        ([["", "Q1", "Q1"], ["", "in", "out"], ["Oslo", "1", "2"]], 2, ["Oslo; Q1 in: 1; Q1 out: 2"]),
        ([["a", "b"], ["North", "North"], ["1", "1"]], None, ["North", "a: 1; b: 1"]),
        ([["a", "b", "c"], ["x", "1", "1"]], None, ["a: x; b: 1; c: 1"]),
        ([["a", "b", "c"]], None, ["a; b; c"]),
        ([["", "8.1.", "15.1."], ["Anna", "x", "ill"]], None, ["Anna; 8.1.: x; 15.1.: ill"]),
        ([["Bo", "8.1.2024", "9.1.2024"], ["Cy", "8.2.2024", "9.2.2024"]], None,
         ["Bo; 8.1.2024; 9.1.2024", "Cy; 8.2.2024; 9.2.2024"]),
        ([["one"], ["two"]], None, ["one", "two"]),
        ([], None, []),
        # Without a header, or with one of two rows.
        ([["Kitchen", "Sol", "4377"], ["Hall", "Jon", "42"]], None, ["Kitchen; Sol; 4377", "Hall; Jon; 42"]),
        ([["Tern", "four", "1998"], ["Gull", "one", "2011"]], None, ["Tern; four; 1998", "Gull; one; 2011"]),
        ([["Line", "Days", "Days"], ["Line", "first", "last"], ["Rauma", "6:10", "19:45"]], None,
         ["Line: Rauma; Days first: 6:10; Days last: 19:45"]),
        ([["Name", "", "Role"], ["Ola", "x", "Chef"], ["Per", "y", "Mate"]], None,
         ["Name: Ola; x; Role: Chef", "Name: Per; y; Role: Mate"]),
    ],
)  # fmt: skip
def test_table_lines(rows, num_headers, lines):
    assert table_lines(rows, num_headers) == lines


def test_text_builder():
    builder = TextBuilder()
    builder.add("before")
    for level, heading in ((1, "One"), (2, "Deep"), (2, "Deeper")):
        builder.heading(level, heading)
        builder.add("text")
    builder.begin("Table 1")
    builder.add("a: 1")
    builder.begin()
    builder.heading(1, "Two", is_shown=False)
    builder.add("end")
    content = builder.content(b"")
    assert content.text == "before\n\nOne\n\ntext\n\nDeep\n\ntext\n\nDeeper\n\ntext\n\na: 1\n\nend"
    assert [(content.text[start:].split("\n")[0], context) for start, context in content.sections] == [
        ("One", "One"),
        ("Deep", "One > Deep"),
        ("Deeper", "One > Deeper"),
        ("a: 1", "One > Deeper > Table 1"),
        ("end", "Two"),
    ]


def test_sections_of_an_included_text_begin_where_they_do_in_it():
    builder = TextBuilder()
    builder.heading(1, "Book")
    builder.include("a\n\nOne\n\nTwo", [Section(3, "One"), Section(8, "Two")])
    builder.add("end")
    content = builder.content(b"")
    assert [(content.text[start:].split("\n")[0], context) for start, context in content.sections] == [
        ("Book", "Book"),
        ("One", "Book > One"),
        ("Two", "Book > Two"),
    ]
