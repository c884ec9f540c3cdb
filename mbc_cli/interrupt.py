"""Ctrl-C in long work: the first asks it to finish its step and the second ends it, or the first ends it at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from mbc_engine.machine import is_launched

# The exit code that a shell gives to a program that SIGINT ended.
INTERRUPTED: Final = 130


@contextmanager
def ending_with(text: str) -> Iterator[None]:
    """Inside, SIGINT ends the command at once; `text` says what is left then, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(*error.args or (text,)) from error


@contextmanager
def stop_on_interrupt(on_stop: Callable[[], None]) -> Iterator[threading.Event]:
    """Inside, the first SIGINT sets the event that is given and calls `on_stop`; a second raises KeyboardInterrupt.

    `on_stop` runs in another thread: a signal handler must not print, as it may have interrupted a print.
    """
    stop, awake = threading.Event(), threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not stop.is_set():
            stop.set()
            awake.set()
        elif (
            not is_launched()
        ):  # a launcher passes on what the terminal has sent already, and kills what takes too long
            raise KeyboardInterrupt

    def watch() -> None:
        awake.wait()
        if stop.is_set():
            on_stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
        awake.set()
        watcher.join(timeout=1)
