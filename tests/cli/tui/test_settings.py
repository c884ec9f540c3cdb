"""Settings kept between starts, switching banks, and opening and copying what is shown."""

import json
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from mbc_cli.config import dashboard_settings
from mbc_cli.tui import app as module
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import read_settings, save_settings
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.events import IngestFinished, IngestStarted
from mbc_engine.runs.event_log import LogUpdate

pytestmark = pytest.mark.usefixtures("few_views")


async def test_settings_are_restored(options, until, screen):
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)):
        app.theme = "textual-light"
        app.state.transcript.append(("Where did Ada move?", "Aalen"))
    save_settings(app.settings)
    assert dashboard_settings().stat().st_mode & 0o777 == 0o600
    kept = read_settings()
    assert kept["bank"] == str(options.bank)
    again = Dashboard(options, settings=kept)
    async with again.run_test(size=(120, 40)):
        await until(lambda: "? Where did Ada move?" in screen(again) and "Aalen" in screen(again))
        assert again.theme == "textual-light"
    assert not Dashboard(DashboardOptions(Path("/other.mbc"), "mini", options.runs), settings=kept).state.transcript


async def test_damaged_settings_are_ignored(options):
    dashboard_settings().parent.mkdir(parents=True)
    for damage in (b"", b"{", b"[1]", b"\xff"):
        dashboard_settings().write_bytes(damage)
        assert read_settings() == {}
    dashboard_settings().write_text('{"theme": [], "bank": {}, "transcript": [1, [2]]}')
    app = Dashboard(options, settings=read_settings())
    async with app.run_test(size=(80, 24)):
        assert not app.state.transcript
    assert json.loads(json.dumps(app.settings))["bank"] == str(options.bank)


def test_last_bank_is_reopened(mbc, make_bank, record, home, monkeypatch):
    other, opened = make_bank("other.mbc", record("/a.txt", "Ada")), []

    def run(self):
        opened.append(self.options.bank)
        return other if len(opened) == 1 else None

    monkeypatch.setattr(Dashboard, "run", run)
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    monkeypatch.setattr("mbc_cli.commands.tui.threading.enumerate", list)
    assert mbc("tui").exit_code == 0
    assert opened[1:] == [other]
    assert mbc("tui").exit_code == 0
    assert mbc("tui", "--bank", "third.mbc").exit_code == 0
    assert opened[2:] == [other, Path("third.mbc").absolute()]


@pytest.mark.slow
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


async def test_end_of_ingest_is_announced(options, until, screen):
    app = Dashboard(options, "documents")
    async with app.run_test(size=(120, 40)):
        app._update_ingest(LogUpdate([(1.0, IngestStarted(1, 8))]), True)
        end = IngestFinished(1, 1, 0, 0, 0, 1.0, 1.0, True, 1, 1, 1, 27, 0, 0)
        app._update_ingest(LogUpdate([(2.0, end)]), False)
        await until(lambda: [note.message for note in app._notifications] == ["Ingest finished."])


async def test_ctrl_c_in_pager(options, until, monkeypatch):
    received = []

    def handle(number, _):
        received.append(number)

    # The dashboard's own would end the tests.
    before = signal.signal(signal.SIGINT, handle)
    opened = []

    def show(*_):
        signal.raise_signal(signal.SIGINT)
        opened.append(signal.getsignal(signal.SIGINT))

    monkeypatch.setattr(module, "open_file", show)
    monkeypatch.setattr(Dashboard, "suspend", contextmanager(lambda self: iter([None])))
    app = Dashboard(options, "documents")
    try:
        async with app.run_test(size=(120, 40)):
            app.open_file(Path("/notes/ada.txt"))
            assert signal.getsignal(signal.SIGINT) is handle
    finally:
        signal.signal(signal.SIGINT, before)
    assert opened != [signal.SIG_IGN]  # which the pager would inherit
    assert not received


async def test_open_file_and_copy_path(options, make_bank, record, tmp_path, until, monkeypatch):
    opened = []
    monkeypatch.setattr(module, "open_file", lambda path, line: opened.append(path))
    monkeypatch.setattr(Dashboard, "suspend", contextmanager(lambda self: iter([None])))
    names = ("/notes/ada.txt", "/notes/ada.txt.old", "/notes/bruno.txt")
    make_bank("memory.mbc", *(record(name, name) for name in names))
    app = Dashboard(options, "documents")
    async with app.run_test(size=(120, 40)) as pilot:
        view = app.query_one(DocumentsView)
        await until(lambda: len(view.query_one("#rows", RowTable).rows) == 3)
        await pilot.press("G", "o", "y")
        await until(lambda: opened and app.clipboard)
        assert (opened, app.clipboard) == ([Path("/notes/bruno.txt")], "/notes/bruno.txt")
        app.show_document("/notes/ada.txt")
        await until(lambda: len(view.query_one("#rows", RowTable).rows) == 1)


async def test_demo_key(options, until, monkeypatch):
    commands, ends = [], []

    class Child:
        is_running = True

        def __init__(self, arguments, on_end):
            commands.append(arguments)
            ends.append(on_end)

    monkeypatch.setattr(module, "ChildProcess", Child)
    app = Dashboard(replace(options, device="cpu"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.state.bank_error)
        await pilot.press("D", "D")
        assert [(words[0], words[-1]) for words in commands] == [("demo", "--device=cpu")]
        ends[0]("")
        await until(lambda: app.return_value is not None)
        assert app.return_value.name == "demo.mbc"
