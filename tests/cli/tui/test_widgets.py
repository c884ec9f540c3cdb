"""The dashboard's widgets: each alone on the screen, and what it draws."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

import mbc_cli.tui
from mbc_cli.tui.widgets.answer import bar, passage_text
from mbc_cli.tui.widgets.cells import MAX_STEPS, Column, HeatMap, RowTable, levels, shorten, steps
from mbc_cli.tui.widgets.chart import Chart, PlotCurve, format_number, ticks
from mbc_cli.tui.widgets.inputs import Confirm, Form, existing_path
from tests.cli.stub_memory import source
from tests.cli.tui.conftest import HARMLESS, HOSTILE


class WidgetApp(App[None]):
    """A widget and nothing else, with the dashboard's stylesheet."""

    CSS_PATH = Path(mbc_cli.tui.__file__).parent / "dashboard.tcss"

    def __init__(self, widget):
        super().__init__()
        self.widget = widget

    def compose(self):
        yield self.widget

    def on_mount(self):
        self.widget.focus()


def lines(widget):
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


@pytest.mark.parametrize(
    ("sentence", "passage", "plain", "underlined"),
    [
        ("Ada moved.", "It rained.\nAda\n  moved. So\x1b.", "It rained.\nAda\n  moved. So␛.", ["Ada\n  moved."]),
        ("Ada moved.", "Ada\x0b moved.\r\nWhy?", "Ada␋ moved. \nWhy?", ["Ada␋ moved."]),
        ("Bruno moved.", "Ada\x1fmo\tved.", "Ada␟mo ved.", []),
        (None, None, "The text is no longer available.", []),
    ],
)
def test_sentence_is_underlined(sentence, passage, plain, underlined):
    content = passage_text(source(sentence=sentence, passage=passage))
    assert content.plain == plain
    assert [plain[span.start : span.end] for span in content.spans] == underlined


def test_bar():
    assert [bar(share, 4) for share in (0, 1e-6, 1 / 8, 0.65625, 1)] == ["", "▏", "▌", "██▋", "████"]


NUMBERS = st.floats(-1e7, 1e7, allow_nan=False).map(lambda value: round(value, 6))


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0.2, 1.9, 4, ["0.5", "1.0", "1.5"]),
        (0, 9000, 5, ["0", "2,000", "4,000", "6,000", "8,000"]),
        (0, 40_000, 3, ["0", "20k", "40k"]),
        (0, 3e-5, 4, ["0", "1e-5", "2e-5", "3e-5"]),
    ],
)
def test_ticks_are_round(low, high, most, labels):
    assert [*ticks(low, high, most).values()] == labels


@given(NUMBERS, NUMBERS, st.integers(2, 12))
def test_ticks_are_within_bounds(one, other, most):
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):
        return
    values = [*ticks(low, high, most)]
    room = (high - low) * 1e-6
    assert values == sorted(values) and len(values) <= most
    assert all(low - room <= value <= high + room for value in values)


def test_format_number():
    numbers = [0, 0.5123, -12.34, 1234.5, 12_345, 2e-5, 9.99e-5, 5e-324, -2.5e30, math.nan, -math.inf]
    texts = ["0", "0.512", "-12.3", "1,234", "12.35k", "2e-5", "1e-4", "4.9e-324", "-2.5e30", "nan", "-inf"]
    assert [format_number(number) for number in numbers] == texts


def axis_labels(drawn):
    return [line.split("┤")[0].strip() for line in drawn if "┤" in line]


async def test_curves_axes_and_marks_and_any_numbers_in_any_box():
    chart = Chart("Loss")
    async with WidgetApp(chart).run_test(size=(42, 14)) as pilot:
        assert [line.strip() for line in lines(chart) if line.strip()] == ["nothing yet"]
        curves = [PlotCurve([0, 10, 20], [0, 10, 5]), PlotCurve([0, 20, 30], [2, np.nan, 8], marker="+")]
        chart.show(curves, "a note", value="5", lines=[10], pointers=[20, 99])
        drawn = lines(chart)
        assert axis_labels(drawn) == ["10", "8", "6", "4", "2", "0"]
        assert drawn[-1].split() == ["0", "10", "20", "30"]
        assert sum(line.count("+") for line in drawn) == 2
        assert drawn[2].count("│") == 1 and drawn[-3].count("▴") == 1
        assert any("⠀" < character <= "⣿" for character in "".join(drawn))
        assert Content.from_markup(chart.border_title).plain == "Loss  5"
        assert chart.border_subtitle == "a note"
        chart.show([PlotCurve([1, 2], [4, 4])], lowest=0)
        assert axis_labels(lines(chart))[:: len(axis_labels(lines(chart))) - 1] == ["4", "0"]
        chart.show([PlotCurve([], []), PlotCurve([1.0, 2.0, 3.0], [np.nan, np.inf, -1e308])], "a note")
        assert [line.strip() for line in lines(chart) if line.strip()] == ["nothing yet"]

        for size in ((3, 3), (20, 5), (200, 60)):
            await pilot.resize_terminal(*size)
            for values in ([1e190, -3.0, 5e-190], [0.0, 0.0], [4.0], [-1e-180, 1e150]):
                curves = [PlotCurve(range(len(values)), values), PlotCurve(range(len(values)), values, marker="+")]
                chart.show(curves, "[b]note[/b]", lines=[0.0], pointers=[1.0])
                await pilot.pause()
                assert {len(chart.render_line(row).text) for row in range(chart.content_size.height)} <= {size[0] - 2}


