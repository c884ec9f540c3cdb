"""What the dashboard knows. Messages change it, in the app's own thread alone; views draw it.

Where a dashboard looks.

What jobs tell the dashboard about everything it watches. A view's own jobs have messages of their own beside it.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from textual.message import Message

from mbc_engine.bank import BankHeader, BankSizes, BankTotals
from mbc_engine.bank.block import Counts
from mbc_engine.errors import MBCError
from mbc_engine.events import Validated
from mbc_engine.runs.event_log import Followed
from mbc_engine.runs.ingests import IngestHistory, IngestState
from mbc_engine.runs.training_runs import RunHistory, RunState


@dataclass(frozen=True)
class BankSeen:
    """A bank as it was at one moment.

    Attributes:
        counts: how often each code occurs, [levels, books, codes].
    """

    name: str
    path: Path
    header: BankHeader
    totals: BankTotals
    sizes: BankSizes
    counts: Counts


@dataclass(frozen=True)
class RunSeen:
    """A run in the list of all.

    Attributes:
        folder: where it lies.
        best: the validation of the model that is kept, if there was one.
    """

    folder: Path
    state: RunState
    step: int
    best: Validated | None


@dataclass(eq=False)
class Attached:
    """A run that is followed; attached again, it is another one that begins with nothing.

    Attributes:
        folder: where it lies.
        history: its events so far.
        at_work: whether a training is at work there.
        is_behind: whether there is more in its log than was read so far.
        usage: the EMA of its codes' usage, [levels, books, codes]; None before there are codes.
    """

    folder: Path
    history: RunHistory = field(default_factory=RunHistory)
    at_work: bool = False
    is_behind: bool = False
    usage: NDArray[np.float32] | None = None

    @property
    def state(self) -> RunState:
        """What the training is at."""
        return self.history.state_beside(self.at_work)


@dataclass
class Known:
    """Everything at once.

    Attributes:
        bank: as it was seen last; None where there is none to see.
        trouble: why there is none.
        ingest: the bank's ingests, by their log.
        is_ingesting: whether one is at work.
        runs: the runs there are, the one changed last first.
        run: the one looked at, if any.
        other: one to compare it with, if any.
        codes_read: the share of each code in the last answer, [levels, books, codes]; None before a question.
    """

    bank: BankSeen | None = None
    trouble: MBCError | None = None
    ingest: IngestHistory = field(default_factory=IngestHistory)
    is_ingesting: bool = False
    runs: tuple[RunSeen, ...] = ()
    run: Attached | None = None
    other: Attached | None = None
    codes_read: NDArray[np.float32] | None = None

    @property
    def ingest_state(self) -> IngestState | None:
        """What the last ingest is at; None before the first."""
        if self.ingest.state is IngestState.RUNNING and not self.is_ingesting:
            return IngestState.INTERRUPTED
        return self.ingest.state


@dataclass(frozen=True)
class Places:
    """The files, folders and names a dashboard was opened with.

    Attributes:
        bank: a bank's file, there or not.
        model: the model's name, as --model takes it.
        runs: the folder of training runs.
        run: the run to begin with, or None for the one changed last.
        device: where the model runs, as --device takes it; None for the default.
    """

    bank: Path
    model: str
    runs: Path
    run: Path | None = None
    device: str | None = None

    def options(self) -> list[str]:
        """What opens a dashboard with the same."""
        run = [] if self.run is None else ["--run", str(self.run)]
        device = [] if self.device is None else ["--device", self.device]
        return ["--bank", str(self.bank), "--model", self.model, "--runs", str(self.runs), *run, *device]


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
