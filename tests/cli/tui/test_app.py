"""The dashboard around its views: tabs, keys, and changes by other processes."""

import signal
from dataclasses import replace

import numpy as np
import pytest
from textual.widgets import Static

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.heat_map import HeatMap
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument
from mbc_engine.text import Chunk
from tests.cli.tui.conftest import shown_keys


@pytest.mark.slow
async def test_views_of_own_models_are_one_level_down(options, bank, until, screen):
    def tabs():
        return [name for name in screen(app).splitlines()[0].split() if name.isalpha()]

    app = Dashboard(replace(options, model="mini"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: tabs() == ["Ask", "Documents", "Ingest", "Overview"])
        await until(lambda: app.query_one("#question").has_focus)
        await pilot.pause()
        app.action_view("overview")
        await until(lambda: shown_keys(app) >= {"Codes", "Train"})
        await pilot.press("5")
        await until(lambda: tabs() == ["Ask", "Documents", "Ingest", "Overview", "Codes"])
        await pilot.press("ctrl+pagedown")
        assert app.view.NAME == "ask"
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        await until(lambda: tabs()[-1] == "Train")


@pytest.mark.usefixtures("few_views")
async def test_no_bank_shows_ways_to_get_one(options, until, screen):
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "ten made-up stories" in screen(app) and app.query_one("#turns").has_focus)
        await pilot.press("2")
        assert app.view.NAME == "documents"


@pytest.mark.usefixtures("few_views")
async def test_bank_appears_changes_and_goes(options, make_bank, record, until):
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


@pytest.mark.usefixtures("few_views")
async def test_names_are_plain_text(options, home, make_bank, until, screen):
    folder = home / "[red]\x1b]0;x\x07"
    folder.mkdir()
    path = make_bank("memory.mbc").rename(folder / "a.mbc")
    app = Dashboard(DashboardOptions(path, options.model, options.runs))
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.bank)
        await until(lambda: "[red]" in screen(app))
        assert "\x1b" not in screen(app)


@pytest.mark.usefixtures("few_views")
async def test_sigterm_restores_the_terminal(options, until, monkeypatch):
    monkeypatch.setattr("mbc_cli.tui.app._END_SECONDS", 86_400)  # otherwise it would end the tests
    app = Dashboard(options)
    async with app.run_test(size=(80, 24)):
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: not app.is_running)
    assert app.return_code == 128 + signal.SIGTERM


@pytest.mark.usefixtures("few_views")
def test_unexpected_error_ends_the_command(mbc, home, monkeypatch):
    def crash(view):
        raise KeyError("what")

    monkeypatch.setattr(AskView, "draw", crash)
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    monkeypatch.setattr("textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    result = mbc("tui")
    assert result.exit_code == 1
    assert "Unexpected error: KeyError: 'what'" in result.stderr


async def test_idle_dashboard(options, home, until):
    def is_notified(words):
        return any(words in notification.message for notification in app._notifications)

    app = Dashboard(options)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: app.state.bank_error)
        assert not any(widget.auto_refresh for widget in app.screen.query("*"))
        await pilot.press("ctrl+c")
        await until(lambda: is_notified("Press q to quit"))
        app.deliver_screenshot()
        await until(lambda: is_notified("Saved screenshot"))
        assert len(list(home.glob("*.svg"))) == 1


@pytest.mark.slow
async def test_from_documents_to_codes_and_back(options, record, until):
    shape = CodeShape(tokens=2, levels=1, num_codes=8, per_position=True)
    texts = {"A harbour closed.": (1, 1), "The harbours froze.": (1, 2), "Apples fell.": (3, 5)}
    with MemoryBank.create(options.bank, ModelSignature("m", "aa", "bb"), shape, 2, keeps_text=True) as bank:
        for number, (text, codes) in enumerate(texts.items()):
            chunks = np.array(codes).reshape(1, 2, 1)
            bank.put([StoredDocument.of(record(f"/{number}.txt", text), chunks, texts=[Chunk(text, 0)])])
    app = Dashboard(options, DocumentsView.NAME)
    async with app.run_test(size=(80, 24)) as pilot:
        documents, codes = app.query_one(DocumentsView), app.query_one(CodesView)
        table = documents.query_one("#rows", RowTable)
        await until(lambda: len(table.rows) == 3)
        await pilot.press("j")
        await until(lambda: documents._read and documents._read[0].origin.name == "/1.txt")
        await pilot.press("m")
        await until(lambda: codes.query_one("#heat", HeatMap).has_focus)
        line = codes.query_one("#code", Static)
        await until(lambda: str(line.render()).startswith("code 1:") and "◆ in 1.txt" in str(line.render()))
        await pilot.press("left")
        await until(lambda: str(line.render()).startswith("code 0:"))
        await pilot.press("m")
        await until(lambda: len(codes.query_one(RowTable).rows) == 2)
        await pilot.press("enter", "j")
        await until(lambda: "Document" in shown_keys(app))
        name = str(codes.query_one(RowTable).rows[codes.query_one(RowTable).cursor][1][0])
        await pilot.press("d")
        await until(lambda: [cells[0] for _, cells in table.rows] == [f"/{name}"])
        assert app.view is documents
