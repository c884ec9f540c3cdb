"""The Codes view: what it shows as the bank, a training and questions change."""

import numpy as np
import pytest
from textual.widgets import Static, Tabs

from mbc_cli.tui.views.codes import CodesView, most_read
from mbc_cli.tui.widgets.cells import HeatMap, RowTable
from mbc_engine.runs.training_runs import FollowedRun
from tests.cli.tui.conftest import SMALL, shown_keys


def heat(app):
    return app.query_one("#heat", HeatMap)


def text_of(app, name):
    return str(app.query_one(name, Static).render())


def line(app):
    return text_of(app, "#code")


def users(app):
    table = app.query_one(RowTable)
    return "\n".join(" ".join(cells) for _, cells in table.rows) or table.empty


async def test_most_used_code_first(app, coded_bank, until):
    texts = {"The gale rose. A harbour closed.": (1, 1), "Harbours closed again.": (1, 2), "Apples fell.": (3, 2)}
    coded_bank({(f"/[b]{number}\x1b.txt", text): codes for number, (text, codes) in enumerate(texts.items())})
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "2 times" in line(app))
        assert line(app) == "code 1: 2 times in the bank, 66.7% of this codebook"
        assert "perplexity 2 of 8, 6 dead (75%)" in str(heat(app).border_title)
        await until(lambda: "0" in users(app))
        assert users(app) == "[b]0\x1b.txt A harbour closed.\n[b]1\x1b.txt Harbours closed again."
        assert {*text_of(app, "#words").removeprefix("words in common: ").split(", ")} == {"harbour", "closed"}
        await pilot.press("left")
        await until(lambda: "No chunk" in users(app))
        assert line(app) == "code 0: 0 times in the bank, dead"
        assert text_of(app, "#words") == ""
        assert "Document" not in shown_keys(app)


async def test_choose_codebook(app, coded_bank, until):
    def book(title):
        return until(lambda: str(heat(app).border_title).startswith(title))

    coded_bank({("/a.txt", "a"): [[0, 1], [2, 3], [4, 5]]}, num_codes=512)
    async with app.run_test(size=SMALL) as pilot:
        books = app.query_one("#books", HeatMap)
        await until(lambda: "1 time" in line(app))
        assert heat(app).cursor == 0
        await until(lambda: heat(app).size.height >= 8 and not heat(app).show_vertical_scrollbar)
        await until(lambda: heat(app).has_focus and books.size.height)
        for _ in range(2):  # one right after the other
            app.query_one(CodesView).action_book(1)
        await book("Level 1, position 3: perplexity 1 of 512")
        await pilot.press("left_square_bracket")
        await book("Level 1, position 2:")
        await pilot.click("#books", offset=(2 + 2 + 2, 2))
        await book("Level 2, position 2:")
        heat(app).go(3)
        await until(lambda: line(app).startswith("code 3: 1 time in the bank, 100.0%"))
        for number in (2, 4):  # two moves before the first is seen
            books.go(number)
        await book("Level 2, position 2:")
        await until(lambda: "a.txt" in users(app))


@pytest.mark.slow
async def test_layers(app, until, make_bank, record):
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("t")
        await until(lambda: "Train" in text_of(app, "#nothing"))
        run = app.state.run = FollowedRun(app.options.runs / "[i]first")
        app.request_redraw()
        await until(lambda: "[i]first has no codes yet" in text_of(app, "#nothing"))
        await pilot.click("#question")
        await until(lambda: "in Ask" in text_of(app, "#nothing"))
        await pilot.press("b")
        make_bank("memory.mbc")
        await until(lambda: "The bank is empty" in text_of(app, "#nothing"))
        app.options.bank.unlink()
        make_bank("memory.mbc", record("/a.txt", "a"))
        await until(lambda: "2 times" in line(app))
        run.usage = np.array([[[0.5, 0.25, 0.25, 1e-6, 0, 0, 0, 0]]], np.float32)
        read = app.state.codes_read = np.zeros((1, 1, 8), np.float32)
        read[0, 0, [1, 5]] = 0.25, 0.75
        app.view.draw()
        await until(lambda: heat(app).has_focus)
        await pilot.press("m", "m")
        of_read = "of the codes read for the last answer"
        await until(lambda: line(app) == f"code 5: 0 times in the bank, dead  ◆ 75% {of_read}")
        await pilot.press("t", "left", "left", "left", "left")
        expected = f"code 1: 0.25 per batch recently, 25.0% of this codebook  ◆ 25% {of_read}"
        await until(lambda: line(app) == expected)
        assert "5 dead" in str(heat(app).border_title)
        await pilot.press("a")
        await until(lambda: line(app) == f"code 1: 25% {of_read}")
        assert str(heat(app).border_title) == "Codes: 2 of 8 read"
        assert app.query_one("#layer", Tabs).active == "question"


@pytest.mark.parametrize(
    ("shares", "marked"),
    [([0.05, 0.6, 0.0, 0.35], [1, 3]), ([0.5, 0.5], [0, 1]), ([0, 0, 0], []), ([1 / 512] * 512, [*range(24)])],
)
def test_most_read(shares, marked):
    assert most_read(np.array(shares, float)) == marked
