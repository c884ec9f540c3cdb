"""The dashboard's state. Polls and jobs update it only in the app's thread; views draw it."""

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank import BankHeader, BankSizes, BankTotals
from mbc_engine.bank.records import Counts
from mbc_engine.errors import MBCError
from mbc_engine.events import Validated
from mbc_engine.runs.event_log import LogUpdate
from mbc_engine.runs.ingests import IngestHistory, IngestState
from mbc_engine.runs.training_runs import FollowedRun, RunState

_MAX_TURNS, _MAX_CHANGES = 50, 1000


@dataclass(frozen=True)
class DashboardOptions:
    """What a dashboard was opened with: a bank, which need not exist, the other options, and a run to start with."""

    bank: Path
    model: str
    runs: Path
    run: Path | None = None
    device: str | None = None
    llm: str | None = None

    def arguments(self, *names: str) -> list[str]:
        """These options as `mbc` takes them, or all; as --name=value, since a value may begin with a dash."""
        return [f"--{name}={value}" for name in names or vars(self) if (value := getattr(self, name)) is not None]


@dataclass(frozen=True)
class BankSnapshot:
    """A bank at one moment.

    `counts` is how often each code occurs, [levels, codebooks, codes]; `read_bytes` a document's mean source size, if
    known.
    """

    header: BankHeader
    totals: BankTotals
    sizes: BankSizes
    counts: Counts
    read_bytes: float | None


@dataclass(frozen=True)
class RunSummary:
    """A run in the list; `best` is the validation of the saved model."""

    folder: Path
    state: RunState
    step: int
    best: Validated | None


@dataclass
class DashboardState:
    """Everything the views draw.

    `ingest` has all of its log once `is_ingest_read`. `runs` are all runs, the most recently changed first; `run` is the
    current one and `other` the one it is compared with. `codes_read` is the share of each code in the last answer,
    [levels, codebooks, codes]; `growth` has (time, chunks) for each change seen in the bank. `transcript` has the last
    questions with their answers.
    """

    bank: BankSnapshot | None = None
    bank_error: MBCError | None = None
    ingest: IngestHistory = field(default_factory=IngestHistory)
    is_ingesting: bool = False
    is_ingest_read: bool = False
    runs: tuple[RunSummary, ...] = ()
    run: FollowedRun | None = None
    other: FollowedRun | None = None
    codes_read: NDArray[np.float32] | None = None
    growth: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_MAX_CHANGES))
    transcript: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=_MAX_TURNS))

    @property
    def run_folder(self) -> Path | None:
        return None if self.run is None else self.run.folder

    @property
    def ingest_state(self) -> IngestState | None:
        """The state of the last ingest; None before the first."""
        if self.ingest.state == "running" and not self.is_ingesting:
            return "interrupted"
        return self.ingest.state

    def update_bank(self, bank: BankSnapshot | None, error: MBCError | None) -> None:
        self.bank, self.bank_error = bank, error
        if bank is not None and (not self.growth or self.growth[-1][1] != bank.totals.chunks):
            self.growth.append((time.time(), bank.totals.chunks))

    def update_ingest(self, log_update: LogUpdate, at_work: bool) -> None:
        if log_update.is_restarted:
            self.ingest = IngestHistory()
        self.ingest.add(log_update.events)
        self.is_ingesting, self.is_ingest_read = at_work, not log_update.has_more
