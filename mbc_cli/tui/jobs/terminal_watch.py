"""The terminal itself, which may go without a word: where no signal tells of that, reading from it never ends."""

import os
import select
import signal
from collections.abc import Iterator
from typing import Final

from textual.message import Message

from mbc_cli.tui.jobs.lookout import Watch

_HUNG_UP: Final = 128 + signal.SIGHUP


class TerminalWatch(Watch):
    """Ends the process when its terminal is gone. There is nothing to restore, and nobody to tell.

    Args:
        descriptor: what is read from the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._poll = select.poll()
        self._poll.register(descriptor, 0)  # hanging up is told without being asked for

    def look(self) -> Iterator[Message]:
        """Nothing, as long as the terminal is there."""
        if any(mask & select.POLLHUP for _, mask in self._poll.poll(0)):
            os._exit(_HUNG_UP)
        yield from ()
