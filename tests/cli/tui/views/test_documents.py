"""The Documents view: finding, reading, removing and restoring, whatever other processes do meanwhile."""

import sqlite3

import pytest
from textual.widgets import Input

from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.widgets.cells import RowTable
from mbc_engine.bank import database
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.memory import Memory
from tests.cli.stub_memory import source
from tests.cli.tui.conftest import HARMLESS, HOSTILE, SMALL, shown_keys


def found(app):
    """The column of sources."""
    return [cells[0] for _, cells in app.query_one("#found RowTable", RowTable).rows]


async def find(pilot, text):
    await pilot.press("slash")
    pilot.app.query_one("#text", Input).value = text
    await pilot.press("down")


@pytest.mark.slow
async def test_all_documents_are_read_at_the_end(app, make_bank, record, until, screen):
    make_bank("memory.mbc", *(record(f"/{number:04}.txt", "xyz"[: 1 + number // 1001]) for number in range(1003)))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        await pilot.press("end")
        await until(lambda: "1,003 found" in screen(app))
        assert len(found(app)) == 1003
        await find(pilot, "txt")
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        for _ in range(3):  # by source, by date, by chunks
            await pilot.press("greater_than_sign")
        await until(lambda: "1,003 found" in screen(app))
        assert found(app)[:2] == ["/1002.txt", "/1001.txt"]


async def test_find_sort_and_read(app, make_bank, record, until, screen):
    hostile, harmless = f"/{HOSTILE}.txt", f"/{HARMLESS}.txt"
    made = record("/bad.txt", "xy", date="2024-05-06"), record(hostile, "xyz"), record("/c.csv", "1234", "7")
    make_bank("memory.mbc", *made)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/bad.txt", harmless, "/c.csv#7"])
        await until(lambda: "2 chunks: " in screen(app) and "3 found" in screen(app))
        assert "2024-05-06" in screen(app)
        assert harmless in screen(app) and "\x1b" not in screen(app)
        await pilot.press("down")
        await until(lambda: "3 chunks: " in screen(app))
        orders = []
        for _ in range(5):  # by source, by date, by chunks, by size, as they were ingested
            await pilot.press("greater_than_sign")
            orders.append(found(app))
        by_size = ["/c.csv#7", harmless, "/bad.txt"]
        assert orders[0] == [harmless, "/bad.txt", "/c.csv#7"]
        assert orders[2:] == [by_size, by_size, ["/bad.txt", harmless, "/c.csv#7"]]
        await find(pilot, "txt")
        await until(lambda: found(app) == ["/bad.txt", harmless])
        await pilot.press("escape")
        await until(lambda: len(found(app)) == 3)
        await find(pilot, "no such")
        await until(lambda: "0 found · Enter searches the contents" in screen(app))
        await until(lambda: "No path or date matches. Enter searches the contents, Escape shows all." in screen(app))
        await until(lambda: not shown_keys(app) & {"Mark", "Remove", "Sort"})
        await pilot.press("escape")
        await until(lambda: shown_keys(app) >= {"Mark", "Remove", "Sort"})


async def test_damaged_text(app, coded_bank, until, screen, monkeypatch):
    def encode(chunk):
        text = encode_chunk(chunk)
        return text._replace(check=text.check ^ 1) if chunk.text == "Ada" else text

    monkeypatch.setattr("mbc_engine.bank.memory_bank.encode_chunk", encode)
    coded_bank({("/a.txt", "Ada"): [0], ("/b.txt", "Bruno"): [0]})
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "Restore it from a backup" in screen(app))
        assert "/a.txt" in screen(app) and "/b.txt" in screen(app)
        await pilot.press("j")
        await until(lambda: "Bruno" in screen(app) and "damage" not in screen(app))


async def test_remove_and_restore_search_hit(app, make_bank, record, until, screen, monkeypatch):
    names = ["/clara", "/ada", "/bruno"]
    path = make_bank("memory.mbc", *(record(name, name) for name in sorted(names)))
    monkeypatch.setattr(AnswerWorker, "_open", lambda self: None)
    monkeypatch.setattr(Memory, "search", lambda self, queries, top: [[source(name) for name in names]])
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await pilot.press("slash", *"weather", "enter")
        await until(lambda: found(app) == names)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await pilot.press("j", "x", "y")
        await until(lambda: any("another process" in note.message.lower() for note in app._notifications))
        other.execute("ROLLBACK")
        other.close()
        await pilot.press("x", "y")
        await until(lambda: found(app) == ["/clara", "/bruno"] and "2 documents, best first" in screen(app))
        await until(lambda: len(app._notifications) == 2)
        await pilot.press("u")
        await until(lambda: found(app) == names)
