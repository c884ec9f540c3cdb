"""Where things stand in a plot."""

from xml.etree import ElementTree

import pytest

from mbc_engine.evaluation.report.plots import Axis, Bar, Series, bars, lines
from mbc_engine.evaluation.results import Figure

PLAIN = Axis("", lambda value: f"{value:g}")
LOG = Axis("", lambda value: f"{value:g}", is_log=True)


def points_of(drawing: str) -> list[list[tuple[float, float]]]:
    return [
        [tuple(map(float, point.split(","))) for point in line.get("points").split()]
        for line in ElementTree.fromstring(drawing).iter("polyline")
    ]


def texts_of(drawing: str) -> list[str]:
    return [text.text for text in ElementTree.fromstring(drawing).iter("text")]


def test_a_linear_axis_starts_at_0_and_keeps_proportions():
    ((low, middle, high),) = points_of(lines("l", PLAIN, PLAIN, [Series("a", 0, [(0, 0), (50, 10), (100, 20)])]))
    assert middle == ((low[0] + high[0]) / 2, (low[1] + high[1]) / 2)
    assert low[1] > high[1]


def test_a_logarithmic_axis_spaces_factors_evenly():
    ((first, second, third),) = points_of(lines("l", LOG, LOG, [Series("a", 0, [(4, 10), (16, 100), (64, 1000)])]))
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.11)
    assert second[1] - first[1] == pytest.approx(third[1] - second[1], abs=0.11)


def test_ticks_of_a_logarithmic_x_are_what_was_measured():
    assert {"16", "64", "256"} <= set(texts_of(lines("l", LOG, PLAIN, [Series("a", 0, [(16, 1), (64, 2), (256, 3)])])))


def test_what_a_logarithm_cannot_show_is_left_out():
    ((point,),) = points_of(lines("l", PLAIN, LOG, [Series("a", 0, [(1, 0), (2, 5)])]))
    assert point[0] == 378.0
    assert lines("l", PLAIN, LOG, [Series("a", 0, [(1, 0)])]) == ""


def test_one_point_and_zeros_are_drawn():
    assert len(points_of(lines("l", LOG, LOG, [Series("a", 0, [(5, 5)])]))) == 1
    assert len(points_of(lines("l", PLAIN, PLAIN, [Series("a", -2, [(0, 0)])]))) == 1


def test_a_bar_tells_its_mean_and_interval():
    drawing = bars("l", [Bar("MBC", 0, Figure(12.34, 10, 15)), Bar("<b>&", -1, Figure(0, 0, 0))])
    root = ElementTree.fromstring(drawing)
    assert [title.text for title in root.iter("title")] == ["l", "MBC: 12.3 (10.0 to 15.0)", "<b>&: 0.0 (0.0 to 0.0)"]
    whisker = next(line for line in root.iter("line") if line.get("class") == "whisker")
    dot = next(root.iter("circle"))
    assert float(whisker.get("x1")) < float(dot.get("cx")) < float(whisker.get("x2"))


def test_no_attribute_is_a_style():
    drawing = lines("l", PLAIN, PLAIN, [Series("a", 1, [(1, 2), (2, 3)])])
    assert not any("style" in part.attrib for part in ElementTree.fromstring(drawing).iter())
