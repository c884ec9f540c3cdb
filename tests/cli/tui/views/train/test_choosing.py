"""Which training is shown: the one changed last, one from the list, or one from anywhere."""

import pytest
from textual.command import CommandPalette
from textual.widgets import OptionList

from mbc_cli.tui.widgets.figures import Facts
from mbc_cli.tui.widgets.run_plots import RunPlots
from mbc_engine.events import TrainStateChanged
from tests.cli.tui.conftest import shown_keys
from tests.cli.tui.views.train.conftest import (
    LARGE,
    SMALL,
    STARTED,
    chart,
    dashboard,
    drawing,
    steps,
    subtitle,
    text_of,
    title,
    write,
)


@pytest.mark.parametrize(("size", "place"), [(SMALL, "#brief"), (LARGE, "#facts")])
async def test_without_runs_it_says_how_to_begin(options, until, size, place):
    app = dashboard(options)
    async with app.run_test(size=size):
        await until(lambda: "Press n to start one" in text_of(app, place))
        await until(lambda: "nothing yet" in drawing(chart(app, "loss")))


async def test_another_run_is_chosen_from_the_list(options, until):
    write(options.runs / "other", [STARTED, *steps(1, 90, loss=1.0)])
    run = write(options.runs / "one", [STARTED, *steps(1, 30)])
    app = dashboard(options, run)
    async with app.run_test(size=LARGE) as pilot:
        runs = app.query_one("#runs", OptionList)
        await until(lambda: runs.option_count == 2 and title(app, "loss") == "Loss  4")
        assert app.focused is runs
        await pilot.press("down" if runs.highlighted == 0 else "up", "enter")
        await until(lambda: title(app, "loss") == "Loss  1")
        assert app.state.run.folder.name == "other"


async def test_a_small_screen_has_the_list_behind_a_key(options, until):
    write(options.runs / "other", [STARTED, *steps(1, 90, loss=1.0)])
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=SMALL) as pilot:
        await until(lambda: len(app.state.runs) == 2 and "Runs" in shown_keys(app))
        await pilot.press("l")
        await until(lambda: isinstance(app.screen, CommandPalette))
        await until(lambda: app.screen.query_one(OptionList).option_count)
        await pilot.press(*"other", "enter")
        await until(lambda: title(app, "loss") == "Loss  1")


async def test_a_run_from_elsewhere_is_compared_with_the_only_one_in_the_folder(options, until, home):
    write(options.runs / "one", [STARTED, *steps(1, 90)])
    app = dashboard(options, write(home / "elsewhere", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=SMALL):
        await until(lambda: len(app.state.runs) == 1 and "Compare" in shown_keys(app))


async def test_a_low_screen_has_room_for_a_run_in_the_list(options, until):
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 3), TrainStateChanged("stopped", 3, 100)]))
    async with app.run_test(size=(200, 12)) as pilot:
        await until(lambda: len(app.state.runs) == 1 and "stopped" in text_of(app, "#facts"))
        app.query_one("#runs").focus()
        await pilot.press("end", "pageup", "pagedown")


async def test_its_keys_outlive_the_size_of_the_screen(options, until):
    app = dashboard(options, write(options.runs / "one", [STARTED, *steps(1, 30)]))
    async with app.run_test(size=LARGE) as pilot:
        await until(lambda: isinstance(app.focused, OptionList) and "New" in shown_keys(app))
        app.query_one(Facts).show([])
        await pilot.resize_terminal(*SMALL)
        await until(lambda: isinstance(app.focused, RunPlots) and shown_keys(app) >= {"New", "Runs", "Plots"})
        await pilot.resize_terminal(*LARGE)
        await until(lambda: "New" in shown_keys(app) and "Runs" not in shown_keys(app))
        await until(lambda: "✗ interrupted" in text_of(app, "#facts"))


async def test_names_do_nothing_to_the_screen(options, until):
    run = write(options.runs / "[bold]x\x1b[31m", [STARTED, *steps(1, 3)])
    other = write(options.runs / "[link=y]", [STARTED, *steps(1, 3)])
    app = dashboard(options, run)
    async with app.run_test(size=LARGE):
        app.compare(other)
        await until(lambda: subtitle(app, "loss") == "[link=y] + 4")
        for place in ("#facts", "#runs"):
            await until(lambda place=place: "[bold]x␛[31m" in text_of(app, place))
