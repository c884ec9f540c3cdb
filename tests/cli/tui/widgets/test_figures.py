"""Shares, rows of numbers, bars, and lines going by, as text."""

import pytest
from textual.geometry import Size

from mbc_cli.tui.widgets.figures import bar, bars, gauge, sparkline, tail
from tests.cli.tui.widgets.conftest import HOSTILE


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0, ""), (1e-6, "▏"), (1 / 32, "▏"), (1 / 8, "▌"), (0.5, "██"), (0.65625, "██▋"), (1, "████")],
)
def test_a_bar_is_as_long_as_its_share_of_four_cells(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (None, "░░░░"),
        (0.0, "░░░░   0 %"),
        (0.5, "██░░  50 %"),
        (0.999, "███▉  99 %"),
        (1.0, "████ 100 %"),
    ],
)
def test_a_gauge_tells_a_share_without_colour(share: float | None, drawn: str) -> None:
    assert gauge(share, Size(10, 1)).plain == drawn


def test_a_sparkline_stands_on_zero_and_shows_the_last_numbers() -> None:
    size = Size(6, 1)
    assert sparkline([0.0, 4.0, 8.0], size).plain == "   ▁▄█"
    assert sparkline([float(number) for number in range(9)], size).plain == "▃▄▅▆▇█"
    assert sparkline([0.0], size).plain == "     ▁"


def test_the_last_lines_are_seen_and_are_text() -> None:
    assert tail(["one", "two", HOSTILE], Size(20, 2)).plain == "two\n[red]␛[31m<U+202E>b"


def test_labelled_bars_share_a_scale() -> None:
    assert bars([("a", 2, "2 kB"), ("bc", 1, "1 B")], Size(13, 2)).plain == "a  ████  2 kB\nbc ██     1 B"
    assert bars([], Size(13, 2)).plain == ""
