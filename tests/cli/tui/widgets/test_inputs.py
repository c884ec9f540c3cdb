"""Confirmation dialogs, and paths as they are typed."""

import pytest
from textual.widget import Widget
from textual.widgets import Input

from mbc_cli.tui.widgets.inputs import Confirm, Form, existing_path
from tests.cli.tui.conftest import HARMLESS, HOSTILE
from tests.cli.tui.widgets.conftest import WidgetApp


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


def test_existing_path(home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    (home / "a").mkdir()
    assert [existing_path(typed) for typed in ("", "a", "./a/..", "~/a")] == [home, home / "a", home, home / "a"]
    for typed in ("b", "~nobody-has-this-name/a", "a\0b"):
        with pytest.raises(ValueError):
            existing_path(typed)
