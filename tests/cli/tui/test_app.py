"""The dashboard around its views: tabs, keys, changes by other processes, and what the next start restores."""

import json
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from textual.widgets import Input, Static, TabbedContent

from mbc_cli.paths import dashboard_settings
from mbc_cli.render.terminal import notes
from mbc_cli.tui import app as module
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import read_settings, save_settings
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.cells import HeatMap, RowTable
from mbc_engine.runs.event_log import LogUpdate
from tests.cli.stub_memory import ingested
from tests.cli.tui.conftest import LARGE, SMALL, shown_keys


def notifications(app):
    return [notification.message for notification in app._notifications]


@pytest.mark.slow
async def test_views_of_own_models_are_one_level_down(options, bank, until, screen):
    def tabs():
        return [name for name in screen(app).splitlines()[0].split() if name.isalpha()]

    app = Dashboard(replace(options, model="mini"))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: tabs() == ["Ask", "Documents", "Ingest", "Overview"])
        await until(lambda: app.query_one("#question").has_focus)
        await pilot.pause()
        app.action_view("overview")
        await until(lambda: shown_keys(app) >= {"Codes", "Train"})
        await pilot.press("5")
        await until(lambda: tabs() == ["Ask", "Documents", "Ingest", "Overview", "Codes"])
        await pilot.press("ctrl+pagedown")
        assert app.view.NAME == "ask"


@pytest.mark.usefixtures("few_views")
async def test_idle_until_sigterm(options, home, until, monkeypatch):
    monkeypatch.setattr(module, "_END_SECONDS", 86_400)  # otherwise it would end the tests
    app = Dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: app.state.bank_error)
        assert not any(widget.auto_refresh for widget in app.screen.query("*"))
        await pilot.press("ctrl+c")
        await until(lambda: any("Press q to quit" in message for message in notifications(app)))
        app.deliver_screenshot()
        await until(lambda: any("Saved screenshot" in message for message in notifications(app)))
        assert len(list(home.glob("*.svg"))) == 1
        signal.raise_signal(signal.SIGTERM)
        await until(lambda: not app.is_running)
    assert app.return_code == 128 + signal.SIGTERM


@pytest.mark.usefixtures("few_views")
def test_unexpected_error_ends_the_command(mbc, home, monkeypatch):
    monkeypatch.setattr(AskView, "draw", Mock(side_effect=KeyError("what")))
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    monkeypatch.setattr("textual.constants.DRIVER", "textual.drivers.headless_driver:HeadlessDriver")
    assert "Unexpected error: KeyError: 'what'" in mbc("tui", code=1).stderr


@pytest.mark.slow
async def test_from_documents_to_codes_and_back(options, coded_bank, until):
    texts = {"A harbour closed.": (1, 1), "The harbours froze.": (1, 2), "Apples fell.": (3, 5)}
    coded_bank({(f"/{number}.txt", text): codes for number, (text, codes) in enumerate(texts.items())})
    app = Dashboard(options, DocumentsView.NAME)
    async with app.run_test(size=SMALL) as pilot:
        documents, codes = app.query_one(DocumentsView), app.query_one(CodesView)
        table, users = documents.query_one("#rows", RowTable), codes.query_one(RowTable)

        def line():
            return str(codes.query_one("#code", Static).render())

        await until(lambda: len(table.rows) == 3)
        assert app.query_one(TabbedContent).get_tab("train").display  # the model is not the embedded one
        await pilot.press("j")
        await until(lambda: documents._read and documents._read[0].origin.name == "/1.txt")
        await pilot.press("m")
        await until(lambda: codes.query_one("#heat", HeatMap).has_focus)
        await until(lambda: line().startswith("code 1:") and line().endswith("◆ in 1.txt"))
        await pilot.press("right_square_bracket")
        await until(lambda: line().startswith("code 2:") and line().endswith("◆ in 1.txt"))
        await pilot.press("left_square_bracket", "left", "left")
        await until(lambda: line().startswith("code 0:"))
        await pilot.press("m")
        await until(lambda: len(users.rows) == 2)
        await pilot.press("escape")
        await until(lambda: "1.txt" not in line() and "Unmark" not in shown_keys(app))
        await pilot.press("enter", "j")
        await until(lambda: "Document" in shown_keys(app))
        name = users.rows[users.cursor][1][0]
        await pilot.press("d")
        await until(lambda: [cells[0] for _, cells in table.rows] == [f"/{name}"])
        assert app.view is documents


