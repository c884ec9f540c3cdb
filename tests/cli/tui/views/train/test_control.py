"""Trainings started, stopped and resumed by keys, and what is shown when that fails."""

import json
from dataclasses import replace

import pytest
from textual.widgets import Input

from mbc_cli.tui.widgets.inputs import Confirm, Form
from mbc_engine.events import TrainStateChanged
from mbc_engine.runs.event_log import work_lock
from mbc_engine.runs.training_runs import LOCK, RunState, is_stop_requested
from tests.cli.tui.conftest import shown_keys
from tests.cli.tui.views.train.conftest import SMALL, STARTED, dashboard, steps, text_of, write


async def test_stop_is_confirmed_and_requested_in_the_folder(options, until):
    run = write(options.runs / "one", [STARTED, *steps(1, 10)])
    app = dashboard(options, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Stop" in shown_keys(app))
            for key, is_sure in (("n", False), ("y", True)):
                await pilot.press("s")
                await until(lambda: isinstance(app.screen, Confirm))
                await pilot.press(key)
                await until(lambda: not isinstance(app.screen, Confirm))
                await until(lambda wanted=is_sure: is_stop_requested(run) is wanted)
            await until(lambda: "will stop after the current step" in text_of(app, "#brief"))
            write(run, [TrainStateChanged("stopped", 10, 100)])
        await until(lambda: "■ stopped" in text_of(app, "#brief"))
        assert "Resume" in shown_keys(app)


async def test_a_request_that_fails_is_reported(options, until, monkeypatch):
    def refuse(*_):
        raise PermissionError("[red]not yours")

    monkeypatch.setattr("mbc_cli.tui.views.train.request_stop", refuse)
    run = write(options.runs / "one", [STARTED, *steps(1, 10)])
    app = dashboard(options, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Stop" in shown_keys(app))
            await pilot.press("s")
            await until(lambda: isinstance(app.screen, Confirm))
            await pilot.press("y")
            await until(lambda: any("[red]not yours" in own.message for own in app._notifications))
            await until(lambda: "training step 10 of 100" in text_of(app, "#brief"))


async def test_words_of_a_training_that_failed_do_nothing_to_the_screen(options, until):
    run = write(options.runs / "one", [STARTED, *steps(1, 3), TrainStateChanged("stopped", 3, 100)])
    app = dashboard(options, run)
    async with app.run_test(size=SMALL):
        await until(lambda: "stopped" in text_of(app, "#brief"))
        app.view.training_ended(run, "no [red]\x1b[31m disk")
        await until(lambda: "no [red]␛[31m disk" in text_of(app, "#brief"))


async def test_a_training_that_cannot_start_says_why_in_the_form(options, until):
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, Form))
        await pilot.press("enter")
        await until(lambda: "Data is required" in text_of(app, "#words"))
        app.screen.query_one("#preset", Input).value = "smollm2-135m"
        app.screen.query_one("#data", Input).value = "'missing [file].jsonl'"
        await pilot.press("enter")
        await until(lambda: "Error: There is no file" in text_of(app, "#words"))
        await until(lambda: "missing [file].jsonl. --data takes" in text_of(app, "#words"))
        await pilot.press("escape")
        assert app.state.run is None


async def test_a_preset_name_too_long_for_a_folder_is_refused_in_the_form(options, until):
    options.runs.mkdir()  # only then is the name looked up
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, Form))
        app.screen.query_one("#preset", Input).value = "x" * 300
        app.screen.query_one("#data", Input).value = "a.jsonl"
        await pilot.press("enter")
        await until(lambda: "Error: " in text_of(app, "#words"))


async def test_the_form_for_another_training_stays_open_while_one_is_at_work(options, until):
    run = write(options.runs / "one", [STARTED, *steps(1, 10)])
    app = dashboard(options, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Pause" in shown_keys(app))
            await pilot.press("n")
            await until(lambda: isinstance(app.screen, Form))
            write(run, steps(11, 20))
            await until(lambda: app.state.run.history.latest.step == 20)
            app.view.draw()
            await pilot.pause()
            assert isinstance(app.screen, Form)


async def test_the_end_of_a_training_that_is_seen_while_the_dashboard_closes_is_left(options, until, monkeypatch):
    run = write(options.runs / "one", [STARTED, *steps(1, 10)])
    reports = []
    monkeypatch.setattr("mbc_cli.tui.app.poll_run", lambda _, report: reports.append(report) or (own for own in ()))
    app = dashboard(options, run)
    async with app.run_test(size=SMALL):
        await until(lambda: reports)
    monkeypatch.setattr(app, "call_later", lambda update, *arguments: update(*arguments))
    reports[0](None, False, None)


async def test_enter_twice_starts_one_training_on_the_device_of_the_dashboard(options, until, monkeypatch):
    started = []

    class Child:
        is_running = True

        def __init__(self, arguments, on_end):
            started.append(arguments)

    monkeypatch.setattr("mbc_cli.tui.views.train.ChildProcess", Child)
    app = dashboard(replace(options, device="cpu"))
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, Form))
        app.screen.query_one("#preset", Input).value = "smollm2-135m"
        app.screen.query_one("#data", Input).value = "a.jsonl"
        await pilot.press("enter", "enter")
        assert [(own[0], own[-1]) for own in started] == [("train", "--device=cpu")]


@pytest.mark.slow
async def test_a_training_is_started_stopped_and_resumed(options, until, preset, home):
    data = home / "questions.jsonl"
    rows = [
        {"text": f"{name} moved to Delft.", "question": f"Where did {name} move?", "answers": ["Delft"]}
        for name in ("Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo")
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    app = dashboard(options)
    async with app.run_test(size=SMALL) as pilot:

        def has_state(state: RunState) -> bool:
            return app.state.run is not None and app.state.run.state is state

        await pilot.press("n")
        await until(lambda: isinstance(app.screen, Form))
        form = {"preset": str(preset), "data": data.name, "run": "mine", "settings": "training.epochs=5000"}
        for field, value in form.items():
            app.screen.query_one(f"#{field}", Input).value = value
        await pilot.press("enter")
        await until(lambda: not isinstance(app.screen, Form))
        await until(lambda: has_state("training") and app.state.run.history.latest is not None)
        assert app.state.run.folder == options.runs / "mine"

        async def stop() -> int:
            await until(lambda: "Stop" in shown_keys(app))
            await pilot.press("s")
            await until(lambda: isinstance(app.screen, Confirm))
            await pilot.press("y")
            await until(lambda: has_state("stopped") and "Resume" in shown_keys(app))
            return app.state.run.history.step

        step = await stop()
        await pilot.press("r")
        await until(lambda: has_state("training") and app.state.run.history.step > step)
        assert await stop() > step
