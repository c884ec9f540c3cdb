"""A report: an experiment's results, with significance tests and verdicts.

What readers must not overlook comes first: whether each method beats its controls, and what its scores do not show.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from mbc_engine.evaluation import methods
from mbc_engine.evaluation.cells import cells
from mbc_engine.evaluation.methods import METHODS, controls_of, method_kind
from mbc_engine.evaluation.results import CodeUsage, ExperimentFolder, Measurement, MethodResults, PairedTest, pair_all
from mbc_engine.evaluation.statistics import SIGNIFICANT, Difference, Interval
from mbc_engine.evaluation.suite import Base, Dataset, suite_in
from mbc_engine.events import StageFinished, StageSkipped, Validated
from mbc_engine.names import READ_MODES
from mbc_engine.runs.event_log import EventFollower, read_events
from mbc_engine.runs.training_runs import EVENTS

Judgement = Literal["worse", "no", "unchecked", "partly", "yes"]
NOTHING: Final = "\N{EN DASH}"
_FEW_QUESTIONS: Final = 100  # fewer, and one question is worth more than a percentage point
_TO_DO: Final = "not done yet"
_MOST_STAGES: Final = 4  # named as not done yet: a grid that has just begun has hundreds

# By training name: step, then F1 in percent, loss and loss with a wrong bank on the validation questions.
Validations = Mapping[str, Sequence[tuple[int, float, float | None, float | None]]]
Results = Mapping[str, MethodResults]


@dataclass(frozen=True)
class MethodReport:
    """A method's row in a cell: its results, and the paper's (see `published_scores`)."""

    method: str
    title: str
    is_control: bool
    online: Measurement | None
    retention: tuple[Measurement, ...]
    scaling: tuple[Measurement, ...]
    rate: float | None
    published: dict[str, Any] | None

    @property
    def is_ranked(self) -> bool:
        return self.online is not None and not self.is_control and method_kind(self.method).is_ranked

    def published_after(self, documents: int) -> dict[str, Any] | None:
        """The paper's retention after so many documents; None unless it asks about as many first documents as ours."""
        steps = self.published["retention"] if self.published else []
        if not self.retention or not steps or self.retention[0].cost.documents != steps[0]["documents"]:
            return None
        return next((step for step in steps if step["documents"] == documents), None)


@dataclass(frozen=True)
class CellReport:
    """A base LM on a dataset, with its tests; `leader` has the best EM, controls and the oracle aside; `asked` are the
    methods the suite runs here. `against_leader` includes MBC against MAC and without codes."""

    name: str
    base: str
    dataset: str
    rows: tuple[MethodReport, ...]
    asked: tuple[str, ...]
    leader: str | None
    against_leader: tuple[PairedTest, ...]
    against_controls: tuple[PairedTest, ...]
    code_usage: CodeUsage | None
    published_usage: dict[str, Any] | None
    validations: Validations

    @property
    def title(self) -> str:
        return f"{self.base} on {self.dataset}"

    def row(self, method: str | None) -> MethodReport | None:
        return next((row for row in self.rows if row.method == method), None)


@dataclass(frozen=True)
class Verdict:
    """Whether a method beats a control: `partly` means in F1 but not in EM, `unchecked` that one has no answers."""

    cell: str
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    outcome: Judgement
    claim: str
    figures: str


@dataclass(frozen=True)
class Report:
    """An experiment's report; `missing` lists stages without a result, by cell, and the reason."""

    verdicts: tuple[Verdict, ...]
    cautions: tuple[str, ...]
    origin: dict[str, Any]
    cells: tuple[CellReport, ...]
    missing: tuple[dict[str, str], ...]


def read_report(experiment: ExperimentFolder) -> Report:
    """The report on an experiment's results so far."""
    suite, environments, reports = suite_in(experiment.path), experiment.environments(), []
    for cell in cells(suite, experiment):
        folder = cell.folder
        if folder.is_begun():
            results = {method: folder.results(method) for method in folder.methods()}
            usage, curves = folder.read("", "code-usage"), _validations(folder.prepared_folder)
            reports.append(cell_report(cell.base, cell.dataset, results, suite.methods_of(cell.base), usage, curves))
    settings, first = experiment.settings(), environments[0] if environments else {}
    origin = {
        "title": suite.title,
        "date": first.get("date", ""),
        "command": first.get("command", ""),
        "seed": suite.seed,
        "environments": tuple(environments),
        "settings": settings,
    }
    return build_report(origin, reports, missing=_missing(experiment))


