"""The dashboard with a real bank: stories memorised by the embedded model are seen, asked, removed and restored."""

from itertools import islice

import pytest
from textual.widgets import TextArea

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_engine.bank import MemoryBank
from tests.needs import embedded_encoder
from tests.newswire import stories


@pytest.mark.slow
@embedded_encoder
async def test_mini_in_every_view(home, mbc, until, screen):
    news = list(islice(stories("test", 8, seed=3), 8))
    (home / "news").mkdir()
    for story in news:
        (home / "news" / f"{story.id}.txt").write_text(f"{story.title}. {story.text}")
    path = home / "mini.mbc"
    assert mbc("ingest", "news", "--bank", path, "--workers", 0).exit_code == 0
    app = Dashboard(DashboardOptions(path, "mini", home / "runs"), "overview")

    async with app.run_test(size=(160, 45)) as pilot:
        await until(lambda: "8 documents, 8 chunks" in screen(app) and "codes 27" in screen(app))
        await until(lambda: app.state.ingest.growth)
        await until(lambda: app.focused and app.focused.has_focus)
        await pilot.pause()  # otherwise the tab focused at the start comes back into view

        app.action_view(AskView.NAME)
        await until(lambda: app.query_one("#question", TextArea).has_focus)
        app.query_one("#question", TextArea).text = news[0].questions[0][0]
        await pilot.press("enter")
        await until(lambda: app.state.codes_read is not None)
        await until(lambda: news[0].id in screen(app) and "3 sources" in screen(app))
        assert news[0].questions[0][1] in screen(app)

        app.action_view(CodesView.NAME)
        await until(lambda: "perplexity" in screen(app))
        await until(lambda: app.query_one("#heat").has_focus)
        await pilot.press("a")
        await until(lambda: "read" in str(app.query_one("#heat").border_title))

        app.action_view(DocumentsView.NAME)
        await until(lambda: all(story.id in screen(app) for story in news) and app.query_one("#rows").has_focus)
        await pilot.press("x", "y")
        await until(lambda: app.state.bank and app.state.bank.totals.documents == 7)
        await pilot.press("u")
        await until(lambda: app.state.bank and app.state.bank.totals.documents == 8)
    with MemoryBank.open(path) as bank:
        assert bank.counts().sum() == 8 * 24
