"""The table of many rows: its contents, its cursor and its marks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mbc_cli.tui.widgets.table import Column, RowTable, shorten
from tests.cli.tui.conftest import HARMLESS, HOSTILE
from tests.cli.tui.widgets.conftest import WidgetApp, lines


def table():
    return RowTable((Column("name"), Column("n", 3, is_number=True)), can_mark=True)


def rows(names):
    return [(name, (name, "7")) for name in names]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("notes.txt", 9, "notes.txt"),
        ("/home/ada/notes.txt", 10, "/ho…es.txt"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("日本語日本語", 7, "日…本語"),
    ],
)
def test_shorten(text, width, short):
    assert shorten(text, width) == short


@given(st.text("ab日́", max_size=40), st.integers(0, 30))
def test_shorten_keeps_both_ends(text, width):
    short = shorten(text, width)
    assert cell_len(short) <= width
    if short != text and width > 1:
        assert any(text.startswith(short[:cut]) and text.endswith(short[cut + 1 :]) for cut in range(len(short)))


async def test_columns_and_empty_message():
    app = WidgetApp(table())
    async with app.run_test(size=(24, 6)):
        widget = app.query_one(RowTable)
        widget.empty = f"{HOSTILE} is damaged.\nRun this."
        assert lines(widget)[1:4] == [f"   {HARMLESS} i", "   Run this.", ""]
        widget.show([(1, (HOSTILE, "12"))])
        assert lines(widget)[:3] == ["   name                n", "▸  [red]␛…m<U+202E>b  12", ""]


async def test_cursor_moves_and_stays_on_its_row_as_marks_do():
    app = WidgetApp(table())
    async with app.run_test(size=(24, 6)) as pilot:
        widget = app.query_one(RowTable)
        widget.show(rows("abcdefgh"))
        await pilot.press("down", "space", "down", "space")
        assert (widget.key, widget.marked) == ("e", {"b", "d"})
        widget.show(rows("xyabcefgh"))
        assert (widget.key, widget.marked) == ("e", {"b"})
        await pilot.press("space", "left", "up")
        assert any(line.startswith("▸● e") for line in lines(widget))
        await pilot.press("space", "right", "up")
        assert (widget.key, widget.marked) == ("e", {"b"})
        widget.show(rows("xyabcfgh"))
        assert widget.key == "f"  # the row that took its place
        widget.show(rows("x"))
        assert widget.key == "x"
        widget.show([])
        assert (widget.key, widget.marked) == (None, set())
        await pilot.press("down", "space", "end", "pagedown")
        assert widget.key is None
        widget.show(rows([f"{number:03}" for number in range(100)]))
        for key, name in [("end", "099"), ("pageup", "095"), ("up", "094"), ("home", "000"), ("pagedown", "004")]:
            await pilot.press(key)
            assert widget.key == name
            assert any(line.startswith("▸") and name in line for line in lines(widget)[1:])
        await pilot.click(RowTable, offset=(5, 2))
        assert lines(widget)[2].startswith("▸")
        await pilot.click(RowTable, offset=(0, 2))
        assert widget.marked == {widget.key}
