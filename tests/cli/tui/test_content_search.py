"""Searching the contents of documents with the model of Ask, and what becomes of the results."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.answer import Source
from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.errors import ModelError
from mbc_engine.memory import Memory
from tests.cli.tui.conftest import shown_keys
from tests.needs import PATIENCE

SMALL = (80, 24)


@pytest.fixture
def app(options: DashboardOptions) -> Dashboard:
    return Dashboard(options, DocumentsView.NAME)


def found(app: Dashboard) -> list[str]:
    """The column of sources."""
    return [cells[0] for _, cells in app.query_one("#found RowTable", RowTable).rows]


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every search of the contents find these documents."""

    def find(*names: str) -> None:
        passages = [Source(name, "", 0.5, 0, "unchanged", None, None, None, 0, None, "memory.mbc") for name in names]
        monkeypatch.setattr(AnswerWorker, "_open", lambda self: None)
        monkeypatch.setattr(Memory, "search", lambda self, queries, top: [passages])

    return find


async def test_what_is_removed_and_restored_leaves_and_joins_the_best_documents(
    app: Dashboard, make_bank: Any, record: Any, until: Any, screen: Any, finds: Any
) -> None:
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


async def test_a_content_search_outlasts_changes_of_the_bank(
    app: Dashboard,
    make_bank: Any,
    record: Any,
    until: Any,
    screen: Any,
    finds: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = make_bank("memory.mbc", record("/ada", "x"), record("/bruno", "xy"))
    finds("/ada")
    refreshes: list[Callable[[], object]] = []
    has_begun, resume = threading.Event(), threading.Event()
    debounce, search = DocumentsView.debounce, AnswerWorker.search

    def hold_refresh(view: DocumentsView, name: str, delay: float, call: Callable[[], object]) -> None:
        if name == "refresh":
            refreshes.append(call)
        else:
            debounce(view, name, delay, call)

    def wait_and_search(worker: AnswerWorker, query: str) -> Any:
        has_begun.set()
        assert resume.wait(PATIENCE)
        return search(worker, query)

    async def add(name: str) -> None:
        with MemoryBank.open(path) as bank:
            bank.put([StoredDocument.of(record(name, name), np.zeros((1, 2, 1), np.uint16))])
            documents = bank.totals().documents
        await until(lambda: app.state.bank.totals.documents == documents)
        app.view.draw()

    monkeypatch.setattr(AnswerWorker, "search", wait_and_search)
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 2)
        monkeypatch.setattr(DocumentsView, "debounce", hold_refresh)
        await add("/before")
        assert refreshes
        await pilot.press("slash", "b", "enter")
        await until(has_begun.is_set)
        await add("/meanwhile")
        for refresh in refreshes:
            refresh()
        resume.set()
        await until(lambda: found(app) == ["/ada"] and "1 document, best first" in screen(app))


async def test_enter_in_an_emptied_field_shows_all_documents(
    app: Dashboard, make_bank: Any, record: Any, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bank("memory.mbc", record("/ada", "x"), record("/bruno", "xy"))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(found(app)) == 2)
        await pilot.press("slash", *"ada")
        await until(lambda: found(app) == ["/ada"])
        monkeypatch.setattr("mbc_cli.tui.views.documents._SEARCH_DELAY", 86_400)  # Enter is faster
        await pilot.press(*["backspace"] * 3, "enter")
        await until(lambda: len(found(app)) == 2)


async def test_a_document_found_by_its_contents_is_removed_from_everywhere_it_was_read(
    app: Dashboard, make_bank: Any, record: Any, until: Any, finds: Any
) -> None:
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


async def test_a_search_that_fails_leaves_a_way_back(
    app: Dashboard, make_bank: Any, record: Any, until: Any, screen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(worker: AnswerWorker, query: str) -> None:
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


async def test_a_bank_that_comes_back_is_listed_by_name_again(
    app: Dashboard, make_bank: Any, record: Any, until: Any, home: Path, finds: Any
) -> None:
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
