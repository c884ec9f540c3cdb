"""Ctrl-C in long work: the first asks it to finish what it is at, the second ends it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(tell: Callable[[], None]) -> Iterator[threading.Event]:
    """Inside, the first SIGINT sets the event that is given and calls `tell`; a second raises KeyboardInterrupt.

    Args:
        tell: says that the work is about to stop. It runs in another thread: a signal handler must not print, it may
            have interrupted a print.
    """
    stop, awake = threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
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
