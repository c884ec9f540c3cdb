"""A report: an experiment's results, with significance tests and verdicts.

What readers must not overlook comes first: whether each method beats its controls, and what its scores do not show.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from mbc_engine.evaluation import methods
from mbc_engine.evaluation.cells import cells
from mbc_engine.evaluation.methods import METHODS, controls_of, method_kind
from mbc_engine.evaluation.results import (
    CodeUsage,
    Cost,
    ExperimentFolder,
    MethodResults,
    PairedTest,
    Prediction,
    pair_all,
)
from mbc_engine.evaluation.statistics import Interval, interval
from mbc_engine.evaluation.suite import Base, Dataset, suite_in
from mbc_engine.events import StageFinished, StageSkipped
from mbc_engine.names import READ_MODES
from mbc_engine.runs.event_log import read_events

NOTHING: Final = "\N{EN DASH}"
_SIGNIFICANT: Final = 0.05
_FEW_QUESTIONS: Final = 100  # fewer, and one question is worth more than a percentage point
_FEW_CLUSTERS: Final = 20  # fewer, and what is true of them may not be true of others
_TO_DO: Final = "not done yet"
_MOST_STAGES: Final = 4  # named as not done yet: a grid that has just begun has hundreds
# Bad outcomes first; `unchecked` means that the control has no answers.
Judgement = Literal["worse", "no", "unchecked", "yes"]
_CLAIMS: Final[Mapping[Judgement, str]] = {
    "worse": "{} is worse than {}",
    "no": "{} does not beat {}",
    "unchecked": "{} was not checked against {}",
    "yes": "{} beats {}",
}


@dataclass(frozen=True)
class CellReport:
    """A base LM on a dataset, with its paired tests of methods against their controls and relatives: with all documents
    in one memory, and with so many in each; `asked` are the methods the suite runs here, `rates` the learning rates
    that it tries."""

    name: str
    base: str
    dataset: str
    rows: tuple[MethodResults, ...]
    asked: tuple[str, ...]
    rates: tuple[float, ...]
    tests: tuple[PairedTest, ...]
    tests_by_size: tuple[tuple[int, PairedTest], ...]
    clusters: int
    code_usage: CodeUsage | None

    @property
    def title(self) -> str:
        return f"{self.base} on {self.dataset}"

    def row(self, method: str | None) -> MethodResults | None:
        return next((row for row in self.rows if row.method == method), None)


@dataclass(frozen=True)
class Verdict:
    """Whether a method's F1 is above a control's."""

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
        if folder.results_folder.is_dir():
            results = {method: folder.results(method) for method in folder.methods()}
            asked, usage = suite.methods_of(cell.base), folder.read("", "code-usage")
            reports.append(cell_report(cell.base, cell.dataset, results, asked, suite.rates, usage))
    first = environments[0] if environments else {}
    origin = {
        "title": suite.title,
        "date": first.get("date", ""),
        "command": first.get("command", ""),
        "seed": suite.seed,
        "environments": tuple(environments),
        "settings": experiment.settings(),
    }
    return build_report(origin, reports, missing=_missing(experiment))


def cell_report(
    base: Base,
    dataset: Dataset,
    results: Mapping[str, MethodResults],
    asked: Sequence[str],
    rates: Sequence[float] = (),
    code_usage: CodeUsage | None = None,
) -> CellReport:
    """Order and test the results of a cell's methods; those `asked` for are tested against their controls."""
    answered = {name: done.online.predictions for name, done in results.items() if done.online}
    answered_by_size = defaultdict[int, dict[str, Sequence[Prediction]]](dict)
    for name, done in results.items():
        for one in done.scaling:
            if one is not done.online:  # whose tests come first
                answered_by_size[one.cost.documents][name] = one.predictions
    rows = []
    for name in (*METHODS, *sorted(results.keys() - METHODS)):
        published = methods.published_scores(base.name, dataset.name, name)
        if name in results or published:
            rows.append(_row(name, replace(results.get(name) or MethodResults(), published=published), answered))
    # The paper's comparison and what codes cost.
    relatives = [("mbc", "mac"), *((f"mbc-{read}", f"mac-{read}") for read in READ_MODES), ("mbc", "mbc-unquantised")]
    pairs = [*relatives, *_with_controls(asked)]
    sizes = sorted(answered_by_size.items())
    return CellReport(
        f"{base.name}-{dataset.name}",
        base.title,
        dataset.title,
        tuple(rows),
        tuple(asked),
        tuple(rates),
        tests=pair_all(answered, pairs),
        tests_by_size=tuple((size, test) for size, predictions in sizes for test in pair_all(predictions, pairs)),
        clusters=max((len({one.cluster for one in predictions}) for predictions in answered.values()), default=0),
        code_usage=code_usage,
    )


def _row(name: str, done: MethodResults, answered: Mapping[str, Sequence[Prediction]]) -> MethodResults:
    """The results beside those of the closed book and the wrong bank on the questions of retention."""
    first = done.retention[0].cost.documents if done.retention else 0

    def f1_of_first(control: str) -> Interval | None:
        asked = [one for one in answered.get(control, ()) if one.document < first]
        return interval([100 * one.f1 for one in asked], [one.cluster for one in asked]) if asked else None

    kind, wrong = method_kind(name), next((other for other in controls_of(name) if "-wrong" in other), "")
    done = replace(done, method=name, title=kind.title, is_control=kind.control_of is not None)
    return replace(done, alone=f1_of_first("closed-book"), wrong=f1_of_first(wrong))


