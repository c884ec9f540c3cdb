"""What the Overview tells of a bank: how it grew, by hand."""

from typing import Any

from mbc_cli.config import activity_log
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import BankSnapshot, DashboardState, Places
from mbc_cli.tui.views.overview import growth_points
from mbc_engine.bank import BankTotals
from mbc_engine.events import DocumentsIngested, Event, IngestFinished, IngestStarted
from mbc_engine.runs.ingests import recorded

STARTED = IngestStarted(3, 300)


def finished(chunks: int) -> IngestFinished:
    return IngestFinished(1, chunks, 0, 0, 0, 1.0, 1.0, True, 1, 1, chunks, chunks * 27, 0, 0)


def known(chunks: int, *events: tuple[float, Event]) -> DashboardState:
    found = DashboardState(bank=BankSnapshot.__new__(BankSnapshot))
    found.bank.__dict__["totals"] = BankTotals(1, 1, chunks)  # type: ignore[union-attr]
    found.ingest.add(events)
    return found


def test_a_bank_without_an_ingest_has_no_history() -> None:
    assert growth_points(known(5), now=100.0) == []


def test_a_first_ingest_begins_with_nothing_and_grows_until_now() -> None:
    at_work = known(7, (10.0, STARTED), (12.0, DocumentsIngested(7, 7, 0, 70, 2.0, ("a.txt",))))
    assert growth_points(at_work, now=13.5) == [(10.0, 0), (13.0, 7)]


def test_ends_of_ingests_are_joined_by_where_the_last_one_began() -> None:
    events = [(10.0, finished(4)), (20.0, finished(9)), (50.0, STARTED), (60.0, finished(12))]
    assert growth_points(known(11, *events), now=80.0) == [(10.0, 4), (20.0, 9), (50.0, 9), (60.0, 12), (80.0, 11)]


async def test_no_chunks_yet_are_no_curve(places: Places, make_bank: Any, until: Any, screen: Any) -> None:
    make_bank("memory.mbc")
    list(recorded(iter([STARTED, finished(0)]), activity_log(places.bank)))
    app = Dashboard(places)
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.bank and app.state.ingest.finished)
        await until(lambda: "finished" in screen(app))
        assert "nothing ingested yet" in screen(app)


def test_now_moves_in_steps_of_a_two_hundredth() -> None:
    events = [(0.0, STARTED), (100.0, finished(12))]
    assert growth_points(known(12, *events), now=1000.4)[-1] == (1000.0, 12)
    assert growth_points(known(12, *events), now=99.0)[-1] == (100.0, 12)
