"""Threads that do not keep the program from ending, and whose errors are the app's."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message


@dataclass
class Crashed(Message):
    """A job came upon an error that nobody expected."""

    error: BaseException


def start_thread(name: str, work: Callable[[], object], post: Callable[[Message], object]) -> threading.Thread:
    """Do something beside the dashboard. The dashboard's end does not wait for it: a model that is being loaded cannot
    be stopped.

    Args:
        name: what it is.
        work: what to do.
        post: takes a message if that raises anything.
    """

    def run() -> None:
        try:
            work()
        # It would end just this thread, and leave the dashboard waiting.
        except BaseException as error:  # noqa: BLE001
            post(Crashed(error))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
