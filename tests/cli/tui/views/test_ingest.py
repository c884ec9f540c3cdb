"""The Ingest view: choosing a folder, following an ingest, whoever started it, and stopping it."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from mbc_cli.config import activity_log
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ingest import IngestView
from mbc_cli.tui.widgets.inputs import Confirm, FolderTree, PlainCheckbox
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.verification import verify
from mbc_engine.events import BankVerified, DocumentsIngested, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.runs.ingests import recorded
from tests.cli.tui.conftest import shown_keys

HOSTILE, HARMLESS = "[red]\x1b[31m\u202eb", "[red]␛[31m<U+202E>b"
SMALL, LARGE = (80, 24), (200, 50)
MINI = Path(str(files("mbc_engine") / "models" / "mini"))
EVENTS = [
    IngestStarted(4, 4000),
    FileSkipped(f"/{HOSTILE}.pdf", f"is damaged: {HOSTILE}"),
    FileSkipped("/empty.txt", "is empty"),
    DocumentsIngested(10, 100, 0, 1000, 1.0, ("/one.txt",)),
    DocumentsIngested(20, 200, 3, 2000, 2.0, (f"/{HOSTILE}.txt",)),
]
END = IngestFinished(
    documents=30,
    chunks=300,
    unchanged=3,
    removed=1,
    skipped=2,
    seconds=4.0,
    encoding=3.0,
    is_complete=True,
    bank_documents=30,
    bank_origins=30,
    bank_chunks=300,
    code_bytes=3000,
    codebook_bytes=100,
    file_bytes=9000,
)


def dashboard(options):
    return Dashboard(options, IngestView.NAME)


def state(app):
    return str(app.query_one("#state", Static).content)


def names(app):
    """What the tree shows below its root."""
    return [node.label.plain for node in app.query_one(FolderTree).root.children]


def skipped(app):
    return [cells for _, cells in app.query_one("#skipped RowTable", RowTable).rows]


async def go_to(pilot, path):
    await pilot.press("slash")
    await pilot.pause()
    pilot.app.screen.query_one(Input).value = path
    await pilot.press("enter")


@pytest.mark.slow
async def test_ingest_by_another_process(options, until, screen):
    app = dashboard(options)
    ingest = recorded(iter([*EVENTS, END]), activity_log(options.bank))
    async with app.run_test(size=SMALL):
        await until(lambda: "Nothing ingested yet" in state(app))
        for _ in EVENTS:
            next(ingest)
        await until(lambda: "another process" in state(app))
        for words in (
            " 50%",
            "2 kB of 4 kB in 4 files",
            "20 ingested, 3 unchanged",
            "200 in 2.00 s, 100/s",
            "/one.txt",
            HARMLESS,
        ):
            await until(lambda words=words: words in screen(app))
        assert "\x1b" not in screen(app)
        assert skipped(app)[1] == ("/empty.txt", "is empty")
        assert not shown_keys(app) & {"Ingest", "Stop"}  # it is stopped where it was started
        assert list(ingest) == [END]
        await until(lambda: "Finished" in state(app))
        await until(lambda: "30 ingested, 3 unchanged" in screen(app))
        await until(lambda: "30 documents, 300 chunks" in screen(app))


@pytest.mark.slow
async def test_tree_names(options, home, until, screen):
    folder = home / "files"
    folder.mkdir()
    for name in (f"{HOSTILE}.txt", ".hidden", "[bold]"):
        (folder / name).touch()
    app = dashboard(options)
    async with app.run_test(size=LARGE) as pilot:
        await go_to(pilot, "files")
        await until(lambda: names(app) == ["[bold]", f"{HARMLESS}.txt"])
        await pilot.press("down", "down")
        await until(lambda: f"Ingest {HARMLESS}.txt" in screen(app))
        assert "\x1b" not in screen(app)
        await pilot.press("backspace")
        await until(lambda: "files" in names(app))


@pytest.fixture
def started(monkeypatch):
    """The arguments of child processes, which are not really started."""
    found = []

    class Child:
        is_running = True

        def __init__(self, arguments, on_end):
            found.append(arguments)

        def interrupt(self):
            pass

    monkeypatch.setattr("mbc_cli.tui.views.ingest.ChildProcess", Child)
    return found


async def test_ingest_command(options, home, until, started):
    (home / "-x").mkdir()
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await go_to(pilot, "./-x")
        await until(lambda: app.query_one(FolderTree).chosen == home / "-x")
        app.query_one("#watch", PlainCheckbox).value = True
        app.query_one("#ignore", Input).value = "-a  *.csv"
        await pilot.press("i")
    arguments = [f"--bank={options.bank}", f"--model={options.model}", "--ignore=-a", "--ignore=*.csv"]
    # The config file may prune by default.
    assert started == [["ingest", *arguments, "--watch", "--no-prune", "--", str(home / "-x")]]


@pytest.mark.slow
async def test_failed_ingest(options, until):
    app = dashboard(options)
    async with app.run_test(size=SMALL):
        app.query_one(IngestView)._on_ingest_end("Error: no space left")
        await until(lambda: state(app) == "Failed. no space left")
        list(recorded(iter([*EVENTS, END]), activity_log(options.bank)))
        await until(lambda: "Finished" in state(app))


@pytest.mark.slow
@pytest.mark.parametrize(("is_watch", "words"), [(False, "Finished"), (True, "Watching")])
async def test_watch_continues_after_ingest(options, until, started, is_watch, words):
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: app.query_one(FolderTree).chosen)
        app.query_one("#watch", PlainCheckbox).value = is_watch
        await pilot.press("i")
        list(recorded(iter([*EVENTS, END]), activity_log(options.bank)))
        await until(lambda: words in state(app))


async def test_unlogged_ingest_does_not_show_loading(options, make_bank, until, started):
    make_bank("memory.mbc", keeps_origins=False)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: app.state.bank and app.query_one(FolderTree).chosen)
        await pilot.press("i")
        await until(lambda: "Ingesting" in state(app))


@pytest.mark.skipif(not MINI.is_dir(), reason="the embedded model is not there")
@pytest.mark.slow
async def test_stop_ingest_of_mini(options, home, until):
    folder = home / "stories"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:03}.txt").write_text(f"Story {number} of the harbour and the bridge. " * 4)
    (folder / "0.txt").touch()
    (folder / f"0{HOSTILE}.pdf").write_bytes(b"%PDF-1.4 nothing")
    app = dashboard(DashboardOptions(options.bank, "mini", options.runs))
    async with app.run_test(size=LARGE) as pilot:
        await go_to(pilot, "stories")
        await until(lambda: "0.txt" in names(app))
        await pilot.press("i")
        await until(lambda: app.state.is_ingesting and app.state.ingest.reported)
        await until(lambda: "Ingesting stories" in state(app))
        await until(lambda: len(skipped(app)) == 2)
        await pilot.press("s")
        assert isinstance(app.screen, Confirm)
        await pilot.press("y")
        await until(lambda: "Stopping" in state(app) or app.state.ingest_state == "stopped")
        await until(lambda: "Stopped" in state(app))
        assert {cells[0]: cells[1] for cells in skipped(app)}["0.txt"] == "is empty"
        assert any(cells[0] == f"0{HARMLESS}.pdf" and "damaged" in cells[1] for cells in skipped(app))
        finished = app.state.ingest.finished
    with MemoryBank.open(options.bank) as bank:
        assert 0 < bank.totals().documents == finished.documents < 600
    *_, end = verify(options.bank)
    assert isinstance(end, BankVerified) and not end.damages


async def test_full_reason_of_skip(options, until, screen):
    reason = f"is not readable: {'because ' * 8}of this"
    events = [IngestStarted(2, 8), FileSkipped("/a.pdf", reason), DocumentsIngested(0, 0, 1, 4, 0.0, ("/b.txt",))]
    for _ in recorded(iter([*events, replace(END, chunks=0)]), activity_log(options.bank)):
        pass
    app = dashboard(options)
    async with app.run_test(size=SMALL):
        await until(lambda: str(app.query_one("#reason", Static).content) == f"/a.pdf {reason}")
        assert "/s" not in screen(app)
