"""The Ingest view: choosing a folder, following an ingest, whoever started it, and stopping it."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from textual.widgets import Input, Static

from mbc_cli.paths import activity_log
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.widgets.cells import RowTable
from mbc_cli.tui.widgets.inputs import Confirm, FolderTree, PlainCheckbox
from mbc_engine.bank import MemoryBank
from mbc_engine.bank.verification import verify
from mbc_engine.events import BankVerified, DocumentsIngested, FileSkipped, IngestStarted
from mbc_engine.runs.ingests import recorded
from tests.cli.stub_memory import ingested
from tests.cli.tui.conftest import HARMLESS, HOSTILE, LARGE, SMALL, shown_keys

MINI = Path(str(files("mbc_engine") / "models" / "mini"))
EVENTS = [
    IngestStarted(4, 4000),
    FileSkipped(f"/{HOSTILE}.pdf", f"is not readable: {'because ' * 8}of this"),
    FileSkipped("/empty.txt", "is empty"),
    DocumentsIngested(10, 100, 0, 1000, 1.0, ("/one.txt",)),
    DocumentsIngested(20, 200, 3, 2000, 2.0, (f"/{HOSTILE}.txt",)),
]


def text_of(app, name):
    return str(app.query_one(name, Static).content)


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


async def test_ingest_by_another_process(app, options, until, screen):
    end = ingested(30, chunks=300, unchanged=3, bank_chunks=300)[-1]
    ingest = recorded(iter([*EVENTS, end]), activity_log(options.bank))
    async with app.run_test(size=SMALL):
        await until(lambda: "Nothing ingested yet" in text_of(app, "#state"))
        for _ in EVENTS:
            next(ingest)
        await until(lambda: "another process" in text_of(app, "#state"))
        for words in (" 50%", "2 kB of 4 kB in 4 files", "20 ingested, 3 unchanged", "200 in 2.00 s, 100/s"):
            await until(lambda words=words: words in screen(app))
        assert "/one.txt" in screen(app) and HARMLESS in screen(app) and "\x1b" not in screen(app)
        assert text_of(app, "#reason") == f"/{HARMLESS}.pdf is not readable: {'because ' * 8}of this"
        assert skipped(app)[1] == ("/empty.txt", "is empty")
        assert not shown_keys(app) & {"Ingest", "Stop"}  # it is stopped where it was started
        assert list(ingest) == [end]
        await until(lambda: "Finished" in text_of(app, "#state"))
        await until(lambda: "30 ingested, 3 unchanged" in screen(app))
        await until(lambda: "30 documents, 300 chunks" in screen(app))


async def test_choose_and_ingest(app, options, home, make_bank, until, screen, started):
    make_bank("memory.mbc", keeps_origins=False)
    folder = home / "-x"
    folder.mkdir()
    for name in (f"{HOSTILE}.txt", ".hidden", "[bold]"):
        (folder / name).touch()
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: app.state.bank)
        await go_to(pilot, "./-x")
        await until(lambda: names(app) == ["[bold]", f"{HARMLESS}.txt"])
        await pilot.press("down", "down")
        await until(lambda: f"Ingest {HARMLESS}.txt" in screen(app))
        assert "\x1b" not in screen(app)
        await pilot.press("backspace")
        await until(lambda: "-x" in names(app))
        await go_to(pilot, "./-x")
        await until(lambda: app.query_one(FolderTree).chosen == folder)
        app.query_one("#prune", PlainCheckbox).value = True
        app.query_one("#ignore", Input).value = "-a  *.csv"
        await pilot.press("i")
        await until(lambda: "Ingesting" in text_of(app, "#state"))  # it is not logged
    arguments = [f"--bank={options.bank}", f"--model={options.model}", "--ignore=-a", "--ignore=*.csv"]
    # The config file may watch by default.
    (child,) = started
    assert child.arguments == ["ingest", *arguments, "--no-watch", "--prune", "--", str(folder)]


async def test_ingest_that_fails_to_begin_then_watch(app, options, until, screen, started):
    """The figures of the one before are not shown as its own."""

    def ingest_elsewhere():
        return list(recorded(iter(ingested()), activity_log(options.bank)))

    ingest_elsewhere()
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "2 ingested" in screen(app) and app.query_one(FolderTree).chosen)
        assert app.query_one("#by").outer_size == app.query_one("#lists").size  # nothing was skipped
        await pilot.press("i")
        started[0].is_running = False
        started[0].on_end("Error: No files to ingest in /notes.")
        await until(lambda: "Failed. No files to ingest" in screen(app))
        assert "2 ingested" not in screen(app)
        app.query_one("#watch", PlainCheckbox).value = True
        await pilot.press("i")
        ingest_elsewhere()
        await until(lambda: "Watching" in text_of(app, "#state"))


@pytest.mark.skipif(not MINI.is_dir(), reason="the embedded model is not there")
@pytest.mark.slow
async def test_stop_ingest_of_mini(options, home, until):
    folder = home / "stories"
    folder.mkdir()
    for number in range(600):
        (folder / f"{number:03}.txt").write_text(f"Story {number} of the harbour and the bridge. " * 4)
    (folder / "0.txt").touch()
    app = Dashboard(replace(options, model="mini"), "ingest")
    async with app.run_test(size=LARGE) as pilot:
        await go_to(pilot, "stories")
        await until(lambda: "0.txt" in names(app))
        await pilot.press("i")
        await until(lambda: app.state.is_ingesting and (done := app.state.ingest.reported) and done.documents)
        await until(lambda: "Ingesting stories" in text_of(app, "#state"))
        await until(lambda: skipped(app) == [("0.txt", "is empty")])
        await pilot.press("s")
        assert isinstance(app.screen, Confirm)
        await pilot.press("y")
        await until(lambda: "Stopping" in text_of(app, "#state") or app.state.ingest_state == "stopped")
        await until(lambda: "Stopped" in text_of(app, "#state"))
        finished = app.state.ingest.finished
    with MemoryBank.open(options.bank) as bank:
        assert 0 < bank.totals().documents == finished.documents < 600
    *_, end = verify(options.bank)
    assert isinstance(end, BankVerified) and not end.damages
