import signal
import threading

import pytest

from mbc_cli.interrupt import stop_on_interrupt


def test_the_first_asks_and_the_second_ends():
    told = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_on_interrupt(told.set) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert told.wait(5)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_work_that_is_not_interrupted_tells_nothing():
    told = threading.Event()
    with stop_on_interrupt(told.set):
        pass
    assert not told.is_set()
