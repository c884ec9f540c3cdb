"""Read modes and their errors; how events are written; how long repeated work waits."""

from pathlib import PurePosixPath

import pytest

from mbc_engine.errors import ConfigError
from mbc_engine.machine import Throttle
from mbc_engine.names import MINIMUM_NUMBERS, READ_MODES, ReadMode, is_on_cluster, parse_read_mode


@pytest.mark.parametrize("name", READ_MODES)
def test_read_mode_with_and_without_a_number(name):
    assert parse_read_mode(name) == ReadMode(name, None)
    smallest = MINIMUM_NUMBERS.get(name, 2)
    wrong, message = (smallest - 1, f"at least {smallest}") if name in MINIMUM_NUMBERS else (1, "takes no number")
    if name in MINIMUM_NUMBERS:
        assert parse_read_mode(f"{name}:{smallest}") == ReadMode(name, smallest)
    with pytest.raises(ConfigError, match=message) as refused:
        parse_read_mode(f"{name}:{wrong}")
    assert refused.value.hint


def test_banks_of_a_cluster():
    banks = ["node-2:/data/b.mbc", "10.0.0.7:/b.mbc", "C:/b.mbc", "a:b.mbc", "b/c:/d"]
    assert [bank for bank in banks if is_on_cluster(PurePosixPath(bank))] == banks[:2]


WRONG_NUMBERS = ("", "x", "-1", "²", "02", "1.5", "2:3", 5000 * "9")


@pytest.mark.parametrize("text", ["", ":", "best", "Flat", "flat ", "flat:", *(f"routed:{n}" for n in WRONG_NUMBERS)])
def test_unknown_read_mode(text):
    with pytest.raises(ConfigError, match="no read") as refused:
        parse_read_mode(text)
    assert refused.value.hint == "Read modes: flat, hierarchical, routed; a number may follow, as in routed:2."


def test_throttle_waits_an_interval_or_a_share_of_the_work():
    throttle = Throttle(max_share=0.1, min_interval=1.0)
    assert throttle.is_due(0.0) and throttle.seconds_left(0.0) == 0.0
    throttle.record(10.0, 10.05)
    assert not throttle.is_due(10.9) and throttle.is_due(11.0)
    throttle.record(20.0, 20.5)
    assert not throttle.is_due(24.5) and throttle.seconds_left(24.5) == 0.5
    assert throttle.is_due(25.0) and throttle.seconds_left(26.0) == 0.0
