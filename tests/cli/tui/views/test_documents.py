"""The Documents view: finding, reading, removing and restoring, whatever other processes do meanwhile."""

import sqlite3

import numpy as np
import pytest
from textual.widgets import Input, Static

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.answer import Source
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, database
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.errors import ModelError
from mbc_engine.memory import Memory
from mbc_engine.text import Chunk
from tests.cli.tui.conftest import shown_keys

HOSTILE, HARMLESS = "/[red]\x1b[31m\u202eb.txt", "/[red]␛[31m<U+202E>b.txt"
SMALL = (80, 24)


def dashboard(options):
    return Dashboard(options, DocumentsView.NAME)


def found(app):
    """The column of sources."""
    return [cells[0] for _, cells in app.query_one("#found RowTable", RowTable).rows]


def notifications(app):
    """The messages of all notifications."""
    return [notification.message for notification in app._notifications]


def stored(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return {origin.name for document in bank.documents() for origin in document.origins}


async def find(pilot, text):
    await pilot.press("slash")
    pilot.app.query_one("#text", Input).value = text
    await pilot.press("down")


@pytest.mark.slow
async def test_all_documents_are_read_at_the_end(options, make_bank, record, until, screen):
    make_bank("memory.mbc", *(record(f"/{number:04}.txt", "xyz"[: 1 + number // 1001]) for number in range(1003)))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        await pilot.press("end")
        await until(lambda: "1,003 found" in screen(app))
        assert len(found(app)) == 1003
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        for _ in range(3):  # by source, by date, by chunks
            await pilot.press("greater_than_sign")
        await until(lambda: "1,003 found" in screen(app))
        assert found(app)[:2] == ["/1002.txt", "/1001.txt"]


async def test_list_and_read_documents(options, make_bank, record, until, screen):
    make_bank(
        "memory.mbc", record("/b.txt", "xy", date="2024-05-06"), record(HOSTILE, "xyz"), record("/c.csv", "v", "7")
    )
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/b.txt", HARMLESS, "/c.csv#7"])
        await until(lambda: "2 chunks: " in screen(app))
        assert "2024-05-06" in screen(app)
        assert HARMLESS in screen(app)
        assert "\x1b" not in screen(app)
        assert str(app.query_one("#count", Static).content) == "3 found"
        await pilot.press("down")
        await until(lambda: "3 chunks: " in screen(app))


async def test_filter_by_name(options, make_bank, record, until, screen):
    make_bank("memory.mbc", *(record(f"/{name}.txt", name) for name in ("ada", "bruno", "adam")))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await find(pilot, "ada")
        await until(lambda: found(app) == ["/ada.txt", "/adam.txt"])
        await pilot.press("escape")
        await until(lambda: len(found(app)) == 3)
        await find(pilot, "no such")
        await until(lambda: str(app.query_one("#count", Static).content) == "0 found · Enter searches the contents")
        await until(lambda: "No path or date matches. Enter searches the contents, Escape shows all." in screen(app))
        await until(lambda: not shown_keys(app) & {"Mark", "Remove", "Sort"})
        await pilot.press("escape")
        await until(lambda: shown_keys(app) >= {"Mark", "Remove", "Sort"})


async def test_damaged_text(options, record, until, screen, monkeypatch):
    def encode(chunk):
        text = encode_chunk(chunk)
        return text._replace(check=text.check ^ 1) if chunk.text == "Ada" else text

    monkeypatch.setattr("mbc_engine.bank.memory_bank.encode_chunk", encode)
    shape = CodeShape(tokens=2, levels=1, num_codes=8, per_position=False)
    with MemoryBank.create(options.bank, ModelSignature("m", "aa", "bb"), shape, 2, keeps_text=True) as bank:
        for name, text in (("/a.txt", "Ada"), ("/b.txt", "Bruno")):
            codes = np.zeros((1, 2, 1), np.uint16)
            bank.put([StoredDocument.of(record(name, name), codes, texts=[Chunk(text, 0)])])
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "Restore it from a backup" in screen(app))
        assert "/a.txt" in screen(app) and "/b.txt" in screen(app)
        await pilot.press("j")
        await until(lambda: "Bruno" in screen(app) and "damage" not in screen(app))


async def test_sort(options, make_bank, record, until):
    make_bank("memory.mbc", record("/b", "xyz"), record("/c", "x"), record("/a", "xy"))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/b", "/c", "/a"])
        await pilot.press("greater_than_sign")
        assert found(app) == ["/a", "/b", "/c"]
        await pilot.press("greater_than_sign", "greater_than_sign")  # by date, then by chunks
        assert found(app) == ["/b", "/a", "/c"]
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert found(app) == ["/b", "/c", "/a"]


@pytest.mark.slow
async def test_removing_asks_first(options, make_bank, record, until, screen):
    path = make_bank("memory.mbc", *(record(f"/{name}", "x") for name in "abc"))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        for no, question in (("d", ""), ("x", "Remove /a"), ("enter", ""), ("delete", "Remove /a"), ("escape", "")):
            await pilot.press(no)
            await until(lambda question=question: (question or "3 found") in screen(app))
        await pilot.press("space", "space", "x")
        await until(lambda: "Remove 2 documents" in screen(app))
        assert len(stored(path)) == 3
        await pilot.press("y")
        await until(lambda: stored(path) == {"/c"})


async def test_remove_by_digest_without_origins(options, make_bank, record, until):
    records = [record("/a", "x"), record("/b", "xy")]
    make_bank("memory.mbc", *records, keeps_origins=False)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == [document.digest[:12] for document in records])
        await pilot.press("x", "y")
        await until(lambda: found(app) == [records[1].digest[:12]])
        await pilot.press("u")
        await until(lambda: len(found(app)) == 2)


async def test_busy_bank(options, make_bank, record, until, monkeypatch):
    path = make_bank("memory.mbc", record("/a", "x"))
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/a"])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await pilot.press("x", "y")
        await until(lambda: notifications(app))
        assert "another process" in notifications(app)[0].lower()
        other.execute("ROLLBACK")
        other.close()
        await pilot.press("x", "y")
        await until(lambda: found(app) == [])


@pytest.fixture
def finds(monkeypatch):
    """Makes every search of the contents find these documents."""

    def find(*names):
        passages = [Source(name, "", 0.5, 0, "unchanged", None, None, None, 0, None, "memory.mbc") for name in names]
        monkeypatch.setattr(AnswerWorker, "_open", lambda self: None)
        monkeypatch.setattr(Memory, "search", lambda self, queries, top: [passages])

    return find


async def test_remove_and_restore_search_hit(options, make_bank, record, until, screen, finds):
    names = ["/clara", "/ada", "/bruno"]
    make_bank("memory.mbc", *(record(name, name) for name in sorted(names)))
    finds(*names)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await pilot.press("slash", *"weather", "enter")
        await until(lambda: found(app) == names)
        await pilot.press("j", "x", "y")
        await until(lambda: found(app) == ["/clara", "/bruno"] and "2 documents, best first" in screen(app))
        await until(lambda: app._notifications)
        await pilot.press("u")
        await until(lambda: found(app) == names)


@pytest.mark.slow
async def test_failed_search_can_be_left(options, make_bank, record, until, screen, monkeypatch):
    def fail(worker, query):
        raise ModelError("no such model")

    monkeypatch.setattr(AnswerWorker, "search", fail)
    make_bank("memory.mbc", record("/a", "x"))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/a"])
        await pilot.press("slash", *"who", "enter")
        await until(lambda: "no such model" in screen(app))
        await until(lambda: "Search" in shown_keys(app) and "Remove" not in shown_keys(app))
        await pilot.press("slash", "x", "escape", "escape")
        await until(lambda: "no such model" not in screen(app) and app.query_one("#rows").has_focus)
        await until(lambda: found(app) == ["/a"])
