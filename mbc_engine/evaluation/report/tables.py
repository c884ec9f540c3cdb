"""The tables of a report: columns and cells as plain text, for a page and for Markdown alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mbc_engine.evaluation.report.figures import NOTHING, difference, interval, p_value, percent, seconds, size
from mbc_engine.evaluation.report.paired import Difference, Paired
from mbc_engine.evaluation.report.report import Cell, Row
from mbc_engine.evaluation.results import Figure

LENIENT: Final = (
    "* The released code's match: the answer is cut to the gold answer's length before they are compared. "
    "It is not the paper's EM and stands here for comparison only."
)


@dataclass(frozen=True)
class Entry:
    """What stands in a place of a table.

    Attributes:
        text: the figure or name.
        note: what is smaller beside it: an interval, the paper's figure.
        order: what it is sorted by; None for text, and where there is nothing to sort.
    """

    text: str
    note: str = ""
    order: float | None = None


@dataclass(frozen=True)
class Table:
    """A table; `lines` have as many entries as `columns`, the first names the line. `emphasis` are lines in bold,
    `muted` controls'; a detail is for those who ask for it; the note stands under the table."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[Entry, ...], ...]
    emphasis: tuple[int, ...] = ()
    muted: tuple[int, ...] = ()
    is_detail: bool = False
    note: str = ""


def tables_of(cell: Cell) -> list[Table]:
    """The tables that the cell has results for."""
    tables = (scores_table(cell), costs_table(cell), _tests(cell), _retention(cell), _scaling(cell), _usage(cell))
    return [table for table in tables if table is not None]


def scores_table(cell: Cell) -> Table | None:
    """EM, F1 and sources of each method, beside the paper's figures; None where there are none."""
    rows = [row for row in cell.rows if row.online is not None or row.published is not None]
    has_published = any(row.published is not None for row in rows)
    columns = (
        *("method", "EM", "F1"),
        *(("paper's EM", "paper's F1") if has_published else ()),
        *("lenient match*", "source first", "in five", "questions"),
    )
    lines = tuple(
        (
            Entry(row.title),
            *(map(_figure, (scores.exact_match, scores.f1)) if scores else (Entry(NOTHING),) * 2),
            *((_published(row, 0), _published(row, 1)) if has_published else ()),
            *(map(_percent, (scores.lenient_match, scores.first_source, scores.in_five)) if scores else ()),
            *((Entry(f"{scores.questions:,}", order=scores.questions),) if scores else (Entry(NOTHING),) * 4),
        )
        for row in rows
        for scores in (row.online.scores if row.online is not None else None,)
    )
    return _table("Figures, in percent, with 95% intervals", columns, lines, rows, cell, LENIENT)


def _published(row: Row, place: int) -> Entry:
    if row.published is None:
        return Entry(NOTHING)
    theirs = (row.published.exact_match, row.published.f1)[place]
    if row.online is None:
        return Entry(f"{theirs:.2f}", order=theirs)
    scores = row.online.scores
    ours = (scores.exact_match, scores.f1)[place].value
    return Entry(f"{theirs:.2f}", f"ours {difference(ours - theirs)}", theirs)


def costs_table(cell: Cell) -> Table | None:
    """Seconds and bytes of each method; None where there are none."""
    rows = [row for row in cell.rows if row.online is not None]
    has_rates = any(row.rate is not None for row in rows)
    columns = ("method", "documents", "a document", "an answer", "bytes, paper's count", "bytes on disk")
    lines = tuple(
        (
            Entry(row.title),
            Entry(
                f"{cost.documents:,}", f"{row.online.banks} memories" if row.online.banks > 1 else "", cost.documents
            ),
            Entry(seconds(cost.seconds_per_document), order=cost.seconds_per_document),
            Entry(seconds(cost.seconds_per_answer), order=cost.seconds_per_answer),
            _size(cost.paper_bytes),
            _size(cost.on_disk),
            *((Entry(NOTHING) if row.rate is None else Entry(f"{row.rate:g}", order=row.rate),) if has_rates else ()),
        )
        for row in rows
        if row.online is not None and (cost := row.online.cost)
    )
    return _table("Time and memory", columns + (("learning rate",) if has_rates else ()), lines, rows, cell)


def _tests(cell: Cell) -> Table | None:
    tests = [*cell.against_leader, *cell.against_controls]
    columns = ("first", "second", "questions", "EM difference", "p", "F1 difference", "p")
    lines = tuple(
        (
            Entry(_title(cell, test.first)),
            Entry(_title(cell, test.second)),
            Entry(f"{test.questions:,}", order=test.questions),
            *difference_entries(test),
        )
        for test in tests
    )
    return (
        Table("Paired tests: against the leader, and against controls", columns, lines, is_detail=True)
        if lines
        else None
    )


