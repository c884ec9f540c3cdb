"""Searching the contents of documents with the model of Ask, and what becomes of the results."""

import pytest

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.answer import Source
from mbc_engine.errors import ModelError
from mbc_engine.memory import Memory
from tests.cli.tui.conftest import shown_keys

SMALL = (80, 24)


@pytest.fixture
def app(options):
    return Dashboard(options, DocumentsView.NAME)


def found(app):
    """The column of sources."""
    return [cells[0] for _, cells in app.query_one("#found RowTable", RowTable).rows]


@pytest.fixture
def finds(monkeypatch):
    """Makes every search of the contents find these documents."""

    def find(*names):
        passages = [Source(name, "", 0.5, 0, "unchanged", None, None, None, 0, None, "memory.mbc") for name in names]
        monkeypatch.setattr(AnswerWorker, "_open", lambda self: None)
        monkeypatch.setattr(Memory, "search", lambda self, queries, top: [passages])

    return find


async def test_remove_and_restore_search_hit(app, make_bank, record, until, screen, finds):
    names = ["/clara", "/ada", "/bruno"]
    make_bank("memory.mbc", *(record(name, name) for name in sorted(names)))
    finds(*names)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await pilot.press("slash", *"weather", "enter")
        await until(lambda: found(app) == names)
        await pilot.press("j", "d")
        await until(lambda: found(app) == ["/clara", "/bruno"] and "2 documents, best first" in screen(app))
        await until(lambda: app._notifications)
        await pilot.press("u")
        await until(lambda: found(app) == names)


async def test_remove_hit_with_several_origins(app, make_bank, record, until, finds):
    make_bank("memory.mbc", record("/ada", "same"), record("/copy", "same"), record("/bruno", "x"))
    finds("/ada")
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 3)
        await pilot.press("slash", *"weather", "enter")
        await until(lambda: found(app) == ["/ada"])
        await pilot.press("d")
        await until(lambda: app.state.bank.totals.origins == 1)
        await until(lambda: found(app) == [] and app._notifications)
        await pilot.press("u")
        await until(lambda: app.state.bank.totals.origins == 3)


async def test_failed_search_can_be_left(app, make_bank, record, until, screen, monkeypatch):
    def fail(worker, query):
        raise ModelError("no such model")

    monkeypatch.setattr(AnswerWorker, "search", fail)
    make_bank("memory.mbc", record("/a", "x"))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: found(app) == ["/a"])
        await pilot.press("slash", *"who", "enter")
        await until(lambda: "no such model" in screen(app))
        await until(lambda: "Search" in shown_keys(app) and "Remove" not in shown_keys(app))
        await pilot.press("slash", "x", "escape", "escape")
        await until(lambda: "no such model" not in screen(app) and app.query_one("#rows").has_focus)
        await until(lambda: found(app) == ["/a"])


async def test_bank_reappears_after_search(app, make_bank, record, until, home, finds):
    make_bank("memory.mbc", record("/ada", "x"), record("/bruno", "xy"))
    finds("/bruno", "/ada")
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 2)
        await pilot.press("slash", *"ada", "enter")
        await until(lambda: found(app) == ["/bruno", "/ada"])
        (home / "away").mkdir()
        for file in home.glob("memory.mbc*"):
            file.rename(home / "away" / file.name)
        await until(lambda: app.state.bank_error)
        await until(lambda: app.query_one("#trouble").has_focus)
        for file in (home / "away").iterdir():
            file.rename(home / file.name)
        await until(lambda: found(app) == ["/ada"] and app.query_one("#rows").has_focus)
