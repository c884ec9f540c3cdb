import os
import signal
import subprocess
import sys
import threading

import pytest

from mbc_cli.program import interrupt_message, stop_on_interrupt
from tests.needs import PATIENCE

# A command, with a stub in place of a memory, that reports when its first step is done, and then hangs.
_HALTED = """
import signal, sys, threading
import mbc_engine.memory
from mbc_cli.app import app
from tests.cli.stub_memory import StubMemory
from {module} import {owner} as owner

mbc_engine.memory.Memory = StubMemory

signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background it is ignored

work = owner.{name}

def halted(*arguments, **options):
    for step in work(*arguments, **options):
        yield step
        print("at work", file=sys.stderr, flush=True)
        while not threading.Event().wait(0.05):  # a signal may reach another thread: this one has to wake up
            pass

owner.{name} = halted
app({arguments!r})
"""


@pytest.fixture
def interrupt(home):
    """Interrupts a command, as Ctrl-C does, after the first step of a function; returns what it then says."""

    def run(module, owner, name, *arguments, twice=False):
        given = [str(argument) for argument in arguments]
        script = _HALTED.format(module=module, owner=owner, name=name, arguments=given)
        with subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home,
            start_new_session=True,
        ) as process:
            seen = []
            while "at work\n" not in seen:
                seen.append(process.stderr.readline())
                assert seen[-1], "".join(seen)
            os.killpg(process.pid, signal.SIGINT)
            if twice:
                while "Ctrl-C again" not in seen[-1]:
                    seen.append(process.stderr.readline())
                    assert seen[-1], "".join(seen)
                os.killpg(process.pid, signal.SIGINT)
            out, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (130, ""), "".join(seen)
        return said

    return run


def test_ingest(interrupt, notes):
    command = ("ingest", notes, "--bank", "b.mbc", "--quiet")
    said = interrupt("tests.cli.stub_memory", "StubMemory", "add", *command, twice=True)
    assert said == "Interrupted. What was committed before is saved; run the same command again to continue.\n"


def test_a_merge(interrupt, small_bank, home):
    said = interrupt("mbc_engine.bank", "exchange", "merge", "bank", "merge", small_bank, "--bank", "all.mbc")
    assert said == "Interrupted. No bank was changed; run the same command to start over.\n"
    assert not list(home.glob("all.mbc*"))


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
