"""A report: an experiment's results, with significance tests and verdicts.

What readers must not overlook comes first: whether each method beats its controls, and what its scores do not show.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from mbc_engine.evaluation.results import CodeUsage, ExperimentFolder, Measurement, MethodResults, PairedTest, pair_all
from mbc_engine.evaluation.statistics import SIGNIFICANT, Difference, Interval
from mbc_engine.events import StageFinished, StageSkipped, Validated
from mbc_engine.experiments import registry
from mbc_engine.experiments.cells import Cell, cells
from mbc_engine.experiments.registry import METHODS, controls_of, title_of
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, settings_in
from mbc_engine.names import READ_MODES
from mbc_engine.runs.event_log import EventFollower, read_events
from mbc_engine.runs.training_runs import EVENTS

Judgement = Literal["worse", "no", "unchecked", "partly", "yes"]
# Below this, one question is worth more than a percentage point.
_FEW_QUESTIONS: Final = 100
_READS: Final = ("", *(f"-{read}" for read in READ_MODES))
_MOST_NAMED: Final = 4  # a grid that has just begun has hundreds of stages left
NOTHING: Final = "\N{EN DASH}"
# Characters that reorder, hide or break text: controls (C0, DEL, C1), bidirectional marks, line separators, tags, lone
# surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)


# By training name: step, then F1 in percent, loss and loss with a wrong bank on the validation questions.
Validations = Mapping[str, Sequence[tuple[int, float, float | None, float | None]]]


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
        is_rival = METHODS[self.method].is_ranked if self.method in METHODS else True
        return self.online is not None and is_rival and not self.is_control

    def published_after(self, documents: int) -> dict[str, Any] | None:
        """The paper's retention after so many documents; None unless it asks about as many first documents as ours."""
        theirs = self.published["retention"] if self.published else []
        if not self.retention or not theirs or self.retention[0].cost.documents != theirs[0]["documents"]:
            return None
        return next((step for step in theirs if step["documents"] == documents), None)


@dataclass(frozen=True)
class CellReport:
    """A base LM on a dataset, with its tests; `leader` has the best EM, controls and the oracle aside; `asked` are the
    methods the experiment runs here. `against_leader` includes MBC against MAC and without codes."""

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
    """Whether a method beats several controls, or several methods beat one: `partly` means in F1 but not in EM,
    `unchecked` that there are no answers of both to compare."""

    cell: str
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    outcome: Judgement
    claim: str
    figures: str


@dataclass(frozen=True)
class Report:
    """An experiment's report; see `origin_of`. `missing` lists stages without a result, by cell, and the reason."""

    verdicts: tuple[Verdict, ...]
    cautions: tuple[str, ...]
    origin: dict[str, Any]
    cells: tuple[CellReport, ...]
    missing: tuple[dict[str, str], ...]


Results = Mapping[str, MethodResults]


def read_report(folder: ExperimentFolder) -> tuple[Report, dict[str, Results]]:
    """The report on an experiment's results so far, and these results by cell and method."""
    found = list(read_results(folder))
    built = []
    for cell, own in found:
        asked, _ = cell.settings.of(cell.base)
        kept = folder.cell(cell.name)
        usage, curves = kept.read("", "code-usage"), _validations(kept.prepared_folder)
        built.append(cell_report(cell.base, cell.dataset, own, asked, usage, curves))
    report = build_report(origin_of(folder), built, missing=_missing(folder))
    return report, {cell.name: own for cell, own in found}


def _validations(prepared: Path) -> Validations:
    logs = {path.parent.name: read_events(path) for path in sorted(prepared.glob(f"*/{EVENTS}"))}
    return {
        name: tuple((own.step, own.f1, own.loss, own.wrong_loss) for own in log if isinstance(own, Validated))
        for name, log in logs.items()
    }


