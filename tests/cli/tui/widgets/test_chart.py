"""A plot of curves: its axes, what it says of nothing, and when it is drawn anew."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content

from mbc_cli.tui.widgets.chart import Chart, Curve
from mbc_cli.tui.widgets.plot import Cells, Points, plot

ANY_SIZE = st.builds(lambda digits, power: digits * 10.0**power, st.floats(-9, 9, width=16), st.integers(-190, 190))


@given(st.lists(ANY_SIZE, min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 20), st.booleans())
def test_whatever_a_diverging_training_logs_fits_the_plot(values, width, height, is_from_zero):
    points = np.arange(len(values), dtype=float), np.array(values)
    curves = [Points(*points, None), Points(*points, "+")]
    plot(Cells(width, height), curves, 0.0 if is_from_zero else None, np.array([0.0]), np.array([1.0]))


class Page(App[None]):
    """One chart, alone."""

    def compose(self) -> ComposeResult:
        yield Chart("Loss")


def text_of(chart: Chart) -> list[str]:
    """What stands inside the box."""
    return [chart.render_line(row).text for row in range(chart.content_size.height)]


async def test_a_chart_has_axes_curves_and_what_happened():
    app = Page()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        curves = [Curve([0, 10, 20], [0, 10, 5]), Curve([0, 20, 30], [2, np.nan, 8], marker="+")]
        chart.show(curves, "a note", value="5", lines=[10], pointers=[20, 99])
        await pilot.pause()
        lines = text_of(chart)
        assert [line.split("┤")[0].strip() for line in lines if "┤" in line] == ["10", "5", "0"]
        assert lines[-1].split() == ["0", "10", "20", "30"]
        assert sum(line.count("+") for line in lines) == 2
        assert "┊" in lines[-3] and lines[-2].count("▴") == 1
        assert any("⠀" < character <= "⣿" for character in "".join(lines))
        assert Content.from_markup(chart.border_title).plain == "Loss  5"
        assert chart.border_subtitle == "a note"


async def test_a_chart_of_nothing_says_so_in_the_middle():
    app = Page()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        chart.show([Curve([], []), Curve([1.0, 2.0, 3.0], [np.nan, np.inf, -1e308])], "a note")
        await pilot.pause()
        assert [line.strip() for line in text_of(chart) if line.strip()] == ["nothing yet"]


@pytest.mark.parametrize("size", [(3, 3), (8, 4), (20, 5), (200, 60)])
async def test_a_chart_fits_any_box(size):
    app = Page()
    async with app.run_test(size=size) as pilot:
        chart = app.query_one(Chart)
        chart.show([Curve([1], [1]), Curve(range(500), range(500), marker="+")], "[b]note[/b]", pointers=[3])
        await pilot.pause()
        assert {len(line) for line in text_of(chart)} <= {chart.content_size.width}


@pytest.mark.parametrize(("value", "lowest", "labels"), [(0, None, ["1.0", "0.5", "0"]), (4, 0, ["4", "2", "0"])])
async def test_a_level_curve_has_an_axis_all_the_same(value, lowest, labels):
    app = Page()
    async with app.run_test(size=(42, 10)) as pilot:
        chart = app.query_one(Chart)
        chart.show([Curve([1, 2], [value, value])], lowest=lowest)
        await pilot.pause()
        assert [line.split("┤")[0].strip() for line in text_of(chart) if "┤" in line] == labels


async def test_a_chart_is_drawn_anew_only_for_something_else(monkeypatch):
    app = Page()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        chart.show([Curve([1, 2], [3, 4])])
        await pilot.pause()
        refreshed = []
        monkeypatch.setattr(chart, "refresh", lambda *args, **options: refreshed.append(1))
        chart.show([Curve(np.array([1.0, 2.0]), [3, 4])])
        assert not refreshed
        chart.show([Curve([1, 2], [3, 5])])
        assert refreshed