def _validations(prepared: Path) -> Validations:
    return {
        log.parent.name: tuple(
            (event.step, event.f1, event.loss, event.wrong_loss)
            for event in read_events(log)
            if isinstance(event, Validated)
        )
        for log in sorted(prepared.glob(f"*/{EVENTS}"))
    }


def cell_report(
    base: Base,
    dataset: Dataset,
    results: Results,
    asked: Sequence[str],
    code_usage: CodeUsage | None = None,
    validations: Validations | None = None,
) -> CellReport:
    """Order and test the results of a cell's methods; those `asked` for are tested against their controls."""
    rows = []
    for name in (*METHODS, *sorted(results.keys() - METHODS)):
        published = methods.published_scores(base.name, dataset.name, name)
        if name in results or published:
            kind, done = method_kind(name), results.get(name, MethodResults())
            measured = done.online, done.retention, done.scaling, done.rate
            rows.append(MethodReport(name, kind.title, kind.control_of is not None, *measured, published=published))
    ranked = {row.method: row.online.scores for row in rows if row.online and row.is_ranked}
    leader = max(ranked, key=lambda name: (ranked[name].exact_match.value, ranked[name].f1.value), default=None)
    pairs = [(row.method, leader) for row in rows if leader and row.method != leader and not row.is_control]
    # The paper's comparison and what codes cost, regardless of the leader.
    constant = [("mbc", "mac"), *((f"mbc-{read}", f"mac-{read}") for read in READ_MODES), ("mbc", "mbc-unquantised")]
    answered = {name: done.predictions for name, done in results.items()}
    return CellReport(
        f"{base.name}-{dataset.name}",
        base.title,
        dataset.title,
        tuple(rows),
        tuple(asked),
        leader,
        against_leader=pair_all(answered, [*pairs, *(pair for pair in constant if leader not in pair)]),
        against_controls=pair_all(answered, _with_controls(asked)),
        code_usage=code_usage,
        published_usage=methods.published_usage(base.name, dataset.name),
        validations=validations or {},
    )


def _with_controls(asked: Sequence[str]) -> list[tuple[str, str]]:
    """Each method with those of its controls that were asked, or with all if none was, so that the report says so.

    A memory should also beat having none, the closed book.
    """
    pairs = []
    for name in METHODS:
        if name in asked and (controls := controls_of(name)):
            pairs += [(name, control) for control in ([one for one in controls if one in asked] or controls)]
            if "closed-book" in asked and "closed-book" not in controls:
                pairs.append((name, "closed-book"))
    return pairs


def build_report(
    origin: dict[str, Any], cells: Sequence[CellReport], *, missing: Sequence[dict[str, str]] = ()
) -> Report:
    """Derive the verdicts and cautions from an experiment's cells."""
    # Name only what differs between cells.
    has_datasets, has_bases = (len({getattr(cell, name) for cell in cells}) > 1 for name in ("dataset", "base"))
    verdicts, cautions = list[Verdict](), list[str]()
    for cell in cells:
        names = ", ".join([cell.base] * has_bases + [cell.dataset] * has_datasets)
        verdicts += _verdicts(cell, f" ({names})" if names else "")
        cautions += [f"{names}: {caution}" if names else caution for caution in _cautions(cell)]
    # Comparisons with corrupted banks come first, and bad outcomes before good ones.
    order = get_args(Judgement)
    verdicts.sort(key=lambda one: (not method_kind(one.controls[0]).control_of, order.index(one.outcome)))
    return Report(tuple(verdicts), tuple(cautions), origin, tuple(cells), tuple(missing))


_CLAIMS: Final[Mapping[Judgement, str]] = {
    "worse": "{} is worse than {}",
    "no": "{} does not beat {}",
    "partly": "{} beats {} in F1 but not in EM",
    "yes": "{} beats {}",
    "unchecked": "{} was not checked against {}",
}


