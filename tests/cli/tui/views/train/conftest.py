"""Handwritten runs, and what the Train view shows of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from textual.content import Content

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views.train import TrainView
from mbc_cli.tui.widgets.chart import Chart
from mbc_engine.events import Event, TrainStarted, TrainStep, Validated
from mbc_engine.runs.event_log import EventLog
from mbc_engine.runs.training_runs import EVENTS

SMALL, LARGE = (80, 24), (200, 50)
STARTED = TrainStarted(0, 100, 40, 20, 1000)
STEP = TrainStep(
    step=1,
    epoch=0,
    loss=4.0,
    question_loss=2.0,
    vq_loss=0.5,
    route_loss=1.0,
    reconstruction_loss=0.5,
    route_accuracy=0.25,
    perplexity=6.5,
    dead_codes=1,
    document_variance=0.5,
    learning_rate=1e-3,
    examples_per_second=50.0,
)
VALIDATED = Validated(
    step=20, epoch=0, questions=8, documents=8, exact_match=12.5, f1=25.0, first_source=75.0, is_best=True
)


def steps(first: int, last: int, loss: float = 4.0) -> list[TrainStep]:
    """Steps from `first` to `last`, the loss of the last being `loss`."""
    return [replace(STEP, step=number, loss=loss + last - number) for number in range(first, last + 1)]


def write(run: Path, events: Sequence[Event]) -> Path:
    """Append events to the log of a run."""
    run.mkdir(parents=True, exist_ok=True)
    log = EventLog(run / EVENTS)
    for event in events:
        log.append(event)
    log.close()
    return run


def dashboard(options: DashboardOptions, run: Path | None = None) -> Dashboard:
    return Dashboard(replace(options, run=run), TrainView.NAME)


def chart(app: Dashboard, name: str) -> Chart:
    return app.query_one(TrainView).query_one(f"#{name}", Chart)


def title(app: Dashboard, name: str) -> str:
    return Content.from_markup(chart(app, name).border_title).plain


def subtitle(app: Dashboard, name: str) -> str:
    return Content.from_markup(chart(app, name).border_subtitle or "").plain


def drawing(of: Chart) -> str:
    return "\n".join(of.render_line(row).text for row in range(of.content_size.height))


def text_of(app: Dashboard, name: str) -> str:
    """The text of a widget, on one line."""
    widget = (app.view if app.screen is app.screen_stack[0] else app.screen).query_one(name)
    return " ".join(" ".join(widget.render_line(row).text for row in range(widget.size.height)).split())
