"""Settings kept between starts, switching banks, and opening and copying what is shown."""

import json
import signal
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static

from mbc_cli.config import activity_log, dashboard_settings, default_bank
from mbc_cli.tui import app as module
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker, read_settings, save_settings
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.answer import Source
from mbc_engine.events import IngestFinished, IngestStarted
from mbc_engine.memory import Memory
from mbc_engine.runs.event_log import LogUpdate
from mbc_engine.runs.ingests import recorded
from mbc_engine.text import read_document


async def test_theme_view_bank_and_transcript_are_kept(options: DashboardOptions, until: Any, screen: Any) -> None:
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)) as pilot:
        app.theme = "textual-light"
        app.state.transcript.append(("Where did Ada move?", "Aalen"))
        await pilot.press("5")
        await until(lambda: app.state.view == "ask")
    save_settings(app.settings)
    assert dashboard_settings().stat().st_mode & 0o777 == 0o600
    kept = read_settings()
    assert (kept["view"], kept["bank"]) == ("ask", str(options.bank))
    again = Dashboard(options, kept["view"], settings=kept)
    async with again.run_test(size=(120, 40)):
        await until(lambda: "? Where did Ada move?" in screen(again) and "Aalen" in screen(again))
        assert again.theme == "textual-light"
    assert not Dashboard(DashboardOptions(Path("/other.mbc"), "mini", options.runs), settings=kept).state.transcript


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1]", b"\xff", b'{"theme": [], "view": [], "bank": {}, "transcript": [1, [2]]}']
)
async def test_damaged_settings_are_ignored(options: DashboardOptions, damage: bytes) -> None:
    dashboard_settings().parent.mkdir(parents=True)
    dashboard_settings().write_bytes(damage)
    app = Dashboard(options, settings=read_settings())
    async with app.run_test(size=(80, 24)):
        assert not app.state.transcript
    assert json.loads(json.dumps(app.settings))["bank"] == str(options.bank)


