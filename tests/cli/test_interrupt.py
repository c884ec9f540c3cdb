import signal
import threading

import pytest

from mbc_cli.program import interrupt_message, stop_on_interrupt
from tests.needs import PATIENCE

# A command, with a stub in place of a memory, that reports when its first step is done, and then hangs.


def test_innermost_message_is_used():
    with pytest.raises(KeyboardInterrupt, match="inner"), interrupt_message("outer"), interrupt_message("inner"):
        raise KeyboardInterrupt


class View:
    """Records what is announced."""

    def __init__(self):
        self.announced, self.is_notified = [], threading.Event()

    def announce(self, text):
        self.announced.append(text)
        self.is_notified.set()


def test_second_interrupt_ends():
    view, before = View(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stop_on_interrupt(view, "Stopping.") as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        assert view.is_notified.wait(PATIENCE)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_interrupt_under_a_launcher(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    with stop_on_interrupt(view := View(), "Stopping.") as stop:
        signal.raise_signal(signal.SIGINT)  # by the terminal
        signal.raise_signal(signal.SIGINT)  # by the launcher
        assert stop.is_set()
    assert view.announced == ["Stopping."]
