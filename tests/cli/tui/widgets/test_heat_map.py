"""A heat map of numbers: how it is drawn, and how its cursor moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.heat_map import MAX_STEPS, HeatMap, levels, steps
from tests.cli.tui.widgets.conftest import WidgetApp


class _HeatMapApp(WidgetApp):
    def __init__(self, **options):
        self.map = HeatMap("Codes", **options)
        super().__init__(self.map)

    def on_mount(self):
        super().on_mount()
        self.watch(self.map, "cursor", self.record, init=False)

    def record(self, cell):
        self.received.append(cell)

    def lines(self):
        strips = [self.map.render_line(y) for y in range(self.map.size.height)]
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def test_no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    app = _HeatMapApp()
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([9, 1, 0, 2, 4, 3]), marks=[4])
        await pilot.pause()
        assert app.lines() == ["0 []▁▁· ▂▂◆ ▄▄"]


async def test_shapes_and_shades():
    app = _HeatMapApp(can_focus=False)
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([1, 0, 2, 3]), marks=[3])
        await pilot.pause()
        assert app.lines() == ["0   ·   ◆"]
        segments = [segment for segment in app.map.render_line(0) if segment.text == "  "]
        assert len({segment.style.bgcolor for segment in segments}) == 2


async def test_keys_and_clicks_move_the_cursor():
    app = _HeatMapApp()
    async with app.run_test(size=(44, 10)) as pilot:
        app.map.show(np.arange(40), marks=[3, 30])
        await pilot.pause()
        assert app.lines()[1].startswith("16 ")
        await pilot.press("down", "right", "up", "left", "up", "end", "pageup", "m", "m", "m")
        moved = [16, 17, 1, 0, 39, 7, 30, 3, 30]
        assert app.received == moved
        await pilot.click(HeatMap, offset=(2 + 3 + 2 * 5, 3))
        await pilot.click(HeatMap, offset=(0, 0))
        assert app.map.cursor == 37


async def test_scrolls_to_cursor():
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


def test_few_whole_numbers():
    values = np.array([0, 5, 1, 3])
    assert steps(values).tolist() == [1, 2, 3, 4, 5]
    assert levels(values, steps(values)).tolist() == [0, 5, 1, 3]


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


@pytest.mark.parametrize(
    ("height", "row", "size", "columns"),
    [(24, 0, 76, 64), (40, 0, 76, 32), (40, 12, 60, 12), (40, 90, 76, 64)],
)
async def test_layout(height, row, size, columns):
    app = _HeatMapApp()
    async with app.run_test(size=(size + 4, height)) as pilot:
        app.map.show(np.ones(512), row=row)
        await pilot.press("end")
        await pilot.pause()
        assert (app.map.columns, app.map.virtual_size.height) == (columns, -(-512 // columns))
        drawn = "".join(line[app.map._left :].replace("[]", "□□") for line in app.lines())
        assert (app.map.cursor, "□" in drawn) == (511, True)  # the last cell is in view
