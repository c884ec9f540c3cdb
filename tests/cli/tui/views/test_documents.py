"""The Documents view: finding, reading, removing and restoring, whatever other processes do meanwhile."""

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.inputs import Confirm
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument, database
from mbc_engine.bank.records import EncodedText
from mbc_engine.bank.text_codec import encode_chunk
from mbc_engine.text import Chunk
from tests.cli.tui.conftest import shown_keys

HOSTILE, HARMLESS = "/[red]\x1b[31m\u202eb.txt", "/[red]␛[31m<U+202E>b.txt"
SMALL, LARGE = (80, 24), (200, 50)


def dashboard(options: DashboardOptions) -> Dashboard:
    return Dashboard(options, DocumentsView.NAME)


def found(app: Dashboard) -> list[str]:
    """The column of sources."""
    return [cells[0] for _, cells in app.query_one("#found RowTable", RowTable).rows]


def notifications(app: Dashboard) -> list[str]:
    """The messages of all notifications."""
    return [notification.message for notification in app._notifications]


def stored(path: Path) -> set[str]:
    with MemoryBank.open(path, read_only=True) as bank:
        return {origin.name for document in bank.documents() for origin in document.origins}


async def find(pilot: Pilot[None], text: str) -> None:
    await pilot.press("slash")
    pilot.app.query_one("#text", Input).value = text
    await pilot.press("down")


