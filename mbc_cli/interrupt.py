"""Ctrl-C in long work: asked to finish what it is at by the first and ended by the second, or ended at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from mbc_engine.training.launch import is_launched

# The exit code of what was ended, as a shell tells it of a program that SIGINT ended.
INTERRUPTED: Final = 130


@contextmanager
def ending_with(told: str) -> Iterator[None]:
    """Inside, SIGINT ends the command at once; `told` says what is left then, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(*error.args or (told,)) from error


@contextmanager
def stop_on_interrupt(tell: Callable[[], None]) -> Iterator[threading.Event]:
    """Inside, the first SIGINT sets the event that is given and calls `tell`; a second raises KeyboardInterrupt.

    Args:
        tell: says that the work is about to stop. It runs in another thread: a signal handler must not print, it may
            have interrupted a print.
    """
    stop, awake = threading.Event(), threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            if is_launched():
                return  # a launcher hands on what the terminal has sent already, and ends what takes too long
            raise KeyboardInterrupt
        stop.set()
        awake.set()

    def watch() -> None:
        awake.wait()
        if stop.is_set():
            tell()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
        awake.set()
        watcher.join(timeout=1)
