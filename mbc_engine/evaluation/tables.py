"""A report's results as tables."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from mbc_engine.evaluation.methods import METHODS
from mbc_engine.evaluation.report import NOTHING, CellReport, MethodReport, difference, interval, p_value, percent
from mbc_engine.evaluation.statistics import Interval

T = TypeVar("T")

OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "partly": "◐", "yes": "✓"}
NOTHING_TO_BEAT: Final = "No method here has a control to beat, so nothing shows whether a memory helped."
LENIENT: Final = (
    "* The released code's match: the answer is cut to the gold answer's length before they are compared. "
    "It is not EM as the paper defines it, and is shown for comparison only."
)


class Entry(NamedTuple):
    """A value or name, and a note next to it."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table; `lines` have one entry per column, the first of which names the line.

    `leader` is the line in bold; details need a title; the note goes below.
    """

    title: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[Entry, ...]]
    leader: int | None = None
    is_detail: bool = False
    note: str = ""


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
    lines = []
    for row in rows:
        scores = row.online.scores if row.online else None
        papers = _published(row, "exact_match"), _published(row, "f1")
        lines.append(
            (
                Entry(row.title),
                *((_mean(scores.exact_match), _mean(scores.f1)) if scores else (_NONE, _NONE)),
                *_if(has_published, *papers),
                *map(_percent, (scores.lenient_match, scores.first_source, scores.in_five) if scores else (None,) * 3),
                _count(scores.questions) if scores else _NONE,
            )
        )
    columns = (
        *("method", "EM", "F1", *_if(has_published, "paper's EM", "paper's F1")),
        *("lenient match*", "source first", "in five", "questions"),
    )
    return _of_rows("Figures, in percent, with 95% intervals", columns, lines, rows, cell, LENIENT)


def _published(row: MethodReport, figure: str) -> Entry:
    if row.published is None:
        return _NONE
    value = row.published[figure]
    note = f"ours {difference(getattr(row.online.scores, figure).value - value)}" if row.online else ""
    return Entry(f"{value:.2f}", note)


def _costs(cell: CellReport) -> Table:
    rows = [row for row in cell.rows if row.online]
    has_rates = any(row.rate is not None for row in rows)
    lines = []
    for row in rows:
        assert row.online is not None
        cost, banks = row.online.cost, row.online.banks
        is_adapted = row.method not in METHODS or METHODS[row.method].adapts
        times = cost.seconds_per_document if is_adapted else None, cost.seconds_per_answer
        rate = _NONE if row.rate is None else Entry(f"{row.rate:g}")
        lines.append(
            (
                Entry(row.title),
                Entry(f"{cost.documents:,}", f"{banks} memories" if banks > 1 else ""),
                *(Entry(seconds(value)) for value in times),
                *(_size(cost.paper_bytes), _size(cost.on_disk), *_if(has_rates, rate)),
            )
        )
    columns = "method", "documents", "per document", "per answer", "bytes, paper's count", "bytes on disk"
    return _of_rows("Time and memory", (*columns, *_if(has_rates, "learning rate")), lines, rows, cell)


def _tests(cell: CellReport) -> Table:
    titles, lines = {row.method: row.title for row in cell.rows}, []
    for test in (*cell.against_leader, *cell.against_controls):
        figures: list[Entry] = []
        for found in (test.exact_match, test.f1):
            gap = found.difference
            figures += [Entry(difference(gap.value), interval(gap)), Entry(p_value(found.p))]
        lines.append((Entry(titles[test.first]), Entry(titles[test.second]), _count(test.questions), *figures))
    columns = ("first", "second", "questions", "EM difference", "p", "F1 difference", "p")
    return Table("Paired tests", columns, lines, is_detail=True)


def _retention(cell: CellReport) -> Table:
    steps = [(row, step, row.published_after(step.cost.documents)) for row in cell.rows for step in row.retention]
    has_published = any(paper for _, _, paper in steps)
    lines = []
    for row, step, published in steps:
        cost, paper = step.cost, published or {}
        lines.append(
            (
                *(Entry(row.title), _count(cost.documents)),
                *map(_percent, (step.scores.exact_match.value, step.scores.f1.value, step.retained)),
                *_if(has_published, _percent(paper.get("retention"))),
                *(_size(cost.paper_bytes), *_if(has_published, _size(paper.get("bank_bytes"))), _size(cost.on_disk)),
            )
        )
    columns = (
        *("method", "documents", "EM", "F1", "F1 kept", *_if(has_published, "paper's F1 kept")),
        *("bytes, paper's count", *_if(has_published, "paper's bytes"), "bytes on disk"),
    )
    return Table("Retention of the first documents, in percent", columns, lines, is_detail=True)


def _scaling(cell: CellReport, measure: str, name: str) -> Table:
    rows = [row for row in cell.rows if row.scaling]
    sizes = sorted({step.cost.documents for row in rows for step in row.scaling})
    lines = []
    for row in rows:
        by_size = {step.cost.documents: _mean(getattr(step.scores, measure)) for step in row.scaling}
        lines.append((Entry(row.title), *(by_size.get(size, _NONE) for size in sizes)))
    title = f"{name} by the number of documents in a memory, in percent, with 95% intervals"
    table = _of_rows(title, ("method", *(f"{size:,}" for size in sizes)), lines, rows, cell)
    return replace(table, is_detail=True)


def _usage(cell: CellReport) -> Table:
    usage, published, lines = cell.code_usage, cell.published_usage, list[tuple[Entry, ...]]()
    papers = "", ""
    if published:
        low, *high = (f"{value:g}" for value in published["with_reset"])
        papers = f"{low} to {high[0]}" if high else f"from {low}", f"falls to {published['without_reset']:g}"
    curves = (("with reset", usage.with_reset), ("without reset", usage.without_reset)) if usage else ()
    for (name, curve), paper in zip(curves, papers, strict=False):
        if usage and curve:
            step, perplexity = curve[-1]
            entry = Entry(f"{perplexity:.1f}", f"of {usage.codes:,}")
            lines.append((Entry(name), _count(step), entry, *_if(paper, Entry(paper))))
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
    leader = next((number for number, row in enumerate(rows) if row.method == cell.leader), None)
    return Table(title, columns, lines, leader, note=note)


def _if(condition: object, *items: T) -> tuple[T, ...]:
    return items if condition else ()


def _mean(found: Interval) -> Entry:
    return Entry(percent(found.value), interval(found))


def _count(count: int) -> Entry:
    return Entry(f"{count:,}")


def _percent(value: float | None) -> Entry:
    return Entry(percent(value))


def _size(count: int | None) -> Entry:
    return Entry(size(count))


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if not value:
        return NOTHING if value is None else "0 s"
    if value >= 999.5:
        return f"{value:,.0f} s"
    unit, factor = next((pair for pair in (("s", 1), ("ms", 1e3)) if value * pair[1] >= 0.9995), ("µs", 1e6))
    return f"{value * factor:.3g} {unit}"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: `999 B`, `1.23 MB`."""
    if count is None or count < 1000:
        return NOTHING if count is None else f"{count} B"
    units = (("kB", 1e3), ("MB", 1e6), ("GB", 1e9))
    unit, factor = next((pair for pair in units if count < 999.5 * pair[1]), ("TB", 1e12))
    return f"{count / factor:.3g} {unit}"
