"""The first lines of a report: whether each method beats its controls, and what its figures do not show.

What makes a report of an experiment's results: it tests, judges and orders them.

What an experiment's folder holds, read for its report.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from mbc_engine.errors import DataError
from mbc_engine.evaluation.folder import CellFolder, ExperimentFolder
from mbc_engine.evaluation.report.report import (
    Cell,
    Difference,
    Known,
    KnownMethod,
    Missing,
    Origin,
    Outcome,
    Paired,
    Published,
    Report,
    Row,
    Verdict,
    pair_all,
)
from mbc_engine.evaluation.report.tables import difference, interval, p_value, percent
from mbc_engine.evaluation.results import CodeUsage, Online, Prediction, Retention, Scaling
from mbc_engine.events import StageFinished, StageSkipped
from mbc_engine.runs.event_log import EventFollower

# Below this, one question is a percentage point or more.
_FEW_QUESTIONS: Final = 100


def verdicts_of(cell: Cell, known: Known) -> Iterator[Verdict]:
    """How the methods of the cell do against their controls; `most_telling_first` orders those of several cells."""
    tests = {(test.first, test.second): test for test in cell.against_controls}
    # A method's spoilt banks make a sentence, and so do the methods that are held against the same other method.
    groups: dict[tuple[str, Outcome], list[_Pair]] = {}
    for method, control in known.pairs:
        row = cell.row(method)
        if row is None or row.online is None:
            continue
        test, bank = tests.get((method, control)), known.spoilt_bank(control)
        groups.setdefault((method if bank else control, _outcome(test)), []).append(
            _Pair(method, control, known.title(method), bank or known.title(control), test)
        )
    where = f"{cell.dataset} ({cell.base})"
    for (_, outcome), group in groups.items():
        methods = tuple(dict.fromkeys(pair.method for pair in group))
        others = tuple(dict.fromkeys(pair.control for pair in group))
        is_of_banks = bool(known.spoilt_bank(others[0]))
        claim, figures = (_of_banks if is_of_banks else _of_methods)(group, outcome, where)
        yield Verdict(cell.name, methods, others, outcome, claim, figures)


def most_telling_first(verdicts: Iterable[Verdict], known: Known) -> tuple[Verdict, ...]:
    """What spoilt banks tell before the rest, and bad news before good."""
    order = get_args(Outcome)
    return tuple(
        sorted(
            verdicts,
            key=lambda verdict: (not known.spoilt_bank(verdict.controls[0]), order.index(verdict.outcome)),
        )
    )


@dataclass(frozen=True)
class _Pair:
    """A method and a control by names and titles, a spoilt bank by what it is; the test between them, if any."""

    method: str
    control: str
    title: str
    other: str
    test: Paired | None


def _outcome(test: Paired | None) -> Outcome:
    if test is None:
        return "unchecked"
    if test.exact_match.is_gain:
        return "yes"
    if test.exact_match.is_loss:
        return "worse"
    return "partly" if test.f1.is_gain else "no"


_OF_BANKS: Final[Mapping[Outcome, str]] = {
    "worse": "does harm",
    "no": "does not help",
    "partly": "helps in F1 and not in EM",
    "yes": "helps",
}
# Of one method, and of several.
_OF_METHODS: Final[Mapping[Outcome, tuple[str, str]]] = {
    "worse": ("is worse than", "are worse than"),
    "no": ("does not beat", "do not beat"),
    "partly": ("beats in F1, and not in EM,", "beat in F1, and not in EM,"),
    "yes": ("beats", "beat"),
}


def _of_banks(group: Sequence[_Pair], outcome: Outcome, where: str) -> tuple[str, str]:
    """Claim and figures about a method with its own bank and with spoilt ones."""
    title = group[0].title
    banks = [(pair.other, pair.test) for pair in group]
    told = [(bank, test) for bank, test in banks if test is not None]
    if not told:
        return f"{title}'s bank was not checked on {where} against {_listed([bank for bank, _ in banks])}", ""
    figures = "; ".join(
        f"{name} {percent(of(told[0][1]).first)} with it, "
        + ", ".join(f"{percent(of(test).second)} with {bank} ({_test(of(test))})" for bank, test in told)
        for name, of in _figures(outcome)
    )
    return f"{title}'s bank {_OF_BANKS[outcome]} on {where}", figures


def _of_methods(group: Sequence[_Pair], outcome: Outcome, where: str) -> tuple[str, str]:
    """Claim and figures about methods that are held against the same other method."""
    other, names = group[0].other, _listed([pair.title for pair in group])
    told = [(pair.title, pair.test) for pair in group if pair.test is not None]
    if not told:
        return f"{names} {'was' if len(group) == 1 else 'were'} not checked on {where} against {other}", ""
    figures = "; ".join(
        f"{name} {percent(of(told[0][1]).second)} for {other}, "
        + ", ".join(f"{percent(of(test).first)} for {title} ({_test(of(test))})" for title, test in told)
        for name, of in _figures(outcome)
    )
    return f"{names} {_OF_METHODS[outcome][len(told) > 1]} {other} on {where}", figures


def _figures(outcome: Outcome) -> list[tuple[str, Callable[[Paired], Difference]]]:
    """What a sentence tells: EM, by which methods are judged, and F1 where that says something else."""
    exact_match = ("EM", lambda test: test.exact_match)
    return [exact_match, ("F1", lambda test: test.f1)] if outcome == "partly" else [exact_match]


def _test(figures: Difference) -> str:
    """The difference and its interval; and the p-value where it alone keeps the difference from counting."""
    told = f"difference {difference(figures.difference.value)}, 95% {interval(figures.difference)}"
    is_apart = figures.difference.low > 0 or figures.difference.high < 0
    return told if figures.is_gain or figures.is_loss or not is_apart else f"{told}, but p = {p_value(figures.p)}"


def cautions_of(cell: Cell, documents_of_paper: int = 0) -> Iterator[str]:
    """What a reader of the cell's figures could take for more than it is; the paper's are of so many documents."""
    where = f"{cell.dataset} ({cell.base})"
    asked = {row.online.scores.questions for row in cell.rows if row.online is not None}
    if asked and min(asked) < _FEW_QUESTIONS:
        yield f"{where}: figures from {min(asked)} questions. Read the intervals, not the digits."
    if len(asked) > 1:
        yield f"{where}: the methods were not all asked the same number of questions ({min(asked)} to {max(asked)})."
    held = {row.online.cost.documents for row in cell.rows if row.online is not None and row.published is not None} - {
        documents_of_paper
    }
    if held and documents_of_paper:
        yield (
            f"{where}: the paper's figures are of {documents_of_paper:,} documents in a memory, these of "
            f"{_listed([f'{count:,}' for count in sorted(held)])}. More documents are harder to tell apart."
        )
    leader = cell.row(cell.leader) if cell.leader is not None else None
    if leader is None or leader.online is None:
        return
    best = leader.online.scores.exact_match
    close = [
        row.title
        for row in cell.rows
        if row.online is not None
        and row.method != leader.method
        and not (row.is_control or row.is_bound)
        and row.online.scores.exact_match.high >= best.low
        and row.online.scores.exact_match.low <= best.high
    ]
    if close:
        yield (
            f"{where}: {leader.title} leads with an EM of {percent(best.value)} ({interval(best)}), "
            f"but the intervals of {_listed(close)} overlap with it; the paired tests say whether the lead is chance."
        )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class MethodResults:
    """What the stages of a method in a cell left; None for those not done, or not yet.

    Attributes:
        rate: the learning rate that its sweep chose; None for methods without one.
    """

    online: Online | None = None
    predictions: Sequence[Prediction] = ()
    retention: Retention | None = None
    scaling: Scaling | None = None
    rate: float | None = None


@dataclass(frozen=True)
class CellResults:
    """A base LM on a dataset, by their names and titles, and what each method did there, by its name."""

    name: str
    base_name: str
    dataset_name: str
    base: str
    dataset: str
    methods: Mapping[str, MethodResults]
    code_usage: CodeUsage | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The names of the base LM and of the dataset."""
        return self.base_name, self.dataset_name


