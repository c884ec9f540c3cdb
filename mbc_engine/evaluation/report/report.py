"""What a report takes as given: how methods are called and what they have to beat, and what the paper reports.

Two methods, or two experiments, on the questions that both were asked.

A report: everything an experiment found out, gathered into records that each form of it is drawn from.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, Literal

from mbc_engine.evaluation.results import CodeUsage, Figure, Online, Prediction, Retention, Scaling


@dataclass(frozen=True)
class KnownMethod:
    """A method by its title.

    Attributes:
        title: as tables call it.
        controls: the methods that it has to beat before its figures mean anything.
        spoilt_bank: of another method whose bank is taken away or spoilt, what that one is asked with, as it follows
            "with"; "" for methods of their own.
        is_told: whether it is told which document a question is about, so that nothing competes with it.
    """

    title: str
    controls: tuple[str, ...] = ()
    spoilt_bank: str = ""
    is_told: bool = False


@dataclass(frozen=True)
class PublishedScores:
    """The paper's figures of a method, in percent."""

    exact_match: float
    f1: float


@dataclass(frozen=True)
class PublishedStep:
    """The paper's bytes of a bank after `documents`, and F1 of the first ones in percent of what it was."""

    documents: int
    bank_bytes: int
    retention: float


@dataclass(frozen=True)
class PublishedUsage:
    """The paper's perplexity of code usage: a range, or from where on; and where it falls to without reset."""

    with_reset: tuple[float, ...]
    without_reset: float


@dataclass(frozen=True)
class Known:
    """What a report takes as given.

    Attributes:
        methods: by name, in the order of their lines.
        scores, retention: the paper's, by the names of base, dataset and method.
        code_usage: the paper's, by the names of base and dataset.
        documents: how many the paper's methods were asked about; 0 if unknown.
    """

    methods: Mapping[str, KnownMethod]
    scores: Mapping[tuple[str, str, str], PublishedScores] = field(default_factory=dict)
    retention: Mapping[tuple[str, str, str], tuple[PublishedStep, ...]] = field(default_factory=dict)
    code_usage: Mapping[tuple[str, str], PublishedUsage] = field(default_factory=dict)
    documents: int = 0

    def title(self, method: str) -> str:
        """What tables call a method."""
        return self.methods[method].title if method in self.methods else method

    def spoilt_bank(self, method: str) -> str:
        """What a method's bank is spoilt with; "" if it is none that does so."""
        return self.methods[method].spoilt_bank if method in self.methods else ""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each method with each of its controls."""
        return [(name, control) for name, method in self.methods.items() for control in method.controls]


@dataclass(frozen=True)
class Difference:
    """A figure of the first and of the second in percent, the first less the second with its 95% interval, and the
    paired test's p-value."""

    first: float
    second: float
    difference: Figure
    p: float

    @property
    def is_gain(self) -> bool:
        """Whether the first is better beyond chance: p < 0.05, and the whole interval above 0."""
        return self.p < 0.05 and self.difference.low > 0

    @property
    def is_loss(self) -> bool:
        """Whether the first is worse beyond chance."""
        return self.p < 0.05 and self.difference.high < 0


@dataclass(frozen=True)
class Paired:
    """The first against the second, by their names, on `questions` questions."""

    first: str
    second: str
    questions: int
    exact_match: Difference
    f1: Difference


Asked = tuple[str, Sequence[Prediction]]
_Answers = tuple[Prediction, Prediction]


def pair_all(tests: Sequence[tuple[Asked, Asked]]) -> list[Paired | None]:
    """Several tests, each of a first and a second by name; those on the same questions share what is drawn."""
    paired: list[Paired | None] = [None] * len(tests)
    groups: dict[tuple[int, ...], list[tuple[int, list[_Answers]]]] = {}
    known = {
        id(asked): by_question(asked) for asked in {id(asked): asked for test in tests for _, asked in test}.values()
    }
    for number, ((_, first), (_, second)) in enumerate(tests):
        others = known[id(second)]
        shared = [(one, others[key]) for key, one in known[id(first)].items() if key in others]
        if shared:
            groups.setdefault(tuple(one.document for one, _ in shared), []).append((number, shared))
    for documents, members in groups.items():
        exact_matches = _differences([shared for _, shared in members], documents, lambda one: one.exact_match)
        f1s = _differences([shared for _, shared in members], documents, lambda one: one.f1)
        for (number, _), exact_match, f1 in zip(members, exact_matches, f1s, strict=True):
            (first_name, _), (second_name, _) = tests[number]
            paired[number] = Paired(first_name, second_name, len(documents), exact_match, f1)
    return paired


def by_question(predictions: Sequence[Prediction]) -> dict[tuple[str, str, int], Prediction]:
    """Predictions by what a question is known by: its id, its words, and how often both were there before."""
    before: Counter[tuple[str, str]] = Counter()
    known = {}
    for prediction in predictions:
        name = prediction.id, prediction.question
        known[*name, before[name]] = prediction
        before[name] += 1
    return known


def _differences(
    each: Sequence[Sequence[_Answers]], documents: Sequence[int], value: Callable[[Prediction], float]
) -> list[Difference]:
    from mbc_engine.evaluation.statistics import compare_pairs

    values = [
        ([100.0 * value(one) for one, _ in shared], [100.0 * value(other) for _, other in shared]) for shared in each
    ]
    return [
        Difference(fmean(ones), fmean(others), Figure(gap.mean, gap.low, gap.high), compared.p_value)
        for (ones, others), compared in zip(values, compare_pairs(values, documents), strict=True)
        for gap in (compared.difference,)
    ]


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
