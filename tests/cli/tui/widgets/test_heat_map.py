"""A map of numbers: what stands on the screen, and what moves."""

from typing import Any

import numpy as np
import pytest
from textual.app import App, ComposeResult

from mbc_cli.tui.widgets.heat_map import HeatMap


class _Shown(App[None]):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.map, self.heard = HeatMap("Codes", **options), []

    def compose(self) -> ComposeResult:
        yield self.map

    def on_heat_map_moved(self, message: HeatMap.Moved) -> None:
        self.heard.append(("moved", self.map.cursor))

    def on_heat_map_chosen(self, message: HeatMap.Chosen) -> None:
        self.heard.append(("chosen", message.map.cursor))

    def lines(self) -> list[str]:
        strips = [self.map.render_line(y) for y in range(self.map.size.height)]
        return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


async def test_without_colour_heights_tell_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = _Shown()
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([9, 1, 0, 2, 4, 3]), marks=[4])
        await pilot.pause()
        assert app.lines() == ["0 []▁▁· ▂▂◆ ▄▄"]


async def test_zeros_and_marks_differ_by_shape_and_steps_by_brightness() -> None:
    app = _Shown(can_focus=False)
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.array([1, 0, 2, 3]), marks=[3])
        await pilot.pause()
        assert app.lines() == ["0   ·   ◆"]
        segments = [segment for segment in app.map.render_line(0) if segment.text == "  "]
        assert len({segment.style.bgcolor for segment in segments}) == 2


async def test_another_theme_has_other_shades() -> None:
    async def shades(app: _Shown, theme: str) -> tuple[list[object], str]:
        async with app.run_test(size=(40, 8)) as pilot:
            app.map.show(np.array([1, 2, 3]))
            await pilot.pause()
            app.theme = theme
            await pilot.pause(0.1)
            await pilot.pause()
            return [segment.style.bgcolor for segment in app.map.render_line(0)], app.map.border_subtitle

    app = _Shown(can_focus=False)
    app.theme = "textual-light"
    light = await shades(app, "textual-light")
    assert await shades(_Shown(can_focus=False), "textual-light") == light
    assert await shades(_Shown(can_focus=False), "textual-dark") != light


async def test_keys_and_clicks_move_the_cursor() -> None:
    app = _Shown()
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.show(np.arange(40), marks=[3, 30])
        await pilot.pause()
        assert app.lines()[1].startswith("16 ")
        await pilot.press("down", "right", "up", "left", "up", "end", "pageup", "n", "n", "n", "enter")
        moved = [16, 17, 1, 0, 39, 7, 30, 3, 30]
        assert app.heard == [*(("moved", cell) for cell in moved), ("chosen", 30)]
        await pilot.click(HeatMap, offset=(3 + 2 * 5, 2))
        await pilot.click(HeatMap, offset=(0, 0))
        assert app.map.cursor == 37


async def test_a_large_book_is_scrolled_to_the_cursor() -> None:
    app = _Shown()
    async with app.run_test(size=(40, 8)) as pilot:
        app.map.styles.max_height = 6
        app.map.show(np.arange(65_536))
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause()
        assert app.lines()[-1].startswith("65504 ")
        await pilot.press("home")
        await pilot.pause()
        assert app.lines()[0].startswith("    0 ")


async def test_only_rows_that_changed_are_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    app = _Shown()
    async with app.run_test(size=(40, 12)) as pilot:
        values = np.tile(np.arange(8), 8)
        app.map.show(values)
        await pilot.pause()
        drawn: list[int] = []
        monkeypatch.setattr(app.map, "refresh", lambda *_, **__: drawn.append(-1))
        monkeypatch.setattr(app.map, "refresh_line", drawn.append)
        app.map.show(values.copy())
        assert drawn == []
        values = values.copy()
        values[20] = 6
        app.map.show(values)
        app.map.go(63)
        assert sorted(drawn) == [0, 1, 3]
