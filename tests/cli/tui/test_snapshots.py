"""How each view looks, as SVG, small and large, with the same bank, ingests, training and answer each time.

To update the pictures, run `pytest tests/cli/tui/test_snapshots.py --snapshot-update` and look at them.
"""

import json
import re
import time
from dataclasses import replace

import numpy as np
import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from textual.widgets import Input, TextArea

from mbc_cli.paths import activity_log
from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs import AnswerWorker
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.widgets.chart import RunPlots
from mbc_engine.events import DocumentsIngested, FileSkipped, IngestStarted, TrainFinished, TrainStarted, Validated
from mbc_engine.runs.training_runs import EVENTS
from tests.cli.stub_memory import answer, ingested, source
from tests.cli.tui.conftest import STEP

pytestmark = pytest.mark.slow

NOON = 1_790_000_000.0
SMALL, LARGE = (80, 24), (160, 45)
# What is on the screen once a view has drawn everything.
LAST = {"codes": "story-", "documents": "read from", "ingest": "news", "train": "99.8"}


class _Svg(SingleFileSnapshotExtension):
    file_extension = "svg"
    _write_mode = WriteMode.TEXT


@pytest.fixture
def scene(home, make_bank, record, monkeypatch):
    """Places, time and logs that are the same on every machine, every day."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("mbc_cli.tui.views.overview.time.time", lambda: NOON)
    monkeypatch.setattr(AnswerWorker, "_submit", lambda self, work: None)  # `_answer` stands in
    monkeypatch.setenv("HOME", str(home))  # so that paths are shown relative to ~
    desk = home / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    folder = desk / "news"
    for number in range(12):
        file = folder / ("politics" if number % 3 else "sport") / f"story-{number:02}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("Ada moved to Aalen." * (number + 1))
    records = [
        record(str(file), "Ada" * (number + 1), date=f"2026-0{number % 9 + 1}-15")
        for number, file in enumerate(sorted(folder.rglob("*.txt")))
    ]
    bank = make_bank("memory.mbc", *records).rename(desk / "memory.mbc")
    _log(activity_log(bank), NOON - 7200, 900, _ingests())
    _log(desk / "runs" / "first" / EVENTS, NOON - 900, 1.0, _training())
    return DashboardOptions(bank, "mini", desk / "runs")


def _log(path, start, pace, events):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"time": start + number * pace, **event.to_json()} for number, event in enumerate(events)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def _ingests():
    for documents in (4, 9):
        yield _finished(documents)
    yield IngestStarted(14, 4200)
    yield FileSkipped("news/scan.pdf", "is damaged: no end of file")
    yield DocumentsIngested(2, 60, 9, 4000, 0.5, ("news/sport/story-09.txt",))
    yield DocumentsIngested(3, 90, 9, 4200, 1.0, ("news/sport/story-11.txt",))
    yield _finished(12)


def _finished(documents):
    counts = {"chunks": 90, "unchanged": 9, "skipped": 1, "seconds": 1.2, "bank_chunks": documents * 20}
    return ingested(3, **counts, bank_documents=documents, bank_origins=documents)[-1]


def _training():
    yield TrainStarted(0, 60, 480, 240, 1_234_567)
    for step in range(1, 61):
        left = 0.9**step
        losses = {"loss": 1 + 7 * left, "question_loss": 0.5 + 3 * left}
        codes = {"route_accuracy": 1 - left, "perplexity": 1 + 7 * (1 - left), "dead_codes": max(0, 8 - step)}
        yield replace(STEP, step=step, epoch=(step - 1) // 20, **losses, **codes)
        if step % 20 == 0:
            yield Validated(step, step // 20 - 1, 50, 50, step / 6, step / 4, 80.0, True)
    yield TrainFinished(60, 60.0, "runs/first/model")


def _answer(options):
    news, passage = options.bank.parent / "news", "The river rose. Ada moved to Aalen. The bridge held."
    texts = ({}, {}, {"state": "gone", "text_from": "bank"})
    sources = [
        source(news / f"story-{number:02}.txt", passage=passage, share=share, date=f"2026-0{number + 1}-15", **text)
        for number, (share, text) in enumerate(zip((0.71, 0.2, 0.04), texts, strict=True))
    ]
    codes = np.zeros((1, 1, 8), np.float32)
    codes[0, 0, [1, 4]] = 0.75, 0.25
    return answer("Aalen", *sources, codes=codes)


@pytest.mark.parametrize(
    ("view", "size"),
    [
        *((view, LARGE) for view in ("overview", "codes", "train")),
        *((view, SMALL) for view in ("ingest", "ask", "documents")),
    ],
    ids=lambda value: value if isinstance(value, str) else "x".join(map(str, value)),
)
async def test_view(scene, view, size, until, snapshot, screen):
    app = Dashboard(scene, view)
    async with app.run_test(size=size) as pilot:
        for line in app.query(Input):
            line.cursor_blink = False
        await until(lambda: app.state.bank and app.state.run and app.state.run.history.finished)
        await until(lambda: app.state.ingest.finished)
        if view == AskView.NAME:
            app.query_one("#question", TextArea).text = "Where did Ada move?"
            await pilot.press("enter")
            await until(lambda: 1 in app.query_one(AskView)._waiting)
            app.query_one(AskView).show_answer(1, _answer(scene))
            await until(lambda: app.state.codes_read is not None)
        # Plots of a growing run are not drawn each time.
        await until(lambda: LAST.get(view, "") in screen(app) and not app.query_one(RunPlots)._is_waiting)
        before, shown = None, ""
        while shown != before:  # until what is otherwise drawn twice a second has settled
            before = shown
            for _ in range(3):
                app.draw()
                await pilot.pause()
            # Terminal ids are hashes of all that is drawn, including links, which have random numbers.
            shown = re.sub(r"terminal-\d+", "terminal", app.export_screenshot(title="mbc"))
        assert shown == snapshot.use_extension(_Svg)
