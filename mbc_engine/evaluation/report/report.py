"""A report: everything an experiment found out, gathered into records that each form of it is drawn from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mbc_engine.evaluation.report.known import PublishedStep, PublishedUsage
from mbc_engine.evaluation.report.paired import Paired
from mbc_engine.evaluation.results import CodeUsage, Online, Retention, Scaling

Outcome = Literal["worse", "no", "unchecked", "partly", "yes"]


@dataclass(frozen=True)
class Published:
    """The paper's figures of a method, in percent; `retention` is empty where it tells none."""

    exact_match: float
    f1: float
    retention: tuple[PublishedStep, ...] = ()


@dataclass(frozen=True)
class Missing:
    """Stages of a cell that have no result, separated by commas, and why."""

    cell: str
    stage: str
    reason: str


@dataclass(frozen=True)
class Origin:
    """Where the figures come from.

    Attributes:
        title: the experiment's.
        date: when it began, ISO 8601; "" if unknown.
        command: the command line that ran it; "" if unknown.
        environments: what ran it, in order, each versions, devices and the like by name; more than one where it was
            continued elsewhere.
        settings: the experiment's settings as they were asked for.
    """

    title: str
    date: str = ""
    command: str = ""
    seed: int = 0
    environments: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A method's line of a cell.

    Attributes:
        is_control: whether its bank is a spoilt one, there to be beaten.
        is_bound: whether it is told which document a question is about, so that nothing competes with it.
        published: the paper's figures of it in this cell.
    """

    method: str
    title: str
    is_control: bool
    is_bound: bool
    online: Online | None
    retention: Retention | None
    scaling: Scaling | None
    rate: float | None
    published: Published | None

    @property
    def names_sources(self) -> bool:
        """Whether the method tells which documents an answer is from."""
        return self.online is not None and self.online.scores.first_source is not None

    def published_after(self, documents: int) -> PublishedStep | None:
        """The paper's retention after so many documents, where as many first ones as ours are asked about."""
        theirs = self.published.retention if self.published is not None else ()
        if self.retention is None or not theirs or self.retention.steps[0].documents != theirs[0].documents:
            return None
        return next((step for step in theirs if step.documents == documents), None)


@dataclass(frozen=True)
class Cell:
    """A base LM on a dataset.

    Attributes:
        leader: the method with the best EM, spoilt banks and the oracle aside; None where nothing was asked.
        against_leader: every other method, tested against the leader on the questions both were asked.
        against_controls: each method that has controls, tested against each of them.
        published_usage: the paper's code usage in this cell.
    """

    name: str
    base: str
    dataset: str
    rows: tuple[Row, ...]
    leader: str | None
    against_leader: tuple[Paired, ...]
    against_controls: tuple[Paired, ...]
    code_usage: CodeUsage | None
    published_usage: PublishedUsage | None = None

    @property
    def title(self) -> str:
        """The cell as a heading."""
        return f"{self.base} on {self.dataset}"

    def row(self, method: str) -> Row | None:
        """The line of a method."""
        return next((row for row in self.rows if row.method == method), None)


@dataclass(frozen=True)
class Verdict:
    """Whether methods of a cell beat controls, in plain words: one and several of its own, or several and one.

    `outcome` is `partly` where they do in F1 and not in EM, `unchecked` where there are no answers of both.
    """

    cell: str
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    outcome: Outcome
    claim: str
    figures: str

    @property
    def sentence(self) -> str:
        """The claim and, where there are any, its figures."""
        return f"{self.claim}: {self.figures}." if self.figures else f"{self.claim}."


@dataclass(frozen=True)
class Report:
    """An experiment's report. What a reader must not overlook comes first: the verdicts, then the cautions."""

    verdicts: tuple[Verdict, ...]
    cautions: tuple[str, ...]
    origin: Origin
    cells: tuple[Cell, ...]
    missing: tuple[Missing, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return asdict(self)
