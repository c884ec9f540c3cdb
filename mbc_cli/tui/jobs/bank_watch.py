"""A bank that other processes change, looked at as a whole whenever it did."""

import time
from collections.abc import Iterator
from pathlib import Path

from textual.message import Message

from mbc_cli.tui.jobs.lookout import Watch
from mbc_cli.tui.known import BankSeen
from mbc_cli.tui.messages import BankChanged, BankMissing
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import MBCError
from mbc_engine.slow_down import SlowDown


class BankWatch(Watch):
    """Watches the bank at a path, whether there is one or not.

    Args:
        path: the bank's file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bank: MemoryBank | None = None
        self._version: tuple[int, int] | None = None
        self._told: str | None = None
        self._rest = SlowDown(share=0.1, least=0.25)

    def look(self) -> Iterator[Message]:
        """The bank if it has changed, or why it cannot be seen."""
        began = time.monotonic()
        if not self._rest.is_due(began):
            return
        try:
            if self._bank is not None and self._bank.is_replaced():
                self.close()
            if self._bank is None:
                self._bank = MemoryBank.open(self._path, read_only=True)
            version = self._bank.version()
            if version == self._version:
                return
            seen = _seen(self._bank, self._path)
            self._version = version
        except MBCError as error:
            was_new = self._version is None
            self.close()
            # One that was read before has perhaps been encoded anew; the next look opens what is there now.
            if was_new and self._told != error.message:
                self._told = error.message
                yield BankMissing(error)
            return
        self._told = None
        self._rest.took(began, time.monotonic())
        yield BankChanged(seen)

    def close(self) -> None:
        """Close the bank."""
        if self._bank is not None:
            self._bank.close()
        self._bank = self._version = None


def _seen(bank: MemoryBank, path: Path) -> BankSeen:
    with bank.snapshot():
        return BankSeen(bank.name, path, bank.header, bank.totals(), bank.sizes(), bank.counts())
