"""What the dashboard knows. Messages change it, in the app's own thread alone; views draw it."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import BankHeader, BankSizes, BankTotals
from mbc_engine.bank.counts import Counts
from mbc_engine.errors import MBCError
from mbc_engine.events import Validated
from mbc_engine.work.ingest_history import IngestHistory, IngestState
from mbc_engine.work.run_history import RunHistory, RunState, StepProgress


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
    progress: StepProgress
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