def origin_of(folder: ExperimentFolder) -> dict[str, Any]:
    """How an experiment's results were produced."""
    settings, environments = folder.settings(), folder.environments()
    first = (environments or [{}])[0]
    return {
        "title": settings["title"],
        "date": first.get("date", ""),
        "command": first.get("command", ""),
        "seed": settings.get("seed", 0),
        "environments": tuple(environments),
        "settings": settings,
    }


def read_results(folder: ExperimentFolder) -> Iterator[tuple[Cell, Results]]:
    """The results of each cell that has any, by method."""
    there = folder.cells()
    for cell in cells(settings_in(folder.path)):
        if cell.name in there:
            own = folder.cell(cell.name)
            yield cell, {method: own.results(method) for method in own.methods()}


def cell_report(
    base: BaseSettings,
    dataset: DatasetSettings,
    results: Results,
    asked: Sequence[str],
    code_usage: CodeUsage | None = None,
    validations: Validations | None = None,
) -> CellReport:
    """Order and test the results of a cell's methods; those `asked` for are tested against their controls."""
    rows = []
    for name in {**dict.fromkeys(METHODS), **dict.fromkeys(results)}:
        kind, own = METHODS.get(name), results.get(name)
        published = registry.published_scores(base.name, dataset.name, name)
        if own or published:
            is_control = kind is not None and kind.control_of is not None
            own = own or MethodResults()
            figures = own.online, own.retention, own.scaling, own.rate
            rows.append(MethodReport(name, title_of(name), is_control, *figures, published=published))
    ranked = {row.method: row.online.scores for row in rows if row.online and row.is_ranked}
    leader = max(ranked, key=lambda name: (ranked[name].exact_match.value, ranked[name].f1.value), default=None)
    to_lead = [(row.method, leader) for row in rows if leader and row.method != leader and not row.is_control]
    # The paper's comparison and what codes cost, whoever leads.
    pairs = [*((f"mbc{read}", f"mac{read}") for read in _READS), ("mbc", "mbc-unquantised")]
    to_lead += [pair for pair in pairs if leader not in pair]
    return CellReport(
        f"{base.name}-{dataset.name}",
        base.title,
        dataset.title,
        tuple(rows),
        tuple(asked),
        leader,
        against_leader=_tests(results, to_lead),
        against_controls=_tests(results, _pairs(asked)),
        code_usage=code_usage,
        published_usage=registry.published_usage(base.name, dataset.name),
        validations=validations or {},
    )


def _pairs(asked: Sequence[str]) -> list[tuple[str, str]]:
    """Each method with those of its controls that were asked, or with all if none was, so that the report says so.

    A memory should also beat having none, the closed book.
    """
    pairs = []
    for name in METHODS:
        controls = controls_of(name) if name in asked else ()
        pairs += [(name, control) for control in ([one for one in controls if one in asked] or controls)]
        if controls and "closed-book" in asked and "closed-book" not in controls:
            pairs.append((name, "closed-book"))
    return pairs


def _tests(results: Results, names: Iterable[tuple[str, str]]) -> tuple[PairedTest, ...]:
    asked = {name: outcome.predictions for name, outcome in results.items() if outcome.predictions}
    both = [((one, asked[one]), (other, asked[other])) for one, other in names if one in asked and other in asked]
    return tuple(pair_all(both))


def build_report(
    origin: dict[str, Any], cells: Sequence[CellReport], *, missing: Sequence[dict[str, str]] = ()
) -> Report:
    """Derive the verdicts and cautions from an experiment's cells."""
    order = get_args(Judgement)
    # Name only what differs between cells.
    datasets, bases = ({getattr(cell, name) for cell in cells} for name in ("dataset", "base"))
    places = {
        cell.name: (cell.dataset if len(datasets) > 1 else "", cell.base if len(bases) > 1 else "") for cell in cells
    }
    verdicts = [verdict for cell in cells for verdict in _verdicts(cell, places[cell.name])]
    # Comparisons with corrupted banks come first, and bad outcomes before good ones.
    verdicts.sort(key=lambda verdict: (not _corrupted_bank(verdict.controls[0]), order.index(verdict.outcome)))
    cautions = tuple(
        f"{place}: {caution}" if (place := ", ".join(filter(None, places[cell.name]))) else caution
        for cell in cells
        for caution in _cautions(cell)
    )
    return Report(tuple(verdicts), cautions, origin, tuple(cells), tuple(missing))