def test_another_bank_is_opened_and_comes_back_next_time(
    mbc: Any, make_bank: Any, record: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, opened = make_bank("other.mbc", record("/a.txt", "Ada")), []

    def run(self: Dashboard) -> Path | None:
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


def test_a_last_bank_that_cannot_be_looked_for_is_forgotten(mbc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(Dashboard, "run", lambda self: opened.append(self.options.bank))
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    monkeypatch.setattr("mbc_cli.commands.tui.threading.enumerate", list)
    save_settings({"bank": f"/{'a' * 300}"})
    assert mbc("tui").exit_code == 0
    assert opened == [default_bank()]


async def test_the_palette_opens_a_bank(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    other = make_bank("other.mbc", record("/a.txt", "Ada"))
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("colon", *"open bank")
        await until(lambda: "Switch to another bank" in screen(app))
        await pilot.press("down", "enter")
        await until(lambda: app.screen.query("#path"))
        for typed, why in (
            (str(options.bank), "no such file"),
            (str(options.bank.parent), "is not a bank"),
            ("~nobody-has-this-name/a", "could not determine home"),
            ("a" * 300, "file name too long"),
        ):
            app.screen.query_one("#path", Input).value = typed
            await pilot.press("enter")
            await until(lambda why=why: why in str(app.screen.query_one("#words", Static).content))
        app.screen.query_one("#path", Input).value = str(other)
        await pilot.press("enter")
        await until(lambda: app.return_value == other)


async def test_the_end_of_an_ingest_is_announced_in_other_views(
    options: DashboardOptions, until: Any, screen: Any
) -> None:
    app = Dashboard(options, "documents")
    async with app.run_test(size=(120, 40)):
        app._update_ingest(LogUpdate([(1.0, IngestStarted(1, 8))]), True)
        end = IngestFinished(1, 1, 0, 0, 0, 1.0, 1.0, True, 1, 1, 1, 27, 0, 0)
        app._update_ingest(LogUpdate([(2.0, end)]), False)
        await until(lambda: [note.message for note in app._notifications] == ["Ingest finished."])


async def test_an_ingest_that_is_over_before_the_next_look_is_announced_too(
    options: DashboardOptions, until: Any
) -> None:
    began, end = IngestStarted(1, 8), IngestFinished(1, 1, 0, 0, 0, 1.0, 1.0, True, 1, 1, 1, 27, 0, 0)
    list(recorded(iter([began, end]), activity_log(options.bank)))  # which was over before the dashboard opened
    app = Dashboard(options, "documents")
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.ingest.finished)
        app._update_ingest(LogUpdate([(1.0, end), (2.0, began), (3.0, end)], is_restarted=True), False)
        await until(lambda: app._notifications)
        app._notify_end("Training", "training", "stopped", "train")
        await until(lambda: len(app._notifications) > 1)
        assert [note.message for note in app._notifications] == ["Ingest finished.", "Training stopped."]


async def test_ctrl_c_in_the_pager_does_not_end_the_dashboard(
    options: DashboardOptions, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []

    def handle(number: int, _: object) -> None:
        received.append(number)

    # The dashboard's own would end the tests.
    before = signal.signal(signal.SIGINT, handle)
    opened: list[object] = []

    def show(*_: object) -> None:
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


async def test_a_document_is_opened_and_its_path_copied(
    options: DashboardOptions, make_bank: Any, record: Any, tmp_path: Path, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
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


async def test_enter_searches_the_contents_and_shows_the_sentence_that_fits(
    options: DashboardOptions,
    make_bank: Any,
    record: Any,
    tmp_path: Path,
    until: Any,
    screen: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[Path, int]] = []
    monkeypatch.setattr(module, "open_file", lambda *place: opened.append(place))
    monkeypatch.setattr(Dashboard, "suspend", contextmanager(lambda self: iter([None])))
    ada, bruno = (tmp_path / f"{name}.txt" for name in ("ada", "bruno"))
    passages = [
        Source(str(path), "", 0.5, 0, "unchanged", sentence, None, "file", 0, None, "memory.mbc", 7)
        for path, sentence in ((bruno, "It rained."), (ada, "Ada moved."), (bruno, "So what."))
    ]
    monkeypatch.setattr(AnswerWorker, "_open", lambda self: None)
    monkeypatch.setattr(Memory, "search", lambda self, queries, top: [passages])
    ada.write_text("Ada moved. It snowed.\n\nThe end.")
    bruno.write_text("Hello! It rained.")
    make_bank("memory.mbc", *filter(None, (read_document(str(path)) for path in (ada, bruno))))
    app = Dashboard(options, "documents")
    async with app.run_test(size=(120, 40)) as pilot:
        view = app.query_one(DocumentsView)
        await until(lambda: len(view.query_one("#rows", RowTable).rows) == 2)
        await pilot.press("slash", *"weather", "enter")
        await until(
            lambda: [key for key, _ in view.query_one("#rows", RowTable).rows] == [(str(bruno), ""), (str(ada), "")]
        )
        await until(lambda: "Hello! It rained." in screen(app) and "2 documents, best first" in screen(app))
        content = view.query_one("#content Static", Static).visual
        assert [content.plain[span.start : span.end] for span in content.spans if "underline" in str(span.style)] == [
            "It rained."
        ]
        await pilot.press("o", "down")
        await until(lambda: "Ada moved. It snowed." in screen(app) and "The end." in screen(app))
        assert opened == [(bruno, 7)]
        await pilot.press("slash", "backspace")
        await until(lambda: "2 found" in screen(app))


async def test_the_demo_is_a_key_while_there_is_no_bank(
    options: DashboardOptions, until: Any, home: Path, monkeypatch: Any
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(module, "ChildProcess", lambda arguments, on_end: (commands.append(arguments), on_end("")))
    app = Dashboard(options)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.state.bank_error)
        await until(lambda: app.check_action("demo", ()))
        await pilot.press("D")
        await until(lambda: app.return_value is not None)
        assert commands[0][0] == "demo" and app.return_value.name == "demo.mbc"


async def test_the_demo_is_prepared_once_on_the_device_of_the_dashboard_however_often_its_key_is_pressed(
    options: DashboardOptions, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    class Child:
        is_running = True

        def __init__(self, arguments: list[str], on_end: object) -> None:
            commands.append(arguments)

    monkeypatch.setattr(module, "ChildProcess", Child)
    app = Dashboard(replace(options, device="cpu"))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(lambda: app.state.bank_error)
        await pilot.press("D", "D")
        assert [(own[0], own[-1]) for own in commands] == [("demo", "--device=cpu")]