async def test_the_end_and_the_order_are_those_of_all_documents(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    make_bank("memory.mbc", *(record(f"/{number:04}.txt", "xyz"[: 1 + number // 1001]) for number in range(1003)))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        await pilot.press("end")
        await until(lambda: "1,003 found" in screen(app))
        table = app.query_one("#found RowTable", RowTable)
        assert table.cursor == 1002
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "1,000 of 1,003 shown" in screen(app))
        for _ in range(3):  # by source, by date, by chunks
            await pilot.press("s")
        await until(lambda: "1,003 found" in screen(app))
        assert found(app)[:2] == ["/1002.txt", "/1001.txt"]


@pytest.mark.parametrize("size", [SMALL, pytest.param(LARGE, marks=pytest.mark.slow)])
async def test_documents_are_listed_and_looked_at(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, size: tuple[int, int], screen: Any
) -> None:
    make_bank(
        "memory.mbc", record("/b.txt", "xy", date="2024-05-06"), record(HOSTILE, "xyz"), record("/c.csv", "v", "7")
    )
    app = dashboard(options)
    async with app.run_test(size=size) as pilot:
        await until(lambda: found(app) == ["/b.txt", HARMLESS, "/c.csv#7"])
        await until(lambda: "2 chunks: " in screen(app))
        assert "2024-05-06" in screen(app)
        assert HARMLESS in screen(app)
        assert "\x1b" not in screen(app)
        assert str(app.query_one("#count", Static).content) == "3 found"
        await pilot.press("down")
        await until(lambda: "3 chunks: " in screen(app))
        codes = app.query_one("#codes", RowTable)
        for code, chunks in (("0", "3"), ("1", "2"), ("2", "1")):  # of one chunk after another
            await pilot.press("c")
            await until(lambda: [cells[1:3] for _, cells in codes.rows] == [(code, chunks)])  # noqa: B023
        await pilot.press("c")
        await until(lambda: not codes.display)


async def test_what_is_typed_is_found_and_escape_shows_all_again(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    make_bank("memory.mbc", *(record(f"/{name}.txt", name) for name in ("ada", "bruno", "adam")))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await find(pilot, "ada")
        await until(lambda: found(app) == ["/ada.txt", "/adam.txt"])
        await pilot.press("escape")
        await until(lambda: len(found(app)) == 3)
        await find(pilot, "no such")
        await until(lambda: str(app.query_one("#count", Static).content) == "0 found")
        await until(lambda: "Nothing matches. Escape shows all." in screen(app))
        await until(lambda: not shown_keys(app) & {"Mark", "Remove", "Sort"})
        await pilot.press("escape")
        await until(lambda: shown_keys(app) >= {"Mark", "Remove", "Sort"})


async def test_a_document_jumped_to_is_listed_alone_whatever_its_name(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    names = ("/a ", "/a b", "/a\nb", HOSTILE)
    make_bank("memory.mbc", *(record(name, name) for name in names))
    app = dashboard(options)
    async with app.run_test(size=SMALL):
        rows = app.query_one("#found RowTable", RowTable)
        await until(lambda: len(rows.rows) == 4)
        for name in names:
            app.show_document(name)
            await until(lambda name=name: [key for key, _ in rows.rows] == [(name, "")])
        assert app.query_one("#text", Input).value == HARMLESS


async def test_a_damaged_text_is_reported_beside_the_list(
    options: DashboardOptions, record: Any, until: Any, screen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(chunk: Chunk) -> EncodedText:
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
        await until(lambda: "`mbc bank verify` lists the damage" in screen(app))
        assert "/a.txt" in screen(app) and "/b.txt" in screen(app)
        await pilot.press("j")
        await until(lambda: "Bruno" in screen(app) and "damage" not in screen(app))


async def test_no_more_than_a_thousand_rows_are_shown(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    make_bank("memory.mbc", *(record(f"/{number:04}", "x") for number in range(1200)))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 1000)
        assert str(app.query_one("#count", Static).content) == "1,000 of 1,200 shown"
        await find(pilot, "/11")
        await until(lambda: len(found(app)) == 100)


async def test_rows_are_sorted_by_a_column_and_back(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    make_bank("memory.mbc", record("/b", "xyz"), record("/c", "x"), record("/a", "xy"))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/b", "/c", "/a"])
        await pilot.press("s")
        assert found(app) == ["/a", "/b", "/c"]
        await pilot.press("s", "s")  # by date, then by chunks
        assert found(app) == ["/b", "/a", "/c"]
        await pilot.press("s", "s")
        assert found(app) == ["/b", "/c", "/a"]


async def test_a_removal_is_undone_and_a_second_one_too(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    path = make_bank("memory.mbc", *(record(f"/{name}", name) for name in "abcd"))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 4)
        await pilot.press("down", "d")
        await until(lambda: found(app) == ["/a", "/c", "/d"])
        assert app.query_one("#found RowTable", RowTable).key == ("/c", "")
        await pilot.press("space", "space", "delete")
        await until(lambda: found(app) == ["/a"])
        assert stored(path) == {"/a"}
        await until(lambda: notifications(app)[-1] == "Removed 2 documents. Press u to undo.")
        await pilot.press("u")
        await until(lambda: stored(path) == {"/a", "/c", "/d"})
        await pilot.press("ctrl+z")
        await until(lambda: stored(path) == {"/a", "/b", "/c", "/d"})
        await until(lambda: len(found(app)) == 4)
        await until(lambda: notifications(app)[-1] == "Restored 1 document.")
        await until(lambda: "Undo" not in screen(app))


async def test_more_than_twenty_are_removed_only_if_that_is_meant(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    path = make_bank("memory.mbc", *(record(f"/{number:02}", "x") for number in range(25)))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 25)
        rows = app.query_one("#found RowTable", RowTable)
        rows.marked = frozenset(key for key, _ in rows.rows[:21])
        await pilot.press("d")
        assert isinstance(app.screen, Confirm)
        await pilot.press("n")
        assert len(stored(path)) == 25
        await pilot.press("d", "y")
        await until(lambda: len(stored(path)) == 4)


async def test_a_bank_without_names_shows_digests_and_removes_by_them(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any
) -> None:
    records = [record("/a", "x"), record("/b", "xy")]
    make_bank("memory.mbc", *records, keeps_origins=False)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == [own.digest[:12] for own in records])
        await pilot.press("d")
        await until(lambda: found(app) == [records[1].digest[:12]])
        await pilot.press("u")
        await until(lambda: len(found(app)) == 2)


async def test_a_bank_that_another_process_writes_is_reported_as_busy(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_bank("memory.mbc", record("/a", "x"))
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.05)
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/a"])
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await pilot.press("d")
        await until(lambda: notifications(app))
        assert "another process" in notifications(app)[0].lower()
        other.execute("ROLLBACK")
        other.close()
        await pilot.press("d")
        await until(lambda: found(app) == [])


async def test_without_a_bank_it_says_why_and_shows_the_bank_that_comes(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any
) -> None:
    app = dashboard(options)
    async with app.run_test(size=SMALL):
        await until(lambda: app.state.bank_error and "No bank at" in screen(app))
        await until(lambda: "Search" in shown_keys(app))
        path = make_bank("memory.mbc")
        await until(lambda: "The bank is empty." in screen(app))
        await until(lambda: app.query_one("#rows").has_focus)
        with MemoryBank.open(path) as bank:
            bank.put([StoredDocument.of(record("/a", "x"), np.zeros((1, 2, 1), np.uint16))])
        await until(lambda: found(app) == ["/a"])
        await until(lambda: "/a" in screen(app))


@pytest.mark.slow
async def test_an_ingest_of_another_process_is_seen(options: DashboardOptions, notes: Path, until: Any) -> None:
    app = dashboard(options)
    async with app.run_test(size=SMALL):
        command = [sys.executable, "-m", "mbc_cli", "ingest", str(notes), "--workers=0"]
        command += [f"--bank={options.bank}", f"--model={options.model}"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
            await until(lambda: other.poll() is not None)
        assert other.returncode == 0
        await until(lambda: len(found(app)) == 2)


async def test_a_removal_that_has_to_wait_is_shown_and_keeps_nobody_from_leaving(
    options: DashboardOptions, make_bank: Any, record: Any, until: Any, screen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 86_400)
    path = make_bank("memory.mbc", record("/a.txt", "a"))
    app = dashboard(options)
    writer = sqlite3.connect(path, isolation_level=None)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app))
        writer.execute("BEGIN IMMEDIATE")
        await pilot.press("d")
        await until(lambda: "waiting for the bank" in screen(app))
        await pilot.press("q")
    writer.close()
