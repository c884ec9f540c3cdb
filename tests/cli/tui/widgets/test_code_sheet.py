"""The sheet of codes."""

import numpy as np

from mbc_cli.tui.widgets.code_sheet import CodeSheet
from tests.cli.tui.widgets.conftest import Alone, lines


async def test_codes_stand_by_chunk_level_and_position_and_can_be_chosen() -> None:
    app = Alone(CodeSheet())
    async with app.run_test(size=(40, 6)) as pilot:
        widget = app.query_one(CodeSheet)
        widget.show(np.array([[[1, 2], [3, 4]], [[5, 6], [7, 0]]], np.uint16), 8)
        assert [line[:11].rstrip() for line in lines(widget)[:5]] == [
            "chunk  1 2",
            "    1  1 3",
            "   ·2  2 4",
            "    2  5 7",
            "   ·2  6 0",
        ]
        dots = [line[12:] for line in lines(widget)[1:5]]
        assert len({letter for line in dots for letter in line if letter != " "}) == 8
        await pilot.press("end", "right", "enter")
        await pilot.press("up", "left", "enter")
        assert app.told == [(1, 1, 0), (0, 0, 5)]