def _corrupted_bank(method: str) -> str:
    return METHODS[method].corrupted_bank if method in METHODS else ""


_Pair = tuple[str, str, PairedTest | None]

# For one method, or its bank, and for several, against controls.
_CLAIMS: Final[Mapping[Judgement, tuple[str, str]]] = {
    "worse": ("is worse than {}", "are worse than {}"),
    "no": ("does not beat {}", "do not beat {}"),
    "partly": ("beats {} in F1 but not in EM", "beat {} in F1 but not in EM"),
    "yes": ("beats {}", "beat {}"),
    "unchecked": ("was not checked against {}", "were not checked against {}"),
}


def _verdicts(cell: CellReport, place: tuple[str, str]) -> Iterator[Verdict]:
    tests = {(test.first, test.second): test for test in cell.against_controls}
    # One sentence covers a method's corrupted banks, or the methods with the same control.
    groups: dict[tuple[str, Judgement], list[_Pair]] = {}
    for method, control in _pairs(cell.asked):
        row = cell.row(method)
        if row is not None and row.online is not None:
            test = tests.get((method, control))
            key = method if _corrupted_bank(control) else control, _judgement(test)
            groups.setdefault(key, []).append((method, control, test))
    for (_, outcome), group in groups.items():
        methods = tuple(dict.fromkeys(method for method, _, _ in group))
        controls = tuple(dict.fromkeys(control for _, control, _ in group))
        dataset, base = place
        where = (f" on {dataset}" if dataset else "") + (f" ({base})" if base else "")
        claim = _claim(methods, controls, outcome, where)
        yield Verdict(cell.name, methods, controls, outcome, claim, _compared(group, outcome))


def _judgement(test: PairedTest | None) -> Judgement:
    if test is None:
        return "unchecked"
    if test.exact_match.is_gain:
        return "yes"
    if test.exact_match.is_loss:
        return "worse"
    return "partly" if test.f1.is_gain else "no"


def _claim(methods: Sequence[str], controls: Sequence[str], outcome: Judgement, where: str) -> str:
    banks = [bank for control in controls if (bank := _corrupted_bank(control))]
    titles = [title_of(method) for method in methods]
    subject = _listed(titles)
    if banks:
        subject = f"The bank of {titles[0]}" if titles[0].endswith(")") else f"{titles[0]}'s bank"
    against = _listed(banks or [title_of(controls[0])], "or" if outcome in ("no", "unchecked") else "and")
    return f"{subject} {_CLAIMS[outcome][len(methods) > 1].format(against)}{where}"


def _compared(group: Sequence[_Pair], outcome: Judgement) -> str:
    figures = []
    for name, measure in (("EM", "exact_match"), ("F1", "f1"))[: 2 if outcome == "partly" else 1]:
        parts: list[str] = []
        for method, control, test in group:
            if test is not None:
                found: Difference = getattr(test, measure)
                if bank := _corrupted_bank(control):
                    parts = parts or [f"{percent(found.first)} with it"]
                    parts.append(f"{percent(found.second)} with {bank} ({_figures(found)})")
                else:
                    parts = parts or [f"{percent(found.second)} for {title_of(control)}"]
                    parts.append(f"{percent(found.first)} for {title_of(method)} ({_figures(found)})")
        figures += [f"{name} {', '.join(parts)}"] if parts else []
    return "; ".join(figures)


def _figures(found: Difference) -> str:
    text, gap = f"difference {difference(found.difference.value)}, 95% {interval(found.difference)}", found.difference
    return f"{text}, but p = {p_value(found.p)}" if found.p >= SIGNIFICANT and (gap.low > 0 or gap.high < 0) else text