def build_report(
    origin: Origin, cells: Sequence[CellResults], known: Known, *, missing: Sequence[Missing] = ()
) -> Report:
    """Test, judge and order what an experiment found out.

    Args:
        origin: where the figures come from.
        cells: the results.
        known: the methods, what they have to beat, and the paper's figures.
        missing: stages without a result.
    """
    built = tuple(_cell(cell, known) for cell in cells)
    return Report(
        verdicts=most_telling_first((verdict for cell in built for verdict in verdicts_of(cell, known)), known),
        cautions=tuple(caution for cell in built for caution in cautions_of(cell, known.documents)),
        origin=origin,
        cells=built,
        missing=tuple(missing),
    )


def _cell(cell: CellResults, known: Known) -> Cell:
    published = {method: told for method in known.methods if (told := _published(cell.place, method, known))}
    rows = tuple(
        _row(
            name,
            known.methods.get(name, KnownMethod(name)),
            cell.methods.get(name, MethodResults()),
            published.get(name),
        )
        for name in {**dict.fromkeys(known.methods), **dict.fromkeys(cell.methods)}
        if name in cell.methods or name in published
    )
    asked = {name: results.predictions for name, results in cell.methods.items() if results.predictions}
    leader = _leader(rows)
    to_lead = [(row.method, leader) for row in rows if leader and row.method != leader and not row.is_control]
    return Cell(
        cell.name,
        cell.base,
        cell.dataset,
        rows,
        leader,
        against_leader=_tests(asked, to_lead),
        against_controls=_tests(asked, known.pairs),
        code_usage=cell.code_usage,
        published_usage=known.code_usage.get(cell.place),
    )


def _published(place: tuple[str, str], method: str, known: Known) -> Published | None:
    scores = known.scores.get((*place, method))
    if scores is None:
        return None
    return Published(scores.exact_match, scores.f1, known.retention.get((*place, method), ()))


