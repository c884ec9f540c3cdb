"""What the Overview shows of a bank: how it grew and how much space it takes."""

import pytest

from mbc_cli.paths import activity_log
from mbc_cli.render.bank import document_facts
from mbc_cli.tui.state import BankSnapshot, DashboardState
from mbc_cli.tui.views.overview import growth_steps
from mbc_engine.bank import BankSizes, BankTotals
from mbc_engine.runs.ingests import recorded
from tests.cli.stub_memory import ingested

STARTED = ingested()[0]


def finished(chunks):
    return ingested(1, chunks=chunks, bank_chunks=chunks)[-1]


@pytest.mark.parametrize(
    ("chunks", "events", "now", "levels"),
    [
        (5, [], 100.0, []),
        (7, [(10.0, STARTED)], 13.5, [(9.0, 0), (13.5, 0), (13.5, 7)]),
        (
            11,
            [(10.0, finished(4)), (20.0, finished(9)), (50.0, STARTED), (60.0, finished(12))],
            80.0,
            [(6.5, 0), (10.0, 0), (10.0, 4), (20.0, 4), (20.0, 9), (60.0, 9), (60.0, 12), (80.0, 12), (80.0, 11)],
        ),
        # The clock was set back.
        (12, [(0.0, STARTED), (100.0, finished(12))], 99.0, [(99.0, 0), (100.0, 0), *[(100.0, 12)] * 3]),
    ],
)
def test_growth_steps(chunks, events, now, levels):
    state = DashboardState(bank=BankSnapshot(None, BankTotals(1, 1, chunks), None, None, None))
    state.ingest.add(events)
    assert growth_steps(state, now) == levels


@pytest.mark.parametrize(
    ("documents", "file", "read", "expected"),
    [
        (100, 41_000, 500.0, "41 kB, originals 50 kB; smaller from 77 documents on"),
        (100, 41_000, 323.0, "originals 32.3 kB; smaller from 144 documents on"),
        (100, 41_000, 100.0, "41 kB, originals 10 kB"),
        (100, 41_000, None, "41 kB"),
        (0, 28_672, None, "28.7 kB"),
    ],
)
def test_sizes(documents, file, read, expected):
    sizes = BankSizes(codes=2700, words=3000, texts=6000, codebook=393_216, file=file)
    facts = [value for _, value in document_facts(sizes, documents, read)]
    assert facts[-1].endswith(expected)
    assert not documents or facts[0] == "123 bytes: codes 27, words 30, text 60, index 6"


async def test_no_chunks_no_curve(app, make_bank, until, screen):
    list(recorded(iter([STARTED, finished(0)]), activity_log(make_bank("memory.mbc"))))
    async with app.run_test(size=(120, 40)):
        await until(lambda: app.state.bank and app.state.ingest.finished)
        await until(lambda: "finished" in screen(app))
        assert "nothing ingested yet" in screen(app)
