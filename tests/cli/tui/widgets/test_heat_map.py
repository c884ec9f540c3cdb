"""A heat map of numbers: how it is drawn, and how its cursor moves."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.heat_map import MAX_STEPS, HeatMap, levels, steps
from tests.cli.tui.widgets.conftest import WidgetApp


class _HeatMapApp(WidgetApp):
    def __init__(self, **options: Any) -> None:
        self.map = HeatMap("Codes", **options)
        super().__init__(self.map)

    def on_mount(self) -> None:
        super().on_mount()
        self.watch(self.map, "cursor", self.record, init=False)

    def record(self, cell: int) -> None:
        self.received.append(cell)

    def lines(self) -> list[str]:
        strips = [self.map.render_line(y) for y in range(self.map.size.height)]
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def test_without_colour_heights_tell_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = _HeatMapApp()
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([9, 1, 0, 2, 4, 3]), marks=[4])
        await pilot.pause()
        assert app.lines() == ["0 []▁▁· ▂▂◆ ▄▄"]


async def test_zeros_and_marks_differ_by_shape_and_steps_by_brightness() -> None:
    app = _HeatMapApp(can_focus=False)
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([1, 0, 2, 3]), marks=[3])
        await pilot.pause()
        assert app.lines() == ["0   ·   ◆"]
        segments = [segment for segment in app.map.render_line(0) if segment.text == "  "]
        assert len({segment.style.bgcolor for segment in segments}) == 2


async def test_another_theme_has_other_shades() -> None:
    async def shades(app: _HeatMapApp, theme: str) -> tuple[list[object], str]:
        async with app.run_test(size=(40, 8)) as pilot:
            app.map.show(np.array([1, 2, 3]))
            await pilot.pause()
            app.theme = theme
            await pilot.pause(0.1)
            await pilot.pause()
            return [segment.style.bgcolor for segment in app.map.render_line(0)], app.map.border_subtitle

    app = _HeatMapApp(can_focus=False)
    app.theme = "textual-light"
    light = await shades(app, "textual-light")
    assert await shades(_HeatMapApp(can_focus=False), "textual-light") == light
    assert await shades(_HeatMapApp(can_focus=False), "textual-dark") != light


async def test_keys_and_clicks_move_the_cursor() -> None:
    app = _HeatMapApp()
    async with app.run_test(size=(44, 10)) as pilot:
        app.map.show(np.arange(40), marks=[3, 30])
        await pilot.pause()
        assert app.lines()[1].startswith("16 ")
        await pilot.press("down", "right", "up", "left", "up", "end", "pageup", "n", "n", "n")
        moved = [16, 17, 1, 0, 39, 7, 30, 3, 30]
        assert app.received == moved
        await pilot.click(HeatMap, offset=(2 + 3 + 2 * 5, 3))
        await pilot.click(HeatMap, offset=(0, 0))
        assert app.map.cursor == 37


async def test_a_large_book_is_scrolled_to_the_cursor() -> None:
    app = _HeatMapApp()
    async with app.run_test(size=(44, 10)) as pilot:
        app.map.styles.max_height = 8
        app.map.show(np.arange(65_536))
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause()
        assert app.lines()[-1].startswith("65504 ")
        await pilot.press("home")
        await pilot.pause()
        assert app.lines()[0].startswith("    0 ")


async def test_it_is_drawn_again_only_for_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _HeatMapApp()
    async with app.run_test(size=(40, 12)) as pilot:
        values = np.tile(np.arange(8), 8)
        app.map.show(values)
        await pilot.pause()
        drawn: list[int] = []
        monkeypatch.setattr(app.map, "refresh", lambda *_, **__: drawn.append(1))
        app.map.show(values.copy())
        assert drawn == []
        values[20] = 6
        app.map.show(values)
        assert drawn


def test_few_whole_numbers_have_a_step_each() -> None:
    values = np.array([0, 5, 1, 3])
    assert steps(values).tolist() == [1, 2, 3, 4, 5]
    assert levels(values, steps(values)).tolist() == [0, 5, 1, 3]


def test_each_step_begins_at_the_same_multiple_of_the_one_before() -> None:
    begins = steps(np.array([0.5, 128.0]))
    np.testing.assert_allclose(begins, 0.5 * 2.0 ** np.arange(8))
    assert levels(np.array([0, 0.5, 1.9, 2, 128]), begins).tolist() == [0, 1, 2, 3, 8]


def test_numbers_nearly_alike_look_alike() -> None:
    values = np.array([0.0, 1.0, 1.2])
    assert levels(values, steps(values)).tolist() == [0, 1, 1]


def test_tiny_remains_in_an_average_do_not_stretch_the_scale() -> None:
    assert steps(np.array([1e-30, 1.0]))[0] == 1 / 1024


def test_nothing_has_no_steps() -> None:
    assert steps(np.zeros(3)).tolist() == []
    assert levels(np.zeros(3), steps(np.zeros(3))).tolist() == [0, 0, 0]


numbers = st.lists(st.integers(0, 10**9), min_size=1) | st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1)


@given(numbers)
def test_brighter_is_never_less(drawn: list[float]) -> None:
    values = np.sort(np.array(drawn))
    begins = steps(values)
    found = levels(values, begins)
    assert len(begins) <= MAX_STEPS
    assert (np.diff(begins) > 0).all()
    assert (np.diff(found.astype(int)) >= 0).all()
    assert ((found == 0) == (values == 0)).all()
    assert found.max(initial=0) == len(begins)


@pytest.mark.parametrize(
    ("height", "row", "size", "columns"),
    [(24, 0, 76, 64), (40, 0, 76, 32), (40, 12, 60, 12), (40, 50, 76, 50), (40, 90, 76, 64)],
)
async def test_cells_are_wide_and_rows_whole_where_there_is_room(
    height: int, row: int, size: int, columns: int
) -> None:
    app = _HeatMapApp()
    async with app.run_test(size=(size + 4, height)) as pilot:
        app.map.show(np.arange(512), row=row)
        await pilot.pause()
        assert app.map.columns == columns
        assert app.map.virtual_size.height == -(-512 // columns)


@pytest.mark.parametrize(("cells", "size"), [(1, (20, 8)), (40, (9, 30)), (3000, (60, 12)), (512, (120, 40))])
async def test_every_cell_has_a_place_of_its_own(cells: int, size: tuple[int, int]) -> None:
    app = _HeatMapApp()
    async with app.run_test(size=size) as pilot:
        app.map.show(np.ones(cells))
        await pilot.press("end")
        await pilot.pause()
        drawn = "".join(line[app.map._left :].replace("[]", "□□") for line in app.lines())
        assert app.map.cursor == cells - 1
        assert "□" in drawn
        rows = [line for line in app.lines() if line.strip()]
        assert int(rows[-1].split()[0]) == (cells - 1) // app.map.columns * app.map.columns
