"""How long repeated work has to wait."""

from mbc_engine.machine import SlowDown


def test_quick_work_is_due_after_the_least_time_and_slow_work_after_its_share() -> None:
    rest = SlowDown(share=0.1, least=1.0)
    assert rest.is_due(0.0) and rest.seconds_left(0.0) == 0.0
    rest.took(10.0, 10.05)
    assert not rest.is_due(10.9) and rest.is_due(11.0)
    rest.took(20.0, 20.5)
    assert not rest.is_due(24.5) and rest.seconds_left(24.5) == 0.5
    assert rest.is_due(25.0) and rest.seconds_left(26.0) == 0.0
