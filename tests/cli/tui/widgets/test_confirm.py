"""The question in front of everything."""

import pytest

from mbc_cli.tui.widgets.dialogs import Confirm
from mbc_cli.tui.widgets.figures import Gauge
from tests.cli.tui.widgets.conftest import HOSTILE, Alone


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["y"], True),
        (["n"], False),
        (["escape"], False),
        (["enter"], False),
        (["left", "enter"], True),
        (["tab", "tab", "enter"], False),
    ],
)
async def test_a_question_is_answered_by_keys_and_enter_alone_does_no_harm(keys: list[str], answer: bool) -> None:
    app = Alone(Gauge())
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Confirm(f"Remove {HOSTILE}?", "Remove", "Leave"), app.told.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert app.told == [answer]
