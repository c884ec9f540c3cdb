"""The dashboard around its views: tabs, keys, and changes by other processes."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.widgets import Input, Static

from mbc_cli.tui.app import VIEWS, Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.views.ingest import IngestTab
from mbc_cli.tui.views.overview import OverviewView
from mbc_cli.tui.widgets.heat_map import HeatMap
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument
from mbc_engine.text import Chunk
from tests.cli.tui.conftest import shown_keys


async def test_digits_and_page_keys_lead_to_the_views(options: DashboardOptions) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)) as pilot:
        for key, view in enumerate(VIEWS, 1):
            await pilot.press(str(key))
            assert app.view.NAME == view.NAME
            await pilot.press("escape")
        await pilot.press("ctrl+pagedown")
        assert app.view.NAME == VIEWS[0].NAME
        await pilot.press("ctrl+pageup")
        assert app.view.NAME == VIEWS[-1].NAME


async def test_the_line_for_questions_draws_nothing_while_idle(options: DashboardOptions) -> None:
    app = Dashboard(options, AskView.NAME)
    async with app.run_test(size=(80, 24)):
        assert not app.query_one("#question", Input).cursor_blink


async def test_the_panel_of_keys_tells_what_a_view_shows(options: DashboardOptions, until: Any, screen: Any) -> None:
    app = Dashboard(options, IngestTab.NAME)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("question_mark")
        await until(lambda: "documents whose files are gone" in " ".join(screen(app).split()))
        await pilot.press("question_mark")
        await until(lambda: not app.screen.query("HelpPanel"))


async def test_without_a_bank_it_says_how_to_get_one(options: DashboardOptions, until: Any, screen: Any) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.state.bank_error)
        await until(lambda: "ten made-up stories" in screen(app))
        await pilot.pause()


async def test_a_bank_that_comes_changes_and_goes_is_seen(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.bank_error)
        path = make_bank("memory.mbc", record("/a.txt", "Ada"))
        await until(lambda: app.state.bank and app.state.bank.totals.documents == 1)
        assert app.state.bank_error is None
        with MemoryBank.open(path) as bank:
            bank.remove([("/a.txt", "")])
        await until(lambda: app.state.bank and app.state.bank.totals.documents == 0)
        path.unlink()
        await until(lambda: app.state.bank_error)


async def test_hostile_names_reach_the_screen_as_text(
    options: DashboardOptions, home: Path, make_bank: Any, until: Any, screen: Any
) -> None:
    folder = home / "[red]\x1b]0;x\x07"
    folder.mkdir()
    path = make_bank("memory.mbc").rename(folder / "a.mbc")
    app = Dashboard(DashboardOptions(path, options.model, options.runs))
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.bank)
        await until(lambda: "[red]" in screen(app))
        assert "\x1b" not in screen(app)


async def test_being_terminated_leaves_the_terminal_as_it_was(
    options: DashboardOptions, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_cli.tui.app._END_SECONDS", 86_400)  # otherwise it would end the tests
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: not app.is_running)
    assert app.return_code == 128 + signal.SIGTERM


def test_an_error_nobody_expected_ends_the_command_as_any_other(
    mbc: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(view: OverviewView) -> None:
        raise KeyError("what")

    monkeypatch.setattr(OverviewView, "draw", crash)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    monkeypatch.setattr("textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    result = mbc("tui")
    assert result.exit_code == 1
    assert "Unexpected error: KeyError: 'what'" in result.stderr


async def test_the_palette_removes_no_documents_that_are_out_of_sight(options: DashboardOptions) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert "Search documents" in titles and not any("Remove" in title for title in titles)


async def test_ctrl_c_names_the_key_that_quits(options: DashboardOptions, until: Any) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+c")
        await until(lambda: any("Press q to quit" in own.message for own in app._notifications))


async def test_a_screenshot_is_saved_in_the_working_folder(options: DashboardOptions, home: Path, until: Any) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        app.deliver_screenshot()
        await until(lambda: any("Saved screenshot" in own.message for own in app._notifications))
        assert len(list(home.glob("*.svg"))) == 1


async def test_nothing_moves_while_nothing_happens(options: DashboardOptions, until: Any) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        await until(lambda: app.state.bank_error)
        assert not any(widget.auto_refresh for widget in app.screen.query("*"))


async def test_from_documents_to_codes_and_back(options: DashboardOptions, record: Any, until: Any) -> None:
    shape = CodeShape(tokens=2, levels=1, num_codes=8, per_position=True)
    texts = {"A harbour closed.": (1, 1), "The harbours froze.": (1, 2), "Apples fell.": (3, 5)}
    with MemoryBank.create(options.bank, ModelSignature("m", "aa", "bb"), shape, 2, keeps_text=True) as bank:
        for number, (text, codes) in enumerate(texts.items()):
            chunks = np.array(codes).reshape(1, 2, 1)
            bank.put([StoredDocument.of(record(f"/{number}.txt", text), chunks, texts=[Chunk(text, 0)])])
    app = Dashboard(options, DocumentsView.NAME)
    async with app.run_test(size=(80, 24)) as pilot:
        documents, codes = app.query_one(DocumentsView), app.query_one(CodesView)
        table, code_table = documents.query_one("#rows", RowTable), documents.query_one("#codes", RowTable)
        await until(lambda: len(table.rows) == 3)
        await pilot.press("j")
        await until(lambda: documents._read and documents._read[0].origin.name == "/1.txt")
        await pilot.press("c")
        await until(lambda: len(code_table.rows) == 2)
        assert [cells for _, cells in code_table.rows] == [
            ("1", "1", "2", "harbour"),
            ("2", "2", "1", "this chunk alone"),
        ]
        code_table.go(1)
        await pilot.press("m")
        await until(lambda: codes.query_one("#heat", HeatMap).has_focus)
        line = codes.query_one("#code", Static)
        await until(lambda: str(line.render()).startswith("code 2:") and "◆ in 1.txt" in str(line.render()))
        await pilot.press("left_square_bracket", "left")
        await until(lambda: str(line.render()).startswith("code 0:"))
        await pilot.press("n")
        await until(lambda: len(codes.query_one(RowTable).rows) == 2)
        await pilot.press("enter", "j")
        await until(lambda: "Document" in shown_keys(app))
        name = str(codes.query_one(RowTable).rows[codes.query_one(RowTable).cursor][1][0])
        await pilot.press("d")
        await until(lambda: [cells[0] for _, cells in table.rows] == [f"/{name}"])
        assert app.view is documents
        await pilot.press("c")
        await until(lambda: not code_table.display)
