"""A heat map of numbers: how it is drawn, and how its cursor moves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_cli.tui.widgets.heat_map import MAX_STEPS, HeatMap, levels, steps
from tests.cli.tui.widgets.conftest import WidgetApp, lines


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
        # Layout and scrolling.
        for height, row, width, columns in ((24, 0, 80, 64), (40, 0, 80, 32), (40, 12, 64, 12), (40, 90, 80, 64)):
            await pilot.resize_terminal(width, height)
            shown.show(np.ones(512), row=row)
            await pilot.press("home", "end")
            await pilot.pause()
            assert (shown.columns, shown.virtual_size.height) == (columns, -(-512 // columns))
            drawn = "".join(lines(shown)).replace("[]", "□")
            assert (shown.cursor, "□" in drawn) == (511, True)  # the last cell is in view
        await pilot.resize_terminal(44, 10)
        shown.styles.max_height = 8
        shown.show(np.arange(65_536))
        await pilot.press("end")
        await pilot.pause()
        assert lines(shown)[-1].startswith("65504 ")
        await pilot.press("home")
        await pilot.pause()
        assert lines(shown)[0].startswith("    0 ")


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
