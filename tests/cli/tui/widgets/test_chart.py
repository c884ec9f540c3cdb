"""Charts: round numbers on axes, curves and markers, any numbers in any box."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from mbc_cli.tui.widgets.chart import Chart, PlotCurve, format_number, ticks
from tests.cli.tui.widgets.conftest import WidgetApp, lines

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
def test_ticks_are_round(low, high, most, labels):
    assert [*ticks(low, high, most).values()] == labels


@given(NUMBERS, NUMBERS, st.integers(2, 12))
def test_ticks_are_within_bounds(one, other, most):
    low, high = sorted((one, other))
    if high - low < 1e-6 * max(abs(low), abs(high), 1e-6):
        return
    values = [*ticks(low, high, most)]
    room = (high - low) * 1e-6
    assert values == sorted(values) and len(values) <= most
    assert all(low - room <= value <= high + room for value in values)


def test_format_number():
    numbers = [0, 0.5123, -12.34, 1234.5, 12_345, 2e-5, 9.99e-5, 5e-324, -2.5e30, math.nan, -math.inf]
    texts = ["0", "0.512", "-12.3", "1,234", "12.35k", "2e-5", "1e-4", "4.9e-324", "-2.5e30", "nan", "-inf"]
    assert [format_number(number) for number in numbers] == texts


def axis_labels(drawn):
    return [line.split("┤")[0].strip() for line in drawn if "┤" in line]


async def test_curves_axes_and_marks_and_any_numbers_in_any_box():
    chart = Chart("Loss")
    async with WidgetApp(chart).run_test(size=(42, 14)) as pilot:
        assert [line.strip() for line in lines(chart) if line.strip()] == ["nothing yet"]
        curves = [PlotCurve([0, 10, 20], [0, 10, 5]), PlotCurve([0, 20, 30], [2, np.nan, 8], marker="+")]
        chart.show(curves, "a note", value="5", lines=[10], pointers=[20, 99])
        drawn = lines(chart)
        assert axis_labels(drawn) == ["10", "8", "6", "4", "2", "0"]
        assert drawn[-1].split() == ["0", "10", "20", "30"]
        assert sum(line.count("+") for line in drawn) == 2
        assert drawn[2].count("│") == 1 and drawn[-3].count("▴") == 1
        assert any("⠀" < character <= "⣿" for character in "".join(drawn))
        assert Content.from_markup(chart.border_title).plain == "Loss  5"
        assert chart.border_subtitle == "a note"
        for value, lowest, ends in ((0, None, ("1.0", "0")), (4, 0, ("4", "0"))):
            chart.show([PlotCurve([1, 2], [value, value])], lowest=lowest)
            labels = axis_labels(lines(chart))
            assert (labels[0], labels[-1]) == ends
        chart.show([PlotCurve([], []), PlotCurve([1.0, 2.0, 3.0], [np.nan, np.inf, -1e308])], "a note")
        assert [line.strip() for line in lines(chart) if line.strip()] == ["nothing yet"]

        for size in ((3, 3), (20, 5), (200, 60)):
            await pilot.resize_terminal(*size)
            for values in ([1e190, -3.0, 5e-190], [0.0, 0.0], [4.0], [-1e-180, 1e150]):
                curves = [PlotCurve(range(len(values)), values), PlotCurve(range(len(values)), values, marker="+")]
                chart.show(curves, "[b]note[/b]", lines=[0.0], pointers=[1.0])
                await pilot.pause()
                assert {len(chart.render_line(row).text) for row in range(chart.content_size.height)} <= {size[0] - 2}