@pytest.mark.parametrize("no_color", [False, True])
async def test_shapes_and_shades(monkeypatch, no_color):
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    shown = HeatMap(can_focus=no_color)
    async with WidgetApp(shown).run_test(size=(40, 8)) as pilot:
        shown.show(np.array([9, 1, 0, 2, 4, 3]), marks=[4])
        await pilot.pause()
        assert lines(shown) == ["0 []▁▁· ▂▂◆ ▄▄" if no_color else "0     ·   ◆"]
        shades = {segment.style.bgcolor for segment in shown.render_line(0) if segment.text == "  "}
        assert len(shades) == (0 if no_color else 4)


async def test_keys_and_clicks_move_the_cursor():
    shown, moves = HeatMap(), []
    app = WidgetApp(shown)
    async with app.run_test(size=(44, 10)) as pilot:
        app.watch(shown, "cursor", lambda cell: moves.append(cell), init=False)  # noqa: PLW0108  # needs a signature
        shown.show(np.arange(40), marks=[3, 30])
        await pilot.pause()
        assert lines(shown)[1].startswith("16 ")
        await pilot.press("down", "right", "up", "left", "up", "end", "pageup", "m", "m", "m")
        assert moves == [16, 17, 1, 0, 39, 7, 30, 3, 30]
        await pilot.click(HeatMap, offset=(2 + 3 + 2 * 5, 3))
        await pilot.click(HeatMap, offset=(0, 0))
        assert shown.cursor == 37
        for height, row, width, columns in ((24, 0, 80, 64), (40, 12, 64, 12)):
            await pilot.resize_terminal(width, height)
            shown.show(np.ones(512), row=row)
            await pilot.press("home", "end")
            await pilot.pause()
            assert (shown.columns, shown.virtual_size.height) == (columns, -(-512 // columns))
            drawn = "".join(lines(shown)).replace("[]", "□")
            assert (shown.cursor, "□" in drawn) == (511, True)  # the last cell is in view


numbers = st.lists(st.integers(0, 10**9), min_size=1) | st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1)


@given(numbers)
def test_levels_are_monotone(drawn):
    values = np.sort(np.array(drawn))
    begins = steps(values)
    found = levels(values, begins)
    assert len(begins) <= MAX_STEPS
    assert (np.diff(begins) > 0).all()
    assert (np.diff(found.astype(int)) >= 0).all()
    assert ((found == 0) == (values == 0)).all()
    assert found.max(initial=0) == len(begins)


async def test_confirm_and_form():
    app, answers = WidgetApp(Widget()), []
    async with app.run_test(size=(80, 24)) as pilot:
        for keys in ("y", "n", "escape", "enter", "left enter", "tab tab enter"):
            app.push_screen(Confirm(f"Remove {HOSTILE}?", "Remove", "Keep"), answers.append)
            await pilot.pause()
            await pilot.press(*keys.split())
            await pilot.pause()
        assert answers == [True, False, False, False, True, False]
        form = Form("Open", {"path": ("Path", HOSTILE)}, str, button="Open", suggestions={"path": [HOSTILE, "safe"]})
        app.push_screen(form)
        await pilot.pause()
        field = form.query_one(Input)
        assert field.placeholder == HARMLESS
        assert [await field.suggester.get_suggestion(typed) for typed in ("[red]", "sa")] == [None, "safe"]


@pytest.mark.parametrize("typed", ["missing", "~nobody-has-this-name/a", "a\0b"])
def test_a_path_that_cannot_be_opened(home, typed):
    with pytest.raises(ValueError):
        existing_path(typed)


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
        ("日本語日本語", 7, "日…本語"),
    ],
)
def test_shorten(text, width, short):
    assert shorten(text, width) == short


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
