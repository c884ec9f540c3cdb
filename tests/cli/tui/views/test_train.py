"""The Train view: plots of a run, the list of runs, a comparison, and starting, stopping and resuming."""

from dataclasses import replace

import pytest
from textual.command import CommandPalette
from textual.content import Content
from textual.widgets import Input, OptionList

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.widgets.chart import Chart, RunPlots
from mbc_cli.tui.widgets.inputs import Confirm, Form
from mbc_engine.events import QuantisationStarted, TrainFinished, TrainStarted, TrainStateChanged, Validated
from mbc_engine.runs.event_log import work_lock
from mbc_engine.runs.training_runs import EVENTS, LOCK, is_stop_requested
from tests.cli.tui.conftest import HARMLESS, HOSTILE, LARGE, SMALL, STEP, shown_keys
from tests.conftest import write_log

STARTED = TrainStarted(0, 100, 40, 20, 1000)
VALIDATED = Validated(20, 0, 8, 8, exact_match=12.5, f1=25.0, first_source=75.0, is_best=True)


def steps(first, last, loss=4.0):
    """Steps from `first` to `last`, the loss of the last being `loss`."""
    return [replace(STEP, step=number, loss=loss + last - number) for number in range(first, last + 1)]


def write(run, *events):
    """Append events to the log of a run."""
    write_log(run / EVENTS, *events)
    return run


@pytest.fixture
def run(options):
    """The folder of a run with ten steps."""
    return write(options.runs / "one", STARTED, *steps(1, 10))


def title(app, name):
    return Content.from_markup(app.query_one(f"#{name}", Chart).border_title).plain


def text_of(app, name):
    """The text of a widget, on one line."""
    widget = (app.view if app.screen is app.screen_stack[0] else app.screen).query_one(name)
    return " ".join(" ".join(widget.render_line(row).text for row in range(widget.content_size.height)).split())


def visible_charts(app):
    plots = app.query_one(RunPlots)
    return [chart.id for chart in plots.query(Chart) if plots.region.contains_region(chart.region)]


def type_in(app, **fields):
    for name, value in fields.items():
        app.screen.query_one(f"#{name}", Input).value = value


async def open_form(app, pilot, until):
    await pilot.press("n")
    await until(lambda: isinstance(app.screen, Form) and app.screen.query("#preset"))


async def test_large_screen_shows_all_plots(app, options, until):
    resetting = [replace(step, reset_codes=3 * (step.step == 12)) for step in steps(1, 30)]
    write(options.runs / "one", STARTED, *resetting, QuantisationStarted(9, 20), VALIDATED)
    write(options.runs / "one", TrainStateChanged("stopped", 30, 100))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: title(app, "loss") == "Loss  4")
        assert len(visible_charts(app)) == 12
        assert title(app, "answers") == "Answers, %  ● F1 25.0  ○ EM 12.5"
        assert title(app, "source") == "Right source, %  25  ● 75.0"
        await pilot.pause()
        assert "▴" in text_of(app, "#dead") and "▴" not in text_of(app, "#loss")
        facts = text_of(app, "#facts")
        for fact in ("■ stopped", "30 of 100", "50 questions/s", "3 codes in 1 step", "F1 25.0, EM 12.5"):
            assert fact in facts
        await until(lambda: "■ stopped step 30 F1 25.0" in text_of(app, "#runs"))
        assert shown_keys(app) >= {"Resume", "New"}
        assert not shown_keys(app) & {"Stop", "Compare", "Runs"}
        diverging = replace(STEP, step=32, loss=float("nan"), perplexity=float("inf"))
        write(options.runs / "one", replace(STEP, step=31, loss=1e30), diverging)
        await until(lambda: title(app, "loss") == "Loss  nan")
        await until(lambda: "e29" in text_of(app, "#loss") or "e30" in text_of(app, "#loss"))
        assert title(app, "perplexity") == "Code perplexity  inf"


async def test_live_run_on_a_small_screen(app, options, run, until, started):
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "one ▶ training step 10 of 100 (10%)" in text_of(app, "#brief"))
            await until(lambda: visible_charts(app) == ["loss", "answers", "source", "question"])
            await until(lambda: "New" in shown_keys(app))
            assert not shown_keys(app) & {"Runs", "Compare"}  # there is only one
            await pilot.press("right", "]", "]")
            await until(lambda: visible_charts(app)[-1] == "speed")
            await pilot.press("left", "[", "[")
            await until(lambda: visible_charts(app)[0] == "loss")
            write(run, *steps(11, 12, loss=3.25))
            await until(lambda: title(app, "loss") == "Loss  3.25")
            (run / EVENTS).unlink()
            write(run, STARTED, *steps(1, 5, loss=2.5))
            await until(lambda: title(app, "loss") == "Loss  2.5" and "step 5 of 100" in text_of(app, "#brief"))
            await until(lambda: "Stop" in shown_keys(app))
            for key, is_sure in (("n", False), ("y", True)):
                await pilot.press("s")
                await until(lambda: isinstance(app.screen, Confirm))
                await pilot.press(key)
                await until(lambda wanted=is_sure: is_stop_requested(run) is wanted)
            await until(lambda: "will stop after the current step" in text_of(app, "#brief"))
            write(run, TrainStateChanged("stopped", 5, 100))
        await until(lambda: "■ stopped" in text_of(app, "#brief") and "Resume" in shown_keys(app))
        write(options.runs / "two", STARTED)
        await until(lambda: shown_keys(app) >= {"Runs", "Compare"})
        await pilot.press("r")
        assert [child.arguments[:3] for child in started] == [["train", "--resume", f"--run={run}"]]


@pytest.mark.slow
async def test_compare_two_runs(options, until):
    run = write(options.runs / HOSTILE, STARTED, *steps(1, 30))
    write(options.runs / "[link=y]", STARTED, *steps(1, 90, loss=1.0), VALIDATED, TrainFinished(90, 5.0, "model"))
    app = Dashboard(replace(options, run=run), "train")
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: "Compare" in shown_keys(app))
        await pilot.press("c")
        await until(lambda: isinstance(app.screen, CommandPalette))
        await until(lambda: any(runs.option_count == 1 for runs in app.screen.query(OptionList)))
        await pilot.press("enter")
        note = "[link=y] + 1"
        await until(lambda: Content.from_markup(app.query_one("#loss", Chart).border_subtitle or "").plain == note)
        await until(lambda: "+" in text_of(app, "#loss") and "◆" in text_of(app, "#answers"))
        await until(lambda: "+ [link=y]" in text_of(app, "#runs"))
        await until(lambda: "+ [link=y]: finished; best: F1 25.0" in text_of(app, "#facts"))
        for name in ("#facts", "#runs"):
            await until(lambda name=name: HARMLESS in text_of(app, name))
        app.view.training_ended(run, f"no {HOSTILE} disk")
        await until(lambda: f"no {HARMLESS} disk" in text_of(app, "#facts"))
        await pilot.press("c")
        await until(lambda: "+" not in text_of(app, "#loss"))
        assert app.state.other is None


async def test_enter_twice_starts_one_run(options, until, started):
    app = Dashboard(replace(options, device="cpu"), "train")
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: "Press n to start one" in text_of(app, "#brief") and "nothing yet" in text_of(app, "#loss"))
        await open_form(app, pilot, until)
        await pilot.press("enter")
        await until(lambda: "Data is required" in text_of(app, "#words"))
        type_in(app, preset="smollm2-135m", data="a.jsonl")
        await pilot.press("enter", "enter")
        assert [(child.arguments[0], child.arguments[-1]) for child in started] == [("train", "--device=cpu")]