def _verdicts(cell: CellReport, place: str) -> Iterator[Verdict]:
    tests = {(test.first, test.second): test for test in cell.against_controls}
    for method, control in _with_controls(cell.asked):
        row, kind, test = cell.row(method), method_kind(control), tests.get((method, control))
        if row is not None and row.online is not None:
            outcome = _judgement(test)
            pair = (f"The bank of {row.title}", kind.corrupted_bank) if kind.corrupted_bank else (row.title, kind.title)
            figures = [] if test is None else [f"EM {_compared(test.exact_match)}"]
            figures += [f"F1 {_compared(test.f1)}"] if test and outcome == "partly" else []
            claim = _CLAIMS[outcome].format(*pair) + place
            yield Verdict(cell.name, (method,), (control,), outcome, claim, "; ".join(figures))


def _judgement(test: PairedTest | None) -> Judgement:
    if test is None:
        return "unchecked"
    if test.exact_match.is_gain:
        return "yes"
    if test.exact_match.is_loss:
        return "worse"
    return "partly" if test.f1.is_gain else "no"


def _compared(figure: Difference) -> str:
    gap = figure.difference
    text = f"{percent(figure.first)} against {percent(figure.second)} (difference {difference(gap.value)}, 95% {interval(gap)}"
    is_apart = figure.p >= SIGNIFICANT and (gap.low > 0 or gap.high < 0)
    return f"{text}, but p = {p_value(figure.p)})" if is_apart else f"{text})"


def _cautions(cell: CellReport) -> Iterator[str]:
    measured = [(row, row.online) for row in cell.rows if row.online is not None]
    asked = {online.scores.questions for _, online in measured}
    if asked and min(asked) < _FEW_QUESTIONS:
        yield f"Figures from {min(asked)} questions. Go by the intervals, not the digits."
    if len(asked) > 1:
        yield f"The methods were not all asked the same number of questions ({min(asked)} to {max(asked)})."
    paper = methods.ADAPTED_DOCUMENTS
    if sizes := {online.cost.documents for row, online in measured if row.published is not None} - {paper}:
        counts = ", ".join(f"{count:,}" for count in sorted(sizes))
        yield (
            f"The paper's figures are for {paper:,} documents in one memory, these for {counts}. "
            "More documents are harder to tell apart."
        )
    ranked = {row.method: (row.title, online.scores.exact_match) for row, online in measured if row.is_ranked}
    if cell.leader in ranked:
        title, best = ranked.pop(cell.leader)
        close = [name for name, own in ranked.values() if own.high >= best.low and own.low <= best.high]
        if close:
            yield (
                f"{title} leads with an EM of {percent(best.value)} ({interval(best)}), but its interval overlaps with "
                f"those of {', '.join(close)}; the paired tests show whether the lead is more than chance."
            )


def _missing(experiment: ExperimentFolder) -> list[dict[str, str]]:
    skipped: dict[tuple[str, str], StageSkipped] = {}
    for _, event in EventFollower(experiment.events).poll().events:
        if isinstance(event, StageSkipped):
            skipped[event.cell, event.stage] = event
        elif isinstance(event, StageFinished):
            skipped.pop((event.cell, event.stage), None)
    missing = []
    for cell in cells(suite_in(experiment.path), experiment):
        reasons = dict[str, list[str]]()
        for stage in cell.stages():
            cause = skipped.get((cell.name, stage.name))
            while cause is not None and cause.follows is not None and (cell.name, cause.follows) in skipped:
                cause = skipped[cell.name, cause.follows]
            if cause is not None or (stage.kind != "prepare" and not cell.is_done(stage)):
                reasons.setdefault(cause.reason if cause else _TO_DO, []).append(stage.name)
        for reason, names in reasons.items():
            is_long = reason == _TO_DO and len(names) > _MOST_STAGES
            named = f"{len(names)} stages" if is_long else ", ".join(names)
            missing.append({"cell": cell.name, "stage": named, "reason": reason})
    return missing


def percent(value: float | None) -> str:
    """`12.3`, or a dash for None."""
    return NOTHING if value is None else f"{value:z.1f}"


def interval(found: Interval) -> str:
    """`10.1 to 14.5`."""
    return f"{percent(found.low)} to {percent(found.high)}".replace("-", "\N{MINUS SIGN}")


def difference(value: float) -> str:
    """`+1.2`, `−0.4`, `0.0`."""
    text = f"{value:+z.1f}"
    return "0.0" if text == "+0.0" else text.replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
