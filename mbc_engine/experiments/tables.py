"""A report's results as tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from mbc_engine.evaluation.results import Measurement, PairedTest
from mbc_engine.evaluation.statistics import Interval
from mbc_engine.experiments.registry import METHODS
from mbc_engine.experiments.report import (
    NOTHING,
    CellReport,
    MethodReport,
    difference,
    flat,
    interval,
    p_value,
    percent,
    seconds,
    size,
)

T = TypeVar("T")

OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "partly": "◐", "yes": "✓"}
NOTHING_TO_BEAT: Final = "No method here has a control to beat, so nothing shows whether a memory helped."
LENIENT: Final = (
    "* The released code's match: the answer is cut to the gold answer's length before they are compared. "
    "It is not EM as the paper defines it, and is shown for comparison only."
)


@dataclass(frozen=True)
class Entry:
    """A value or name, a smaller note next to it, and its sort key; None for text."""

    text: str
    note: str = ""
    sort_key: float | None = None


@dataclass(frozen=True)
class Table:
    """A table; `lines` have one entry per column, the first of which names the line.

    `emphasis` are the lines in bold, `muted` those of controls; details are shown on request; the note goes below.
    """

    title: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[Entry, ...]]
    emphasis: tuple[int, ...] = ()
    muted: tuple[int, ...] = ()
    is_detail: bool = False
    note: str = ""

    def is_numeric(self, column: int) -> bool:
        return any(line[column].sort_key is not None for line in self.lines)


_NONE: Final = Entry(NOTHING)


def tables_of(cell: CellReport) -> list[Table]:
    """The tables that the cell has results for."""
    tables = (
        *(_scores(cell), _costs(cell), _tests(cell), _retention(cell)),
        *(_scaling(cell, "exact_match", "EM"), _scaling(cell, "f1", "F1")),
        _usage(cell),
    )
    return [table for table in tables if table.lines]


def _scores(cell: CellReport) -> Table:
    rows = [row for row in cell.rows if row.online or row.published]
    has_published = any(row.published for row in rows)
    columns = (
        *("method", "EM", "F1", *_if(has_published, "paper's EM", "paper's F1")),
        *("lenient match*", "source first", "in five", "questions"),
    )
    lines = []
    for row in rows:
        theirs = _if(has_published, _published(row, "exact_match"), _published(row, "f1"))
        ours: tuple[Entry, ...] = (_NONE,) * 2
        rest: tuple[Entry, ...] = (_NONE,) * 4
        if row.online:
            scores = row.online.scores
            ours = _mean(scores.exact_match), _mean(scores.f1)
            shares = map(_percent, (scores.lenient_match, scores.first_source, scores.in_five))
            rest = (*shares, _count(scores.questions))
        lines.append((Entry(row.title), *ours, *theirs, *rest))
    return _of_rows("Figures, in percent, with 95% intervals", columns, lines, rows, cell, LENIENT)


def _published(row: MethodReport, figure: str) -> Entry:
    if row.published is None:
        return _NONE
    theirs = row.published[figure]
    note = f"ours {difference(getattr(row.online.scores, figure).value - theirs)}" if row.online else ""
    return Entry(f"{theirs:.2f}", note, theirs)


def _costs(cell: CellReport) -> Table:
    measured = [(row, row.online) for row in cell.rows if row.online]
    has_rates = any(row.rate is not None for row, _ in measured)
    columns = ("method", "documents", *_COSTS, *_if(has_rates, "learning rate"))
    lines = []
    for row, online in measured:
        documents = _documents(online)
        rate = _NONE if row.rate is None else Entry(f"{row.rate:g}", sort_key=row.rate)
        lines.append((Entry(row.title), documents, *_cost_entries(row, online), *_if(has_rates, rate)))
    return _of_rows("Time and memory", columns, lines, [row for row, _ in measured], cell)


_COSTS: Final = ("per document", "per answer", "bytes, paper's count", "bytes on disk")


def _cost_entries(row: MethodReport, found: Measurement) -> tuple[Entry, ...]:
    cost = found.cost
    memorises = row.method not in METHODS or METHODS[row.method].adapts
    times = cost.seconds_per_document if memorises else None, cost.seconds_per_answer
    return (*(Entry(seconds(value), sort_key=value) for value in times), _size(cost.paper_bytes), _size(cost.on_disk))


def _tests(cell: CellReport) -> Table:
    columns = ("first", "second", "questions", "EM difference", "p", "F1 difference", "p")
    titles = {row.method: Entry(row.title) for row in cell.rows}
    lines = [
        (titles[test.first], titles[test.second], _count(test.questions), *_differences(test))
        for test in (*cell.against_leader, *cell.against_controls)
    ]
    return Table("Paired tests", columns, lines, is_detail=True)


def _retention(cell: CellReport) -> Table:
    steps = [(row, step, row.published_after(step.cost.documents)) for row in cell.rows for step in row.retention]
    has_published = any(theirs for _, _, theirs in steps)
    columns = (
        *("method", "documents", "EM", "F1", "F1 kept", *_if(has_published, "paper's F1 kept")),
        *("bytes, paper's count", *_if(has_published, "paper's bytes"), "bytes on disk"),
    )
    lines = []
    for row, step, theirs in steps:
        cost, paper = step.cost, theirs or {}
        shares = map(_percent, (step.scores.exact_match.value, step.scores.f1.value, step.retained))
        kept = _if(has_published, _percent(paper.get("retention")))
        stored = _if(has_published, _size(paper.get("bank_bytes")))
        sizes = (_size(cost.paper_bytes), *stored, _size(cost.on_disk))
        lines.append((Entry(row.title), _count(cost.documents), *shares, *kept, *sizes))
    return Table("Retention of the first documents, in percent", columns, lines, is_detail=True)


def _scaling(cell: CellReport, measure: str, name: str) -> Table:
    rows = [row for row in cell.rows if row.scaling]
    sizes = sorted({step.cost.documents for row in rows for step in row.scaling})
    lines = []
    for row in rows:
        found = {step.cost.documents: _mean(getattr(step.scores, measure)) for step in row.scaling}
        lines.append((Entry(row.title), *(found.get(count, _NONE) for count in sizes)))
    columns = ("method", *(f"{count:,}" for count in sizes))
    title = f"{name} by the number of documents in a memory, in percent, with 95% intervals"
    return replace(_of_rows(title, columns, lines, rows, cell), is_detail=True)


def _usage(cell: CellReport) -> Table:
    usage, published, lines = cell.code_usage, cell.published_usage, list[tuple[Entry, ...]]()
    theirs = "", ""
    if published:
        low, *high = (f"{value:g}" for value in published["with_reset"])
        theirs = f"{low} to {high[0]}" if high else f"from {low}", f"falls to {published['without_reset']:g}"
    curves = (("with reset", usage.with_reset), ("without reset", usage.without_reset)) if usage else ()
    for (name, curve), paper in zip(curves, theirs, strict=False):
        if usage and curve:
            step, perplexity = curve[-1]
            found = Entry(f"{perplexity:.1f}", f"of {usage.codes:,}", perplexity)
            lines.append((Entry(name), _count(step), found, *_if(paper, Entry(paper))))
    columns = ("training", "step", "perplexity", *_if(published, "paper's"))
    return Table("Code usage at the end of training", columns, lines, is_detail=True)


def _of_rows(
    title: str,
    columns: tuple[str, ...],
    lines: Sequence[tuple[Entry, ...]],
    rows: Sequence[MethodReport],
    cell: CellReport,
    note: str = "",
) -> Table:
    emphasis = tuple(number for number, row in enumerate(rows) if row.method == cell.leader)
    muted = tuple(number for number, row in enumerate(rows) if row.is_control)
    return Table(title, columns, lines, emphasis, muted, note=note)


def _if(condition: object, *items: T) -> tuple[T, ...]:
    return items if condition else ()


def _mean(found: Interval) -> Entry:
    return Entry(percent(found.value), interval(found), found.value)


def _differences(test: PairedTest) -> Iterator[Entry]:
    for found in (test.exact_match, test.f1):
        gap = found.difference
        yield Entry(difference(gap.value), interval(gap), gap.value)
        yield Entry(p_value(found.p), sort_key=found.p)


def _count(count: int, note: str = "") -> Entry:
    return Entry(f"{count:,}", note, count)


def _documents(found: Measurement) -> Entry:
    return _count(found.cost.documents, f"{found.banks} memories" if found.banks > 1 else "")


def _percent(value: float | None) -> Entry:
    return Entry(percent(value), sort_key=value)


def _size(count: int | None) -> Entry:
    return Entry(size(count), sort_key=count)


def provenance(origin: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Environments and settings with their headings, as dotted names and values; of later environments, what differs
    from the one before."""
    before: dict[str, str] = {}
    for number, environment in enumerate(origin["environments"], 1):
        values = dict(flat(environment))
        title = "Environment" if number == 1 else f"Environment {number}: what differs"
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        yield title, [*changed.items(), *((name, NOTHING) for name in before if name not in values)]
        before = values
    if origin["settings"]:
        yield "Settings", list(flat(origin["settings"]))
