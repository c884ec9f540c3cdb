"""A share, a row of numbers, and lines going by."""

import pytest

from mbc_cli.tui.widgets.figures import Gauge, Spark, Tail
from tests.cli.tui.widgets.conftest import HOSTILE, Alone


@pytest.mark.parametrize(
    ("share", "bar"), [(0.0, "░░░░   0 %"), (0.5, "██░░  50 %"), (0.999, "███▉  99 %"), (1.0, "████ 100 %")]
)
async def test_a_bar_tells_a_share_without_colour(share: float, bar: str) -> None:
    app = Alone(Gauge())
    async with app.run_test(size=(10, 3)):
        app.query_one(Gauge).show(share)
        assert app.query_one(Gauge).render().plain == bar


async def test_bars_stand_on_zero_and_the_last_are_seen() -> None:
    app = Alone(Spark())
    async with app.run_test(size=(6, 3)):
        app.query_one(Spark).show([0.0, 4.0, 8.0])
        assert app.query_one(Spark).render().plain == "   ▁▄█"
        app.query_one(Spark).show([float(number) for number in range(9)])
        assert app.query_one(Spark).render().plain == "▃▄▅▆▇█"
        app.query_one(Spark).show([0.0])
        assert app.query_one(Spark).render().plain == "     ▁"


async def test_the_last_lines_are_seen_and_are_text() -> None:
    app = Alone(Tail())
    async with app.run_test(size=(20, 2)):
        app.query_one(Tail).show(["one", "two", HOSTILE])
        assert app.query_one(Tail).render().plain == "two\n[red]␛[31m<U+202E>b"
