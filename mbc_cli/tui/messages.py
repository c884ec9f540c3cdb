"""What jobs tell the dashboard about everything it watches. A view's own jobs have messages of their own beside it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from textual.message import Message

from mbc_cli.tui.known import Attached, BankSeen, RunSeen
from mbc_engine.errors import MBCError
from mbc_engine.work.event_log import Followed


@dataclass
class BankChanged(Message):
    """The bank is seen for the first time, or is no longer what it was."""

    bank: BankSeen


@dataclass
class BankMissing(Message):
    """There is no bank that can be read."""

    trouble: MBCError


@dataclass
class IngestLogged(Message):
    """The log of the bank's ingests has grown, or an ingest has begun or ended."""

    followed: Followed
    at_work: bool


@dataclass
class RunLogged(Message):
    """The log of a run that is followed has grown, or a training has begun or ended there."""

    attached: Attached
    followed: Followed
    at_work: bool


@dataclass
class UsageSeen(Message):
    """How often a training run uses its codes now, [levels, books, codes]."""

    attached: Attached
    usage: NDArray[np.float32]


@dataclass
class RunsChanged(Message):
    """There is another run, or one has come to another state; the one changed last comes first."""

    runs: tuple[RunSeen, ...]
