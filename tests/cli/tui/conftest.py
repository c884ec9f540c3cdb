"""Places to look at, ways to wait for threads and processes, and no process left when a test ends."""

import asyncio
import subprocess
import time

import numpy as np
import pytest

from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.views.overview import OverviewView
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, StoredDocument
from mbc_engine.events import TrainStep
from mbc_engine.machine import Throttle
from mbc_engine.text import Chunk
from tests.needs import PATIENCE

HOSTILE, HARMLESS = "[red]\x1b[31m\u202eb", "[red]␛[31m<U+202E>b"
SMALL, LARGE = (80, 24), (200, 50)
_LOSSES = {"loss": 4.0, "question_loss": 2.0, "vq_loss": 0.5, "route_loss": 1.0, "reconstruction_loss": 0.5}
_CODES = {"route_accuracy": 0.25, "perplexity": 6.5, "dead_codes": 1, "document_variance": 0.5}
STEP = TrainStep(step=1, epoch=0, **_LOSSES, **_CODES, learning_rate=1e-3, examples_per_second=50.0)


@pytest.fixture
def options(home, model):
    """Where `mbc tui` would look with the tiny model: a bank and runs that do not exist yet."""
    return DashboardOptions(home / "memory.mbc", str(model), home / "runs")


@pytest.fixture
def coded_bank(options, record):
    """Makes the dashboard's bank of documents of one chunk: {(name, text): codes}, [positions] or [positions, levels]."""

    def make(documents, num_codes=8):
        codes = [np.array(given).reshape(1, len(given), -1) for given in documents.values()]
        shape = CodeShape(tokens=codes[0].shape[1], levels=codes[0].shape[2], num_codes=num_codes, per_position=True)
        with MemoryBank.create(options.bank, ModelSignature("m", "aa", "bb"), shape, 2, keeps_text=True) as bank:
            for (name, text), own in zip(documents, codes, strict=True):
                bank.put([StoredDocument.of(record(name, text), own, texts=[Chunk(text, 0)])])

    return make


@pytest.fixture
def started(monkeypatch):
    """The child processes that would have been started: their `arguments`, and `on_end`."""
    found = []

    class Child:
        is_running = True

        def __init__(self, arguments, on_end):
            self.arguments, self.on_end = arguments, on_end
            found.append(self)

        def interrupt(self):
            pass

    for place in ("jobs", "views.ingest", "views.train"):
        monkeypatch.setattr(f"mbc_cli.tui.{place}.ChildProcess", Child)
    return found


@pytest.fixture
def few_views(monkeypatch):
    """Leaves out the views of most widgets, which take most of a dashboard's time to start."""
    monkeypatch.setattr("mbc_cli.tui.app.VIEWS", (AskView, DocumentsView, OverviewView))


@pytest.fixture
def screen():
    """The text on the screen of a dashboard, line by line."""
    return lambda app: "\n".join(strip.text for strip in app.screen._compositor.render_strips())


@pytest.fixture
def until():
    """Waits for a condition: `await until(lambda: app.state.bank)`."""

    async def wait(condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "the condition never became true"
            await asyncio.sleep(0.02)

    return wait


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """What changes is seen and drawn at once; notes stay until they are looked at, on a busy machine too."""
    monkeypatch.setattr("mbc_cli.tui.app.Dashboard.NOTIFICATION_TIMEOUT", PATIENCE)
    for place in ("app._DRAW_INTERVAL", "jobs._POLL_INTERVAL", "widgets.chart._INTERVAL"):
        monkeypatch.setattr(f"mbc_cli.tui.{place}", 0.03)
    monkeypatch.setattr("mbc_cli.tui.jobs.Throttle", lambda **_: Throttle(max_share=0.5, min_interval=0.03))


@pytest.fixture(autouse=True)
def _no_child_left(monkeypatch):
    """Trainings and ingests outlive their dashboard; after a test they are killed, however it ends."""
    started = []
    popen = subprocess.Popen

    def start(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr("mbc_cli.tui.jobs.subprocess.Popen", start)
    yield
    for process in started:
        process.kill()
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            pipe.close()


def shown_keys(app):
    return {active.binding.description for active in app.screen.active_bindings.values() if active.binding.show}
