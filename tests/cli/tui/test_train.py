"""The view of trainings: runs written by hand, and one that really trains."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.widgets import Input, OptionList

from mbc_cli.tui.app import Dashboard
from mbc_cli.tui.jobs.trainings import TrainingEnded, Trainings
from mbc_cli.tui.places import Places
from mbc_cli.tui.views.train import TrainView
from mbc_cli.tui.widgets.chart import Chart
from mbc_cli.tui.widgets.confirm import Confirm
from mbc_cli.tui.widgets.facts import Facts
from mbc_cli.tui.widgets.plots import Plots
from mbc_cli.tui.widgets.run_form import RunForm
from mbc_cli.tui.widgets.run_list import RunList
from mbc_cli.tui.widgets.run_picker import RunPicker
from mbc_engine.event_log import EventLog
from mbc_engine.events import (
    CodesReset,
    Event,
    QuantisationStarted,
    TrainFinished,
    TrainPaused,
    TrainStarted,
    TrainStep,
    TrainStopped,
    Validated,
)
from mbc_engine.run_folder import EVENTS, LOCK, Request, request_in
from mbc_engine.run_history import RunState
from mbc_engine.work_lock import work_lock

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


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """The other views, which have tests of their own, need not be drawn here."""
    monkeypatch.setattr("mbc_cli.tui.app.VIEWS", (TrainView,))


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


def opened(places: Places, run: Path | None = None) -> Dashboard:
    return Dashboard(replace(places, run=run), TrainView.NAME)


def chart(app: Dashboard, name: str) -> Chart:
    return app.query_one(TrainView).query_one(f"#{name}", Chart)


def title(app: Dashboard, name: str) -> str:
    return Content.from_markup(chart(app, name).border_title).plain


def note(app: Dashboard, name: str) -> str:
    return Content.from_markup(chart(app, name).border_subtitle or "").plain


def drawing(of: Chart) -> str:
    return "\n".join(of.render_line(row).text for row in range(of.content_size.height))


def words(app: Dashboard, name: str) -> str:
    """What a widget says, in one line."""
    widget = (app.view if app.screen is app.screen_stack[0] else app.screen).query_one(name)
    return " ".join(" ".join(widget.render_line(row).text for row in range(widget.size.height)).split())


def shown_keys(app: Dashboard) -> set[str]:
    return {own.binding.description for own in app.screen.active_bindings.values() if own.binding.show}


@pytest.mark.asyncio
@pytest.mark.parametrize(("size", "place"), [(SMALL, "#brief"), (LARGE, "#facts")])
async def test_without_runs_it_says_how_to_begin(places, until, size, place):
    app = opened(places)
    async with app.run_test(size=size):
        await until(lambda: "Press n to start one" in words(app, place))
        await until(lambda: "nothing yet" in drawing(chart(app, "loss")))


@pytest.mark.asyncio
async def test_a_large_screen_shows_everything_at_once(places, until):
    events = [STARTED, *steps(1, 30), QuantisationStarted(9, 20), CodesReset(12, 3), VALIDATED]
    run = write(places.runs / "one", [*events, TrainStopped(30, 100)])
    app = opened(places, run)
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: title(app, "loss") == "Loss  4")
        assert len(app.query_one(Plots).in_sight) == 12
        assert title(app, "answers") == "Answers, %  ● F1 25.0  ○ EM 12.5"
        assert title(app, "source") == "Right source, %  25  ● val. 75.0"
        await pilot.pause()
        assert "┊" in drawing(chart(app, "loss"))
        assert "▴" in drawing(chart(app, "dead"))
        assert "▴" not in drawing(chart(app, "loss"))
        facts = words(app, "#facts")
        for fact in ("■ stopped", "30 of 100", "50 questions/s", "3 codes in 1 step", "F1 25.0, EM 12.5"):
            assert fact in facts
        await until(lambda: "■ stopped step 30 F1 25.0" in words(app, "#runs"))
        assert shown_keys(app) >= {"Resume", "New"}
        assert not shown_keys(app) & {"Pause", "Stop", "Compare", "Runs"}


@pytest.mark.asyncio
async def test_a_small_screen_shows_one_plot_and_turns_to_the_others(places, until):
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: title(app, "loss") == "Loss  4")
        assert "✗ one interrupted step 30 of 100 (30%)" in words(app, "#brief")
        plots = app.query_one(Plots)
        seen = []
        for key in ("right", "]", "left", "[", "["):
            await pilot.press(key)
            await pilot.pause()
            seen.append([own.id for own in plots.in_sight])
        assert seen == [["answers"], ["source"], ["answers"], ["loss"], ["speed"]]
        await until(lambda: title(app, "speed") == "Questions a second  50")


@pytest.mark.asyncio
async def test_one_plot_can_be_seen_alone(places, until):
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: title(app, "rate") == "Learning rate  0.001")
        plots = app.query_one(Plots)
        await pilot.click("#rate")
        await until(lambda: [own.id for own in plots.in_sight] == ["rate"])
        await pilot.press("z")
        await until(lambda: len(plots.in_sight) == 12)


@pytest.mark.asyncio
async def test_its_keys_outlive_the_size_of_the_screen(places, until):
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: isinstance(app.focused, RunList) and "New" in shown_keys(app))
        app.query_one(Facts).show([])
        await pilot.resize_terminal(*SMALL)
        await until(lambda: isinstance(app.focused, Plots) and shown_keys(app) >= {"New", "Runs", "Plots"})
        await pilot.resize_terminal(*LARGE)
        await until(lambda: "New" in shown_keys(app) and "Runs" not in shown_keys(app))
        await until(lambda: "✗ interrupted" in words(app, "#facts"))


@pytest.mark.asyncio
async def test_it_moves_with_the_run_and_forgets_what_a_resumed_run_takes_back(places, until):
    run = write(places.runs / "one", [STARTED, *steps(1, 10)])
    app = opened(places, run)
    async with app.run_test(size=SMALL):
        with work_lock(run / LOCK):
            await until(lambda: "▶ one training step 10 " in words(app, "#brief"))
            write(run, steps(11, 12, loss=3.25))
            await until(lambda: title(app, "loss") == "Loss  3.25")
            (run / EVENTS).unlink()
            write(run, [STARTED, *steps(1, 5, loss=2.5)])
            await until(lambda: title(app, "loss") == "Loss  2.5")
            assert "step 5 of 100" in words(app, "#brief")


@pytest.mark.asyncio
async def test_two_runs_are_told_apart_by_what_they_are_drawn_with(places, until):
    write(places.runs / "other", [STARTED, *steps(1, 90, loss=1.0), VALIDATED, TrainFinished(90, 5.0, "model")])
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: "Compare" in shown_keys(app))
        await pilot.press("c")
        await until(lambda: isinstance(app.screen, RunPicker))
        assert [option.id for option in app.screen.query_one(OptionList).options] == [str(places.runs / "other")]
        await pilot.press("enter")
        await until(lambda: note(app, "loss") == "other + 1")
        await pilot.pause()
        assert "+" in drawing(chart(app, "loss"))
        assert "◆" in drawing(chart(app, "answers"))
        assert "+ other" in words(app, "#runs")
        assert "+ other: finished, best F1 25.0" in words(app, "#facts")
        await pilot.press("c")
        await until(lambda: "+" not in drawing(chart(app, "loss")))
        assert app.known.other is None


@pytest.mark.asyncio
async def test_another_run_is_chosen_from_the_list(places, until):
    write(places.runs / "other", [STARTED, *steps(1, 90, loss=1.0)])
    run = write(places.runs / "one", [STARTED, *steps(1, 30)])
    app = opened(places, run)
    async with app.run_test(size=LARGE) as pilot:
        runs = app.query_one(RunList)
        await until(lambda: runs.option_count == 2 and title(app, "loss") == "Loss  4")
        assert app.focused is runs
        await pilot.press("down" if runs.highlighted == 0 else "up", "enter")
        await until(lambda: title(app, "loss") == "Loss  1")
        assert app.known.run.folder.name == "other"


@pytest.mark.asyncio
async def test_a_small_screen_has_the_list_behind_a_key(places, until):
    write(places.runs / "other", [STARTED, *steps(1, 90, loss=1.0)])
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(app.known.runs) == 2 and "Runs" in shown_keys(app))
        await pilot.press("l")
        await until(lambda: isinstance(app.screen, RunPicker))
        picker = app.screen.query_one(OptionList)
        picker.highlighted = picker.get_option_index(str(places.runs / "other"))
        await pilot.press("enter")
        await until(lambda: title(app, "loss") == "Loss  1")


@pytest.mark.asyncio
async def test_page_keys_do_no_harm_in_a_list_without_room(places, until):
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 3), TrainStopped(3, 100)]))
    async with app.run_test(size=(200, 12)) as pilot:
        await until(lambda: len(app.known.runs) == 1 and "stopped" in words(app, "#facts"))
        assert not app.query_one(RunList).scrollable_content_region
        app.query_one(RunList).focus()
        await pilot.press("end", "pageup", "pagedown")


@pytest.mark.asyncio
async def test_a_run_anywhere_is_opened_by_its_folder(places, until, home):
    elsewhere = write(home / "elsewhere" / "far", [STARTED, *steps(1, 7)])
    app = opened(places)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("a")
        await pilot.press(*"nowhere", "enter")
        await until(lambda: "There is no run at" in words(app, "#words"))
        app.screen.query_one(Input).value = str(elsewhere)
        await pilot.press("enter")
        await until(lambda: "far" in words(app, "#brief") and "step 7 of 100" in words(app, "#brief"))


@pytest.mark.asyncio
async def test_pausing_going_on_and_stopping_are_asked_for_in_the_folder(places, until):
    run = write(places.runs / "one", [STARTED, *steps(1, 10)])
    app = opened(places, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Pause" in shown_keys(app))
            await pilot.press("p")
            await until(lambda: request_in(run) is Request.PAUSE)
            await until(lambda: "will pause after this step" in words(app, "#brief"))
            write(run, [TrainPaused(10, 100)])
            await until(lambda: "Go on" in shown_keys(app) and "paused" in words(app, "#brief"))
            await pilot.press("space")
            await until(lambda: request_in(run) is None)
            for key, request in (("n", None), ("y", Request.STOP)):
                await pilot.press("s")
                await until(lambda: isinstance(app.screen, Confirm))
                await pilot.press(key)
                await until(lambda: not isinstance(app.screen, Confirm))
                await until(lambda wanted=request: request_in(run) is wanted)
            await until(lambda: "will stop after this step" in words(app, "#brief"))
            write(run, [TrainStopped(10, 100)])
        await until(lambda: "■ one stopped" in words(app, "#brief"))
        assert "Resume" in shown_keys(app)


@pytest.mark.asyncio
async def test_what_cannot_be_asked_is_said(places, until, monkeypatch):
    def refuse(*_):
        raise PermissionError("[red]not yours")

    monkeypatch.setattr("mbc_cli.tui.jobs.trainings.make_request", refuse)
    run = write(places.runs / "one", [STARTED, *steps(1, 10)])
    app = opened(places, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Pause" in shown_keys(app))
            await pilot.press("p")
            await until(lambda: any("[red]not yours" in own.message for own in app._notifications))
            await until(lambda: "training step 10 of 100" in words(app, "#brief"))


@pytest.mark.asyncio
async def test_names_do_nothing_to_the_screen(places, until):
    run = write(places.runs / "[bold]x\x1b[31m", [STARTED, *steps(1, 3)])
    other = write(places.runs / "[link=y]", [STARTED, *steps(1, 3)])
    app = opened(places, run)
    async with app.run_test(size=LARGE):
        app.compare(other)
        await until(lambda: note(app, "loss") == "[link=y] + 4")
        for place in ("#facts", "#runs"):
            await until(lambda place=place: "[bold]x␛[31m" in words(app, place))


@pytest.mark.asyncio
async def test_words_of_a_training_that_failed_do_nothing_to_the_screen(places, until):
    run = write(places.runs / "one", [STARTED, *steps(1, 3), TrainStopped(3, 100)])
    app = opened(places, run)
    async with app.run_test(size=SMALL):
        await until(lambda: "stopped" in words(app, "#brief"))
        app.view.post_message(TrainingEnded(run, "no [red]\x1b[31m disk"))
        await until(lambda: "no [red]␛[31m disk" in words(app, "#brief"))


@pytest.mark.asyncio
async def test_a_training_that_cannot_start_says_why_in_the_form(places, until):
    app = opened(places)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, RunForm))
        await pilot.press("enter")
        await until(lambda: "Trained on what?" in words(app, "#words"))
        app.screen.query_one("#preset", Input).value = "mini"
        app.screen.query_one("#data", Input).value = "'missing [file].jsonl'"
        await pilot.press("enter")
        await until(lambda: "Error: There is no file" in words(app, "#words"))
        await until(lambda: "missing [file].jsonl. --data takes" in words(app, "#words"))
        await pilot.press("escape")
        assert app.known.run is None


@pytest.mark.asyncio
async def test_the_form_for_another_training_stays_open_while_one_is_at_work(places, until):
    run = write(places.runs / "one", [STARTED, *steps(1, 10)])
    app = opened(places, run)
    async with app.run_test(size=SMALL) as pilot:
        with work_lock(run / LOCK):
            await until(lambda: "Pause" in shown_keys(app))
            await pilot.press("n")
            await until(lambda: isinstance(app.screen, RunForm))
            write(run, steps(11, 20))
            await until(lambda: app.known.run.history.latest.step == 20)
            app.view.draw()
            await pilot.pause()
            assert isinstance(app.screen, RunForm)


@pytest.mark.asyncio
async def test_enter_twice_starts_one_training(places, until, monkeypatch):
    begun = []

    class Child:
        is_running = True

        def __init__(self, arguments, ended):
            begun.append(arguments)

    monkeypatch.setattr("mbc_cli.tui.jobs.trainings.Child", Child)
    app = opened(places)
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("n")
        await until(lambda: isinstance(app.screen, RunForm))
        app.screen.query_one("#preset", Input).value = "mini"
        app.screen.query_one("#data", Input).value = "a.jsonl"
        await pilot.press("enter", "enter")
        assert [own[0] for own in begun] == ["train"]


@pytest.mark.asyncio
async def test_a_training_that_diverges_is_drawn_all_the_same(places, until):
    worse = [replace(STEP, step=11, loss=1e30), replace(STEP, step=12, loss=float("nan"), perplexity=float("inf"))]
    app = opened(places, write(places.runs / "one", [STARTED, *steps(1, 10), *worse]))
    async with app.run_test(size=LARGE):
        await until(lambda: title(app, "loss") == "Loss  nan")
        assert "e29" in drawing(chart(app, "loss")) or "e30" in drawing(chart(app, "loss"))
        assert title(app, "perplexity") == "Perplexity of codes  inf"


def test_what_is_asked_last_is_what_stands_in_the_folder(home, monkeypatch):
    run, asked = write(home / "one", [STARTED]), []
    monkeypatch.setattr("mbc_cli.tui.jobs.trainings.start_thread", lambda name, work, post: asked.append(work))
    trainings = Trainings(home, print)
    for request in (Request.STOP, Request.PAUSE, None, Request.PAUSE):
        trainings.ask(run, request)
    for work in reversed(asked):  # threads come in any order
        work()
    assert request_in(run) is Request.PAUSE


@pytest.mark.asyncio
async def test_a_hundred_thousand_steps_are_shown_to_the_last(places, until):
    lines = [json.dumps({"time": 0.0, **STARTED.to_json(), "total_steps": 100_000})]
    step = json.dumps({"time": 1.0, **STEP.to_json()})
    lines += [step.replace('"step": 1,', f'"step": {number},') for number in range(1, 100_000)]
    lines.append(json.dumps({"time": 2.0, **replace(STEP, step=100_000, loss=0.765).to_json()}))
    run = places.runs / "long"
    run.mkdir(parents=True)
    (run / EVENTS).write_text("".join(f"{line}\n" for line in lines))
    app = opened(places, run)
    async with app.run_test(size=LARGE):
        await until(lambda: title(app, "loss") == "Loss  0.765")
        assert "100,000 of 100,000" in words(app, "#facts")


@pytest.mark.asyncio
async def test_a_training_is_started_paused_stopped_and_resumed(places, until, preset, home):
    data = home / "questions.jsonl"
    rows = [
        {"text": f"{name} moved to Delft.", "question": f"Where did {name} move?", "answers": ["Delft"]}
        for name in ("Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo")
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    app = opened(places)
    async with app.run_test(size=SMALL) as pilot:

        def is_(state: RunState) -> bool:
            return app.known.run is not None and app.known.run.state is state

        await pilot.press("n")
        await until(lambda: isinstance(app.screen, RunForm))
        form = {"preset": str(preset), "data": data.name, "run": "mine", "settings": "training.epochs=5000"}
        for field, value in form.items():
            app.screen.query_one(f"#{field}", Input).value = value
        await pilot.press("enter")
        await until(lambda: not isinstance(app.screen, RunForm))
        await until(lambda: is_(RunState.TRAINING) and app.known.run.history.latest is not None)
        assert app.known.run.folder == places.runs / "mine"
        await until(lambda: "Pause" in shown_keys(app))
        await pilot.press("p")
        await until(lambda: is_(RunState.PAUSED) and "Go on" in shown_keys(app))
        step = app.known.run.history.progress.step
        await pilot.press("p")
        await until(lambda: is_(RunState.TRAINING) and app.known.run.history.progress.step > step)

        async def stop() -> int:
            await until(lambda: "Stop" in shown_keys(app))
            await pilot.press("s")
            await until(lambda: isinstance(app.screen, Confirm))
            await pilot.press("y")
            await until(lambda: is_(RunState.STOPPED) and "Resume" in shown_keys(app))
            return app.known.run.history.progress.step

        step = await stop()
        await pilot.press("r")
        await until(lambda: is_(RunState.TRAINING) and app.known.run.history.progress.step > step)
        assert await stop() > step