def difference_entries(test: Paired) -> tuple[Entry, Entry, Entry, Entry]:
    """Differences in EM and F1, each with its p-value."""
    return (
        _difference(test.exact_match),
        Entry(p_value(test.exact_match.p), order=test.exact_match.p),
        _difference(test.f1),
        Entry(p_value(test.f1.p), order=test.f1.p),
    )


def _retention(cell: Cell) -> Table | None:
    has_published = any(
        row.published_after(step.documents) for row in cell.rows if row.retention for step in row.retention.steps
    )
    columns = (
        *("method", "documents", "EM", "F1", "F1 kept"),
        *(("paper's F1 kept",) if has_published else ()),
        "bytes, paper's count",
        *(("paper's bytes",) if has_published else ()),
        "bytes on disk",
    )
    lines = tuple(
        (
            Entry(row.title),
            Entry(f"{step.documents:,}", order=step.documents),
            _percent(step.exact_match),
            _percent(step.f1),
            _percent(step.retention),
            *((_percent(told.retention if told else None),) if has_published else ()),
            _size(step.paper_bytes),
            *((_size(told.bank_bytes if told else None),) if has_published else ()),
            _size(step.on_disk),
        )
        for row in cell.rows
        if row.retention is not None
        for step in row.retention.steps
        for told in (row.published_after(step.documents),)
    )
    return Table("Retention of the first documents, in percent", columns, lines, is_detail=True) if lines else None


def _scaling(cell: Cell) -> Table | None:
    columns = ("method", "documents", "EM", "F1", "a document", "an answer", "bytes, paper's count", "bytes on disk")
    lines = tuple(
        (
            Entry(row.title),
            Entry(f"{step.cost.documents:,}", order=step.cost.documents),
            _figure(step.scores.exact_match),
            _figure(step.scores.f1),
            Entry(seconds(step.cost.seconds_per_document), order=step.cost.seconds_per_document),
            Entry(seconds(step.cost.seconds_per_answer), order=step.cost.seconds_per_answer),
            _size(step.cost.paper_bytes),
            _size(step.cost.on_disk),
        )
        for row in cell.rows
        if row.scaling is not None
        for step in row.scaling.steps
    )
    return Table("Scaling with the number of documents", columns, lines, is_detail=True) if lines else None


def _usage(cell: Cell) -> Table | None:
    usage, published = cell.code_usage, cell.published_usage
    if usage is None:
        return None
    theirs = (_range(published.with_reset), f"falls to {published.without_reset:g}") if published else ("", "")
    lines = tuple(
        (
            Entry(name),
            Entry(f"{curve.steps[-1]:,}", order=curve.steps[-1]),
            Entry(f"{curve.perplexity[-1]:.1f}", f"of {usage.codes:,}", curve.perplexity[-1]),
            *((Entry(told),) if told else ()),
        )
        for name, curve, told in zip(
            ("with reset", "without reset"), (usage.with_reset, usage.without_reset), theirs, strict=True
        )
        if curve.steps
    )
    columns = ("training", "step", "perplexity", *(("paper's",) if published else ()))
    return Table("Code usage at the end of training", columns, lines, is_detail=True) if lines else None


def _range(values: tuple[float, ...]) -> str:
    return f"from {values[0]:g}" if len(values) == 1 else " to ".join(f"{value:g}" for value in values)


def _table(
    title: str,
    columns: tuple[str, ...],
    lines: tuple[tuple[Entry, ...], ...],
    rows: Sequence[Row],
    cell: Cell,
    note: str = "",
) -> Table | None:
    if not lines:
        return None
    return Table(
        title,
        columns,
        lines,
        emphasis=tuple(number for number, row in enumerate(rows) if row.method == cell.leader),
        muted=tuple(number for number, row in enumerate(rows) if row.is_control),
        note=note,
    )


def _title(cell: Cell, method: str) -> str:
    row = cell.row(method)
    return method if row is None else row.title


def _figure(figure: Figure) -> Entry:
    return Entry(percent(figure.value), interval(figure), figure.value)


def _difference(figures: Difference) -> Entry:
    return Entry(difference(figures.difference.value), interval(figures.difference), figures.difference.value)


def _percent(value: float | None) -> Entry:
    return Entry(percent(value), order=value)


def _size(count: int | None) -> Entry:
    return Entry(size(count), order=count)
