"""The Codes view: what it shows as the bank, a training and questions change."""

import numpy as np
import pytest
from textual.widgets import Static, Tabs

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.views.codes import CodesView, most_read
from mbc_cli.tui.widgets.heat_map import HeatMap
from mbc_cli.tui.widgets.table import RowTable
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument
from mbc_engine.runs.training_runs import FollowedRun
from mbc_engine.text import Chunk
from tests.cli.tui.conftest import shown_keys


@pytest.fixture
def app(options):
    return Dashboard(options, CodesView.NAME)


def _codes(app):
    return app.query_one("#heat", HeatMap)


def _line(app):
    return str(app.query_one("#code", Static).render())


def _users(app):
    table = app.query_one(RowTable)
    return "\n".join(" ".join(cells) for _, cells in table.rows) or table.empty


def _words(app):
    return str(app.query_one("#words", Static).render())


async def test_most_used_code_first(app, home, record, until):
    shape = CodeShape(tokens=2, levels=1, num_codes=8, per_position=True)
    texts = {"The gale rose. A harbour closed.": (1, 1), "Harbours closed again.": (1, 2), "Apples fell.": (3, 2)}
    with MemoryBank.create(home / "memory.mbc", ModelSignature("m", "aa", "bb"), shape, 2, keeps_text=True) as bank:
        for number, (text, codes) in enumerate(texts.items()):
            own = record(f"/[b]{number}\x1b.txt", text)
            bank.put([StoredDocument.of(own, np.array(codes).reshape(1, 2, 1), texts=[Chunk(text, 0)])])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "2 times" in _line(app))
        assert _line(app) == "code 1: 2 times in the bank, 66.7% of this codebook"
        assert "perplexity 2 of 8, 6 dead (75%)" in str(_codes(app).border_title)
        await until(lambda: "0" in _users(app))
        assert _users(app) == "[b]0\x1b.txt A harbour closed.\n[b]1\x1b.txt Harbours closed again."
        assert {*_words(app).removeprefix("words in common: ").split(", ")} == {"harbour", "closed"}
        await pilot.press("left")
        await until(lambda: "No chunk" in _users(app))
        assert _line(app) == "code 0: 0 times in the bank, dead"
        assert _words(app) == ""
        assert "Document" not in shown_keys(app)


@pytest.mark.slow
async def test_mark_codes_of_a_document(app, home, record, until):
    shape = CodeShape(tokens=3, levels=1, num_codes=8, per_position=True)
    with MemoryBank.create(home / "memory.mbc", ModelSignature("m", "aa", "bb"), shape, 2) as bank:
        for name, codes in (("/a.txt", (1, 2, 3)), ("/b.txt", (4, 5, 6))):
            bank.put([StoredDocument.of(record(name, name), np.array(codes).reshape(1, 3, 1))])
        document = bank.lookup([("/b.txt", "")])[0]
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "1 time" in _line(app))
        app.query_one(CodesView).mark(document, shape)
        await until(lambda: _line(app).startswith("code 4") and _line(app).endswith("◆ in b.txt"))
        await pilot.press("right_square_bracket")
        await until(lambda: _line(app).startswith("code 5") and _line(app).endswith("◆ in b.txt"))
        await pilot.press("right_square_bracket")
        await until(lambda: _line(app).startswith("code 6") and _line(app).endswith("◆ in b.txt"))
        await pilot.press("right")
        await until(lambda: _line(app).startswith("code 7"))
        await pilot.press("m")
        await until(lambda: _line(app).startswith("code 6"))
        await pilot.press("escape")
        await until(lambda: "b.txt" not in _line(app))
        assert "Unmark" not in shown_keys(app)