def _tests(asked: Mapping[str, Sequence[Prediction]], names: Sequence[tuple[str, str]]) -> tuple[Paired, ...]:
    both = [((one, asked[one]), (other, asked[other])) for one, other in names if one in asked and other in asked]
    return tuple(test for test in pair_all(both) if test is not None)


def _row(name: str, known: KnownMethod, results: MethodResults, published: Published | None) -> Row:
    return Row(
        name,
        known.title,
        bool(known.spoilt_bank),
        known.is_told,
        results.online,
        results.retention,
        results.scaling,
        results.rate,
        published,
    )


def _leader(rows: Sequence[Row]) -> str | None:
    scores = {
        row.method: (row.online.scores.exact_match.value, row.online.scores.f1.value)
        for row in rows
        if row.online is not None and not row.is_control and not row.is_bound
    }
    return max(scores, key=lambda name: scores[name], default=None)


# Of a grid that has just begun there are hundreds to do.
_MOST_NAMED: Final = 4


def origin_of(folder: ExperimentFolder) -> Origin:
    """Where an experiment's figures come from.

    Raises:
        DataError: its settings or environments cannot be read.
    """
    settings, environments = folder.settings(), folder.environments()
    first = environments[0] if environments else None
    return Origin(
        str(settings.get("title") or folder.path.name),
        date=first.date if first else "",
        command=first.command if first else "",
        seed=_seed(settings, folder),
        environments=tuple(asdict(environment) for environment in environments),
        settings=settings,
    )


def results_of(folder: ExperimentFolder) -> Iterator[CellResults]:
    """The results of an experiment's cells, bases and datasets in the order of its settings.

    Raises:
        DataError: a result is damaged.
    """
    settings = folder.settings()
    there = set(folder.cells())
    for base in _named(settings, "bases", folder):
        for dataset in _named(settings, "datasets", folder):
            name = f"{base['name']}-{dataset['name']}"
            if name in there:
                yield _gathering_cell(folder.cell(name), base, dataset)


def _named(settings: Mapping[str, Any], kind: str, folder: ExperimentFolder) -> list[Mapping[str, Any]]:
    """The bases, or datasets, of settings that another version may have written, or somebody by hand."""
    each = settings.get(kind, [])
    if not isinstance(each, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in each
    ):
        raise _unreadable(folder, f"{kind} without names")
    return each


def _seed(settings: Mapping[str, Any], folder: ExperimentFolder) -> int:
    seed = settings.get("seed", 0)
    if not isinstance(seed, int):
        raise _unreadable(folder, f"a seed of {seed!r}")
    return seed


def _unreadable(folder: ExperimentFolder, found: str) -> DataError:
    return DataError(
        f"The settings of {folder.path} cannot be read: {found}.", hint="Mend experiment.toml, or evaluate anew."
    )


def _gathering_cell(cell: CellFolder, base: Mapping[str, Any], dataset: Mapping[str, Any]) -> CellResults:
    methods = {}
    for name in cell.methods():
        method = cell.method(name)
        rate = method.rate.read()
        methods[name] = MethodResults(
            method.online.read(),
            method.predictions(),
            method.retention.read(),
            method.scaling.read(),
            None if rate is None else rate.best,
        )
    return CellResults(
        cell.name,
        base["name"],
        dataset["name"],
        str(base.get("title") or base["name"]),
        str(dataset.get("title") or dataset["name"]),
        methods,
        cell.code_usage.read(),
    )


def missing_of(folder: ExperimentFolder, planned: Sequence[tuple[str, str]] = ()) -> Sequence[Missing]:
    """The stages without a result, and why: those of a cell with one cause together.

    Args:
        folder: the experiment's, whose log tells what was last passed over.
        planned: cells and stages that have no result; those not passed over are still to be done.
    """
    missing: dict[tuple[str, str], StageSkipped] = {}
    for _, event in EventFollower(folder.events).poll().events:
        if isinstance(event, StageSkipped):
            missing[event.cell, event.stage] = event
        elif isinstance(event, StageFinished):
            missing.pop((event.cell, event.stage), None)
    found: dict[tuple[str, str], list[str]] = {}
    for skipped in missing.values():
        cause = skipped
        while cause.follows is not None and (cause.cell, cause.follows) in missing:
            cause = missing[cause.cell, cause.follows]
        found.setdefault((cause.cell, cause.reason), []).append(skipped.stage)
    waiting: dict[str, list[str]] = {}
    for cell, stage in planned:
        if (cell, stage) not in missing:
            waiting.setdefault(cell, []).append(stage)
    return [
        *(Missing(cell, ", ".join(stages), reason) for (cell, reason), stages in found.items()),
        *(Missing(cell, _few_or_count(stages), "not done yet") for cell, stages in waiting.items()),
    ]


def _few_or_count(stages: Sequence[str]) -> str:
    return ", ".join(stages) if len(stages) <= _MOST_NAMED else f"{len(stages)} stages"