@pytest.mark.usefixtures("few_views")
async def test_settings_are_restored(home, options, make_bank, until, screen):
    folder = home / "[red]\x1b]0;x\x07"
    folder.mkdir()
    options = replace(options, bank=make_bank("memory.mbc").rename(folder / "a.mbc"))
    before = Dashboard(options)
    before.theme = "textual-light"
    before.state.transcript.append(("Where did Ada move?", "Aalen"))
    save_settings(before.settings)
    assert dashboard_settings().stat().st_mode & 0o777 == 0o600
    kept = read_settings()
    app = Dashboard(options, settings=kept)
    async with app.run_test(size=(120, 40)):
        await until(lambda: "? Where did Ada move?" in screen(app) and "Aalen" in screen(app))
        await until(lambda: "[red]␛]0;x␇" in screen(app))
        assert app.theme == "textual-light" and "\x1b" not in screen(app)
        assert notes.quiet  # loading a model draws no spinner
    assert not notes.quiet
    assert not Dashboard(replace(options, bank=Path("/other.mbc")), settings=kept).state.transcript


def test_damaged_settings_are_ignored(options):
    dashboard_settings().parent.mkdir(parents=True)
    for damage in (b"", b"{", b"[1]", b"\xff"):
        dashboard_settings().write_bytes(damage)
        assert read_settings() == {}
    damaged = {"theme": [], "bank": str(options.bank), "transcript": [1, [2]]}
    settings = Dashboard(options, settings=damaged).settings
    assert json.loads(json.dumps(settings)) == Dashboard(options).settings


def test_last_bank_is_reopened(mbc, make_bank, record, home, monkeypatch):
    other, opened = make_bank("other.mbc", record("/a.txt", "Ada")), []

    def run(self):
        opened.append(self.options.bank)
        return other if len(opened) == 1 else None

    monkeypatch.setattr(Dashboard, "run", run)
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    monkeypatch.setattr("mbc_cli.commands.tui.threading.enumerate", list)
    mbc("tui")
    assert opened[1:] == [other]
    mbc("tui")
    mbc("tui", "--bank", "third.mbc")
    assert opened[2:] == [other, Path("third.mbc").absolute()]


@pytest.mark.slow
@pytest.mark.usefixtures("few_views")
async def test_open_bank_from_palette(options, make_bank, record, until, screen):
    other = make_bank("other.mbc", record("/a.txt", "Ada"))
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("colon", *"open bank")
        await until(lambda: "Switch to another bank" in screen(app))
        await pilot.press("down", "enter")
        await until(lambda: app.screen.query("#path"))
        for typed, why in ((str(options.bank.parent), "is not a bank"), ("a" * 300, "file name too long")):
            app.screen.query_one("#path", Input).value = typed
            await pilot.press("enter")
            await until(lambda why=why: why in str(app.screen.query_one("#words", Static).content))
        app.screen.query_one("#path", Input).value = str(other)
        await pilot.press("enter")
        await until(lambda: app.return_value == other)


def test_ctrl_c_in_pager(options, monkeypatch):
    received, opened = [], []

    def show(*_):
        signal.raise_signal(signal.SIGINT)
        opened.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setattr(module, "open_file", show)
    monkeypatch.setattr(Dashboard, "suspend", contextmanager(lambda self: iter([None])))
    # The dashboard's own handler would end the tests.
    before = signal.signal(signal.SIGINT, handle := lambda number, _: received.append(number))
    try:
        Dashboard(options).open_file(Path("/notes/ada.txt"))
        assert signal.getsignal(signal.SIGINT) is handle
    finally:
        signal.signal(signal.SIGINT, before)
    assert opened != [signal.SIG_IGN]  # which the pager would inherit
    assert not received


@pytest.mark.usefixtures("few_views")
async def test_documents_are_opened_while_an_ingest_ends(options, make_bank, record, until, monkeypatch):
    opened = []
    monkeypatch.setattr(module, "open_file", lambda path, line: opened.append(path))
    monkeypatch.setattr(Dashboard, "suspend", contextmanager(lambda self: iter([None])))
    names = ("/notes/ada.txt", "/notes/ada.txt.old", "/notes/bruno.txt")
    make_bank("memory.mbc", *(record(name, name) for name in names))
    app = Dashboard(options, "documents")
    async with app.run_test(size=LARGE) as pilot:
        table = app.query_one("#rows", RowTable)
        await until(lambda: len(table.rows) == 3)
        await pilot.press("G", "o", "y")
        await until(lambda: opened and app.clipboard)
        assert (opened, app.clipboard) == ([Path("/notes/bruno.txt")], "/notes/bruno.txt")
        app.show_document("/notes/ada.txt")
        await until(lambda: len(table.rows) == 1)
        app._update_ingest(LogUpdate([(1.0, ingested()[0])]), True)
        app._update_ingest(LogUpdate([(2.0, ingested()[-1])]), False)
        await until(lambda: notifications(app)[-1] == "Ingest finished.")


@pytest.mark.usefixtures("few_views")
async def test_demo_key(options, until, started):
    app = Dashboard(replace(options, device="cpu"))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: app.query_one("#turns").has_focus)
        await pilot.press("2")
        assert app.view.NAME == "documents"
        await pilot.press("D", "D")
        (child,) = started
        assert (child.arguments[0], child.arguments[-1]) == ("demo", "--device=cpu")
        child.on_end("")
        await until(lambda: app.return_value is not None)
        assert app.return_value.name == "demo.mbc"
