"""Confirmation dialogs, and paths as they are typed."""

from pathlib import Path

import pytest
from textual.widget import Widget

from mbc_cli.tui.widgets.inputs import Confirm, existing_path
from tests.cli.tui.widgets.conftest import HOSTILE, WidgetApp


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
    app = WidgetApp(Widget())
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(Confirm(f"Remove {HOSTILE}?", "Remove", "Keep"), app.received.append)
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert app.received == [answer]


def test_what_is_typed_is_a_path_from_here_or_from_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home / "a").mkdir()
    assert [existing_path(typed) for typed in ("", "a", "./a/..", "~/a")] == [home, home / "a", home, home / "a"]
    for typed in ("b", "~nobody-has-this-name/a", "a\0b"):
        with pytest.raises(ValueError):
            existing_path(typed)
