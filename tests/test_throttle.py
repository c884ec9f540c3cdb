"""How long repeated work has to wait."""

from mbc_engine.machine import Throttle


def test_quick_work_is_due_after_the_least_time_and_slow_work_after_its_share() -> None:
    throttle = Throttle(max_share=0.1, min_interval=1.0)
    assert throttle.is_due(0.0) and throttle.seconds_left(0.0) == 0.0
    throttle.record(10.0, 10.05)
    assert not throttle.is_due(10.9) and throttle.is_due(11.0)
    throttle.record(20.0, 20.5)
    assert not throttle.is_due(24.5) and throttle.seconds_left(24.5) == 0.5
    assert throttle.is_due(25.0) and throttle.seconds_left(26.0) == 0.0