async def test_choose_codebook(app, home, record, until):
    shape = CodeShape(tokens=3, levels=2, num_codes=512, per_position=True)
    with MemoryBank.create(home / "memory.mbc", ModelSignature("tiny", "a" * 16, "b" * 16), shape, 2) as bank:
        codes = np.arange(6).reshape(1, 3, 2)  # position by position, both levels
        bank.put([StoredDocument.of(record("/a.txt", "a"), codes)])
    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "1 time" in _line(app))
        assert _codes(app).cursor == 0
        await until(lambda: _codes(app).size.height >= 8 and not _codes(app).show_vertical_scrollbar)
        await until(lambda: _codes(app).has_focus and app.query_one("#books").size.height)
        for _ in range(2):  # one right after the other
            app.query_one(CodesView).action_book(1)
        await until(lambda: str(_codes(app).border_title).startswith("Level 1, position 3: perplexity 1 of 512"))
        await pilot.press("left_square_bracket")
        await until(lambda: str(_codes(app).border_title).startswith("Level 1, position 2:"))
        await pilot.click("#books", offset=(2 + 2 + 2, 2))
        await until(lambda: str(_codes(app).border_title).startswith("Level 2, position 2:"))
        _codes(app).go(3)
        await until(lambda: _line(app).startswith("code 3: 1 time in the bank, 100.0%"))
        for book in (2, 4):  # two moves before the first is seen
            app.query_one("#books", HeatMap).go(book)
        await until(lambda: str(_codes(app).border_title).startswith("Level 2, position 2:"))
        await until(lambda: "a.txt" in _users(app))


@pytest.mark.slow
async def test_empty_layers(app, until, make_bank):
    def nothing():
        return str(app.query_one("#nothing", Static).render())

    async with app.run_test(size=(80, 24)) as pilot:
        await until(lambda: "No bank" in nothing())
        assert "ingest your files" in nothing()
        assert not shown_keys(app) & {"Codebook", "Previous codebook", "Next codebook"}
        await pilot.press("t")
        await pilot.pause()
        assert "Train" in nothing()
        app.state.run = FollowedRun(app.options.runs / "[i]first")
        app.request_redraw()
        await until(lambda: "[i]first has no codes yet" in nothing())
        await pilot.click("#question")
        await pilot.pause()
        assert "in Ask" in nothing()
        await pilot.press("b")
        make_bank("memory.mbc")
        await until(lambda: "The bank is empty" in nothing())


@pytest.mark.slow
async def test_training_and_question_layers(app, make_bank, record, until):
    make_bank("memory.mbc", record("/a.txt", "a"))
    async with app.run_test(size=(160, 45)) as pilot:
        await until(lambda: "2 times" in _line(app))
        app.state.run = FollowedRun(app.options.runs / "first")
        app.state.run.usage = np.array([[[0.5, 0.25, 0.25, 1e-6, 0, 0, 0, 0]]], np.float32)
        read = app.state.codes_read = np.zeros((1, 1, 8), np.float32)
        read[0, 0, [1, 5]] = 0.25, 0.75
        app.view.draw()
        await pilot.press("m", "m")
        await pilot.pause()
        assert _line(app) == "code 5: 0 times in the bank, dead  ◆ 75% of the codes read for the last answer"
        await pilot.press("t", "left", "left", "left", "left")
        await pilot.pause()
        assert (
            _line(app)
            == "code 1: 0.25 per batch recently, 25.0% of this codebook  ◆ 25% of the codes read for the last answer"
        )
        assert "5 dead" in str(_codes(app).border_title)
        await pilot.press("a")
        await pilot.pause()
        assert _line(app) == "code 1: 25% of the codes read for the last answer"
        assert str(_codes(app).border_title) == "Codes: 2 of 8 read"
        assert app.query_one("#layer", Tabs).active == "question"


def test_most_read():
    assert most_read(np.array([0.05, 0.6, 0.0, 0.35])) == [1, 3]
    assert most_read(np.array([0.5, 0.5])) == [0, 1]
    assert most_read(np.zeros(3)) == []
    assert len(most_read(np.full(512, 1 / 512))) == 24