def _with_controls(asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each method with those of its controls that were asked, or with all if none was, so that the report says so.

    A memory should also beat having none, the closed book.
    """
    for name in METHODS:
        if name in asked and (controls := controls_of(name)):
            yield from ((name, control) for control in [one for one in controls if one in asked] or controls)
            if "closed-book" in asked and "closed-book" not in controls:
                yield name, "closed-book"


def build_report(origin: dict[str, Any], cells: Sequence[CellReport], missing: Iterable[dict[str, str]] = ()) -> Report:
    """Derive the verdicts and cautions from an experiment's cells."""
    # Name only what differs between cells.
    has_datasets, has_bases = (len({getattr(cell, name) for cell in cells}) > 1 for name in ("dataset", "base"))
    verdicts, cautions = list[Verdict](), list[str]()
    for cell in cells:
        names = ", ".join([cell.base] * has_bases + [cell.dataset] * has_datasets)
        verdicts += _verdicts(cell, f" ({names})" if names else "")
        cautions += [f"{names}: {caution}" if names else caution for caution in _cautions(cell)]
    # Comparisons with corrupted banks come first, and bad outcomes before good ones.
    order = [*_CLAIMS]
    verdicts.sort(key=lambda one: (not method_kind(one.controls[0]).control_of, order.index(one.outcome)))
    return Report(tuple(verdicts), tuple(cautions), origin, tuple(cells), tuple(missing))


def _verdicts(cell: CellReport, place: str) -> Iterator[Verdict]:
    tests = {(test.first, test.second): test.f1 for test in cell.tests}
    for method, control in _with_controls(cell.asked):
        row, kind, found = cell.row(method), method_kind(control), tests.get((method, control))
        if row is None or row.online is None:
            continue
        outcome: Judgement = "unchecked"
        figures = ""
        if found is not None:
            gap, is_significant = found.difference, found.adjusted < _SIGNIFICANT
            outcome = "yes" if is_significant and gap.low > 0 else "worse" if is_significant and gap.high < 0 else "no"
            figures = (
                f"F1 {percent(found.first)} against {percent(found.second)} "
                f"(difference {difference(gap.value)}, 95% {between(gap)}, p = {p_value(found.adjusted)})"
            )
        pair = (f"The bank of {row.title}", kind.corrupted_bank) if kind.corrupted_bank else (row.title, kind.title)
        yield Verdict(cell.name, (method,), (control,), outcome, _CLAIMS[outcome].format(*pair) + place, figures)


def _cautions(cell: CellReport) -> Iterator[str]:
    measured = [(row, row.online) for row in cell.rows if row.online is not None]
    asked = {online.scores.questions for _, online in measured}
    if asked and min(asked) < _FEW_QUESTIONS:
        yield f"Figures from {min(asked)} question{'s' * (min(asked) > 1)}. Go by the intervals, not the digits."
    if 1 < cell.clusters < _FEW_CLUSTERS:
        least = max(2 / 2**cell.clusters, 1e-4)  # of all sign flips, or of 10,000
        yield f"The documents come from {cell.clusters} articles: no test can give a p below {least:.2g}."
    if len(asked) > 1:
        yield f"The methods were not all asked the same number of questions ({min(asked)} to {max(asked)})."
    paper = methods.ADAPTED_DOCUMENTS
    if sizes := {online.cost.documents for row, online in measured if row.published is not None} - {paper}:
        counts = ", ".join(f"{count:,}" for count in sorted(sizes))
        yield (
            f"The paper's figures are for {paper:,} documents in one memory, these for {counts}. "
            "More documents are harder to tell apart."
        )
    for row in cell.rows:
        if len(cell.rates) > 1 and row.rate in (min(cell.rates), max(cell.rates)):
            yield f"{row.title}: the best learning rate, {row.rate:g}, is at the edge of those tried."


def _missing(experiment: ExperimentFolder) -> Iterator[dict[str, str]]:
    skipped: dict[tuple[str, str | None], str] = {}
    for event in read_events(experiment.events):
        if isinstance(event, StageSkipped):  # for the reason of the stage that it follows
            skipped[event.cell, event.stage] = skipped.get((event.cell, event.follows), event.reason)
        elif isinstance(event, StageFinished):
            skipped.pop((event.cell, event.stage), None)
    for cell in cells(suite_in(experiment.path), experiment):
        reasons = defaultdict[str, list[str]](list)
        for stage in cell.stages():
            reason = skipped.get((cell.name, stage.name))
            if reason or (stage.kind != "prepare" and not stage.is_done):
                reasons[reason or _TO_DO].append(stage.name)
        for reason, names in reasons.items():
            is_long = reason == _TO_DO and len(names) > _MOST_STAGES
            named = f"{len(names)} stages" if is_long else ", ".join(names)
            yield {"cell": cell.name, "stage": named, "reason": reason}


def pays_from(cost: Cost, other: float) -> int | None:
    """From how many documents on codes and codebook are fewer bytes than `other` bytes a document; None if never."""
    saved = other - cost.on_disk / cost.documents
    return -int(-cost.shared // saved) if saved > 0 else None


def percent(value: float | None) -> str:
    """`12.3`, or a dash for None."""
    return NOTHING if value is None else f"{value:z.1f}"


def between(found: Interval) -> str:
    """`10.1 to 14.5`."""
    return f"{percent(found.low)} to {percent(found.high)}".replace("-", "\N{MINUS SIGN}")


def difference(value: float) -> str:
    """`+1.2`, `−0.4`, `0.0`."""
    return f"{value:+z.1f}".replace("+0.0", "0.0").replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
