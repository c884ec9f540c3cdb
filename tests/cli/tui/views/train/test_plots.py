"""Plots of a training: as it progresses, beside another one, and when it diverges."""

import json
from dataclasses import replace

import pytest
from textual.command import CommandPalette
from textual.widgets import OptionList

from mbc_cli.tui.widgets.chart import Chart
from mbc_cli.tui.widgets.run_plots import RunPlots
from mbc_engine.events import QuantisationStarted, TrainFinished, TrainStateChanged
from mbc_engine.runs.event_log import work_lock
from mbc_engine.runs.training_runs import EVENTS, LOCK
from tests.cli.tui.conftest import shown_keys
from tests.cli.tui.views.train.conftest import (
    LARGE,
    SMALL,
    STARTED,
    STEP,
    VALIDATED,
    chart,
    dashboard,
    drawing,
    steps,
    subtitle,
    text_of,
    title,
    write,
)


async def test_a_large_screen_shows_everything_at_once(options, until):
    resetting = [replace(own, reset_codes=3 * (own.step == 12)) for own in steps(1, 30)]
    events = [STARTED, *resetting, QuantisationStarted(9, 20), VALIDATED]
    run = write(options.runs / "one", [*events, TrainStateChanged("stopped", 30, 100)])
    app = dashboard(options, run)
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: title(app, "loss") == "Loss  4")
        assert len(visible_charts(app)) == 12
        assert title(app, "answers") == "Answers, %  ● F1 25.0  ○ EM 12.5"
        assert title(app, "source") == "Right source, %  25  ● 75.0"
        await pilot.pause()
        assert "┊" in drawing(chart(app, "loss"))
        assert "▴" in drawing(chart(app, "dead"))
        assert "▴" not in drawing(chart(app, "loss"))
        facts = text_of(app, "#facts")
        for fact in ("■ stopped", "30 of 100", "50 questions/s", "3 codes in 1 step", "F1 25.0, EM 12.5"):
            assert fact in facts
        await until(lambda: "■ stopped step 30 F1 25.0" in text_of(app, "#runs"))
        assert shown_keys(app) >= {"Resume", "New"}
        assert not shown_keys(app) & {"Pause", "Stop", "Compare", "Runs"}


def visible_charts(app):
    plots = app.query_one(RunPlots)
    return [own.id for own in plots.query(Chart) if own.display and plots.region.contains_region(own.region)]


async def test_a_small_screen_shows_some_plots_and_turns_to_the_others(options, until):
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: title(app, "loss") == "Loss  4")
        assert "one ✗ interrupted step 30 of 100 (30%)" in text_of(app, "#brief")
        await until(lambda: visible_charts(app) == ["loss", "answers", "source", "question"])
        await pilot.press("right", "]", "]")
        await until(lambda: visible_charts(app)[-1] == "speed")
        assert title(app, "speed") == "Questions per second  50"
        await pilot.press("left", "[", "[")
        await until(lambda: visible_charts(app)[0] == "loss")


async def test_it_moves_with_the_run_and_forgets_what_a_resumed_run_takes_back(options, until):
    run = write(options.runs / "one", [STARTED, *steps(1, 10)])
    app = dashboard(options, run)
    async with app.run_test(size=SMALL):
        with work_lock(run / LOCK):
            await until(lambda: "▶ training step 10 " in text_of(app, "#brief"))
            write(run, steps(11, 12, loss=3.25))
            await until(lambda: title(app, "loss") == "Loss  3.25")
            (run / EVENTS).unlink()
            write(run, [STARTED, *steps(1, 5, loss=2.5)])
            await until(lambda: title(app, "loss") == "Loss  2.5")
            assert "step 5 of 100" in text_of(app, "#brief")


async def test_two_runs_are_told_apart_by_what_they_are_drawn_with(options, until):
    write(options.runs / "other", [STARTED, *steps(1, 90, loss=1.0), VALIDATED, TrainFinished(90, 5.0, "model")])
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: "Compare" in shown_keys(app))
        await pilot.press("c")
        await until(lambda: isinstance(app.screen, CommandPalette))
        await until(lambda: app.screen.query_one(OptionList).option_count == 1)
        await pilot.press("enter")
        await until(lambda: subtitle(app, "loss") == "other + 1")
        await pilot.pause()
        assert "+" in drawing(chart(app, "loss"))
        assert "◆" in drawing(chart(app, "answers"))
        assert "+ other" in text_of(app, "#runs")
        assert "+ other: finished; best: F1 25.0" in text_of(app, "#facts")
        await pilot.press("c")
        await until(lambda: "+" not in drawing(chart(app, "loss")))
        assert app.state.other is None


async def test_a_training_that_diverges_is_drawn_all_the_same(options, until):
    worse = [replace(STEP, step=11, loss=1e30), replace(STEP, step=12, loss=float("nan"), perplexity=float("inf"))]
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 10), *worse]))
    async with app.run_test(size=LARGE):
        await until(lambda: title(app, "loss") == "Loss  nan")
        await until(lambda: "e29" in drawing(chart(app, "loss")) or "e30" in drawing(chart(app, "loss")))
        assert title(app, "perplexity") == "Code perplexity  inf"


@pytest.mark.slow
async def test_a_hundred_thousand_steps_are_shown_to_the_last(options, until):
    lines = [json.dumps({"time": 0.0, **STARTED.to_json(), "total_steps": 100_000})]
    step = json.dumps({"time": 1.0, **STEP.to_json()})
    lines += [step.replace('"step": 1,', f'"step": {number},') for number in range(1, 100_000)]
    lines.append(json.dumps({"time": 2.0, **replace(STEP, step=100_000, loss=0.765).to_json()}))
    run = options.runs / "long"
    run.mkdir(parents=True)
    (run / EVENTS).write_text("".join(f"{line}\n" for line in lines))
    app = dashboard(options, run)
    async with app.run_test(size=LARGE):
        await until(lambda: title(app, "loss") == "Loss  0.765")
        assert "100,000 of 100,000" in text_of(app, "#facts")
