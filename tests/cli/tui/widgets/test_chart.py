"""A plot of curves: round numbers, braille lines, axes, and when it is redrawn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from mbc_cli.tui.widgets.chart import Chart, PlotCurve, format_number, plot, ticks, trace
from tests.cli.tui.widgets.conftest import WidgetApp

ANY_SIZE = st.builds(lambda digits, power: digits * 10.0**power, st.floats(-9, 9, width=16), st.integers(-190, 190))


@given(st.lists(ANY_SIZE, min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 20), st.booleans())
def test_whatever_a_diverging_training_logs_fits_the_plot(values, width, height, is_from_zero):
    points = np.arange(len(values), dtype=float), np.array(values)
    curves = [PlotCurve(*points), PlotCurve(*points, marker="+")]
    plot((height, width), curves, 0.0 if is_from_zero else None, np.array([0.0]), np.array([1.0]))


NUMBERS = st.floats(-1e7, 1e7, allow_nan=False).map(lambda value: round(value, 6))


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0, 10, 3, ["0", "5", "10"]),
        (0, 10, 6, ["0", "2", "4", "6", "8", "10"]),
        (0.2, 1.9, 4, ["0.5", "1.0", "1.5"]),
        (-1, 1, 3, ["-1", "0", "1"]),
        (0, 9000, 5, ["0", "2,000", "4,000", "6,000", "8,000"]),
        (0, 40_000, 3, ["0", "20k", "40k"]),
        (0, 9_000_000, 3, ["0", "5M"]),
        (0, 3e-5, 4, ["0", "1e-5", "2e-5", "3e-5"]),
        (0, 2e30, 3, ["0", "1e30", "2e30"]),
    ],
)
def test_an_axis_carries_round_numbers(low, high, most, labels):
    assert [*ticks(low, high, most).values()] == labels


@given(NUMBERS, NUMBERS, st.integers(2, 12))
def test_numbers_on_an_axis_lie_on_it_in_order_and_are_not_too_many(one, other, most):
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):
        return
    values = [*ticks(low, high, most)]
    room = (high - low) * 1e-6
    assert values == sorted(values)
    assert len(values) <= most
    assert all(low - room <= value <= high + room for value in values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5123, "0.512"),
        (-12.34, "-12.3"),
        (1234.5, "1,234"),
        (12_345, "12.35k"),
        (2e-5, "2e-5"),
        (9.99e-5, "1e-4"),
        (5e-324, "4.9e-324"),
        (-2.5e30, "-2.5e30"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_a_number_alone_is_short(value, text):
    assert format_number(value) == text


def test_a_point_is_one_dot():
    dots = [(0, 0, 0x01), (1, 0, 0x08), (0, 1, 0x02), (1, 2, 0x20), (0, 3, 0x40), (1, 3, 0x80)]
    for x, y, bit in dots:
        assert trace(np.array([float(x)]), np.array([float(y)]), 1, 1).tolist() == [[bit]]


def test_a_line_runs_through_all_cells_between_its_ends():
    level = trace(np.array([0.0, 5.0]), np.array([1.0, 1.0]), 1, 3)
    assert level.tolist() == [[0x12, 0x12, 0x12]]
    upright = trace(np.array([0.0, 0.0]), np.array([0.0, 7.0]), 2, 1)
    assert upright.tolist() == [[0x47], [0x47]]
    slanting = trace(np.array([0.0, 3.0]), np.array([0.0, 3.0]), 1, 2)
    assert slanting.tolist() == [[0x01 | 0x10, 0x04 | 0x80]]


def test_what_lies_outside_is_cut_off():
    assert not trace(np.array([-9.0, 9.0]), np.array([-5.0, -5.0]), 2, 2).any()


def _chart_app() -> WidgetApp:
    return WidgetApp(Chart("Loss"))


def text_of(chart: Chart) -> list[str]:
    """The text inside the box."""
    return [chart.render_line(row).text for row in range(chart.content_size.height)]


async def test_a_chart_has_axes_curves_and_what_happened():
    app = _chart_app()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        curves = [PlotCurve([0, 10, 20], [0, 10, 5]), PlotCurve([0, 20, 30], [2, np.nan, 8], marker="+")]
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
    app = _chart_app()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        chart.show([PlotCurve([], []), PlotCurve([1.0, 2.0, 3.0], [np.nan, np.inf, -1e308])], "a note")
        await pilot.pause()
        assert [line.strip() for line in text_of(chart) if line.strip()] == ["nothing yet"]


@pytest.mark.parametrize("size", [(3, 3), (8, 4), (20, 5), (200, 60)])
async def test_a_chart_fits_any_box(size):
    app = _chart_app()
    async with app.run_test(size=size) as pilot:
        chart = app.query_one(Chart)
        chart.show([PlotCurve([1], [1]), PlotCurve(range(500), range(500), marker="+")], "[b]note[/b]", pointers=[3])
        await pilot.pause()
        assert {len(line) for line in text_of(chart)} <= {chart.content_size.width}


@pytest.mark.parametrize(("value", "lowest", "labels"), [(0, None, ["1.0", "0.5", "0"]), (4, 0, ["4", "2", "0"])])
async def test_a_level_curve_has_an_axis_all_the_same(value, lowest, labels):
    app = _chart_app()
    async with app.run_test(size=(42, 10)) as pilot:
        chart = app.query_one(Chart)
        chart.show([PlotCurve([1, 2], [value, value])], lowest=lowest)
        await pilot.pause()
        assert [line.split("┤")[0].strip() for line in text_of(chart) if "┤" in line] == labels


async def test_a_chart_is_drawn_anew_only_for_something_else(monkeypatch):
    app = _chart_app()
    async with app.run_test(size=(42, 14)) as pilot:
        chart = app.query_one(Chart)
        chart.show([PlotCurve([1, 2], [3, 4])])
        await pilot.pause()
        refreshed = []
        monkeypatch.setattr(chart, "refresh", lambda *args, **options: refreshed.append(1))
        chart.show([PlotCurve(np.array([1.0, 2.0]), [3, 4])])
        assert not refreshed
        chart.show([PlotCurve([1, 2], [3, 5])])
        assert refreshed