def _cautions(cell: CellReport) -> Iterator[str]:
    measured = [(row, row.online) for row in cell.rows if row.online is not None]
    asked = {online.scores.questions for _, online in measured}
    if asked and min(asked) < _FEW_QUESTIONS:
        yield f"Figures from {min(asked)} questions. Go by the intervals, not the digits."
    if len(asked) > 1:
        yield f"The methods were not all asked the same number of questions ({min(asked)} to {max(asked)})."
    theirs = registry.ADAPTED_DOCUMENTS
    held = {online.cost.documents for row, online in measured if row.published is not None} - {theirs}
    if held:
        yield (
            f"The paper's figures are for {theirs:,} documents in one memory, these for "
            f"{_listed([f'{count:,}' for count in sorted(held)])}. More documents are harder to tell apart."
        )
    ranked = {row.method: (row.title, online.scores.exact_match) for row, online in measured if row.is_ranked}
    if cell.leader is None or cell.leader not in ranked:
        return
    title, best = ranked.pop(cell.leader)
    if close := [name for name, own in ranked.values() if own.high >= best.low and own.low <= best.high]:
        yield (
            f"{title} leads with an EM of {percent(best.value)} ({interval(best)}), "
            f"but the intervals of {_listed(close)} overlap with it; the paired tests show whether the lead is more than "
            "chance."
        )


def _listed(names: Sequence[str], last: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def _missing(folder: ExperimentFolder) -> list[dict[str, str]]:
    skipped: dict[tuple[str, str], StageSkipped] = {}
    for _, event in EventFollower(folder.events).poll().events:
        if isinstance(event, StageSkipped):
            skipped[event.cell, event.stage] = event
        elif isinstance(event, StageFinished):
            skipped.pop((event.cell, event.stage), None)
    found: dict[tuple[str, str], list[str]] = {}
    for event in skipped.values():
        cause = event
        while cause.follows is not None and (cause.cell, cause.follows) in skipped:
            cause = skipped[cause.cell, cause.follows]
        found.setdefault((cause.cell, cause.reason), []).append(event.stage)
    missing = [{"cell": cell, "stage": ", ".join(own), "reason": reason} for (cell, reason), own in found.items()]
    for cell in cells(settings_in(folder.path)):
        kept, stages = folder.cell(cell.name), [stage for stage in cell.stages() if stage.kind != "prepare"]
        left = [own.name for own in stages if not own.is_done(kept) and (cell.name, own.name) not in skipped]
        if left:
            named = ", ".join(left) if len(left) <= _MOST_NAMED else f"{len(left)} stages"
            missing.append({"cell": cell.name, "stage": named, "reason": "not done yet"})
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


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if not value:
        return NOTHING if value is None else "0 s"
    if value >= 999.5:
        return f"{value:,.0f} s"
    units = {"s": 1, "ms": 1e3}
    unit = next((unit for unit, times in units.items() if value * times >= 0.9995), "µs")
    return f"{value * units.get(unit, 1e6):.3g} {unit}"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: `999 B`, `1.23 MB`."""
    if count is None or count < 1000:
        return NOTHING if count is None else f"{count} B"
    units = {"kB": 1e3, "MB": 1e6, "GB": 1e9}
    unit = next((unit for unit, bytes_ in units.items() if count < 999.5 * bytes_), "TB")
    return f"{count / units.get(unit, 1e12):.3g} {unit}"


def visible(text: str) -> str:
    """The text with invisible characters made visible: ↵ for a line end, `<U+001B>` for ESC; tabs become spaces."""
    return _UNSEEN.sub(lambda found: {"\n": "↵", "\t": " "}.get(found[0], f"<U+{ord(found[0]):04X}>"), text)


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values flattened to dotted names and text; lists of objects are numbered."""
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if name else key)
    else:
        yield name, visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
