"""Figures as readers see them: percent, intervals, seconds, bytes, p-values.

The tables of a report: columns and cells as plain text, for a page and for Markdown alike.

Text of documents, questions and answers, made safe for each form of a report.

A report, or a comparison of two, as Markdown.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mbc_engine.evaluation.report.report import Cell, Difference, Origin, Paired, Report, Row
from mbc_engine.evaluation.results import Figure

NOTHING = "\N{EN DASH}"


def percent(value: float | None) -> str:
    """`12.3`, or a dash where there is no figure; never `-0.0`."""
    return NOTHING if value is None else _signless_zero(f"{value:.1f}")


def interval(figure: Figure) -> str:
    """`10.1 to 14.5`."""
    return f"{percent(figure.low)} to {percent(figure.high)}".replace("-", "\N{MINUS SIGN}")


def difference(value: float) -> str:
    """`+1.2`, `−0.4`, `0.0`."""
    shown = _signless_zero(f"{value:+.1f}")
    return "0.0" if shown in ("0.0", "+0.0") else shown.replace("-", "\N{MINUS SIGN}")


def p_value(value: float) -> str:
    """`0.031`, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if value is None:
        return NOTHING
    if value == 0 or value >= 0.9995:
        return f"{value:.3g} s" if value < 999.5 else f"{value:,.0f} s"
    shown, units = value * 1000, iter(("ms", "µs", "ns"))
    unit = next(units)
    while shown < 0.9995 and unit != "ns":
        shown, unit = shown * 1000, next(units)
    return f"{shown:.3g} {unit}"


def size(count: int | None) -> str:
    """Bytes in powers of 1,000: `999 B`, `1.23 MB`."""
    if count is None:
        return NOTHING
    value, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def moment(date: str) -> str:
    """An ISO 8601 date for people: `2026-02-03 14:05:06 UTC`."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def _signless_zero(shown: str) -> str:
    return "0.0" if shown == "-0.0" else shown


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


# What turns, hides or breaks text: controls (C0, DEL, C1), bidirectional marks, line separators, tags, lone surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def visible(text: str) -> str:
    """The text with what no reader could see shown: ↵ for a line end, `<U+001B>` for ESC; tabs are spaces."""
    return _UNSEEN.sub(_shown, text)


def _shown(found: re.Match[str]) -> str:
    return {"\n": "↵", "\t": " "}.get(found[0], f"<U+{ord(found[0]):04X}>")


def in_html(text: str) -> str:
    """Text as an element's content or a quoted attribute's value."""
    return html.escape(visible(text))


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table or part of a paragraph, where none of it is markup."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def in_script(value: Any) -> str:
    """A value as JSON that can stand in a script element: ASCII, with no character that HTML reads."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)


OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "partly": "◐", "yes": "✓"}

NOTHING_TO_BEAT: Final = "No method here has a control to beat, so that nothing tells whether a memory helped."


def markdown(report: Report) -> str:
    """The whole report, without the questions."""
    return "\n".join(_paragraphs(report))


def _paragraphs(report: Report) -> Iterator[str]:
    origin = report.origin
    yield f"# {in_markdown(origin.title)}\n"
    for verdict in report.verdicts:
        figures = f": {in_markdown(verdict.figures)}." if verdict.figures else "."
        yield f"- {OUTCOMES[verdict.outcome]} **{in_markdown(verdict.claim)}**{figures}"
    yield "" if report.verdicts else f"{NOTHING_TO_BEAT}\n"
    for caution in report.cautions:
        yield f"> {in_markdown(caution)}\n"
    told = [("Date", moment(origin.date)), ("Seed", str(origin.seed)), ("Command", origin.command)]
    yield "".join(f"{name}: {in_markdown(value)}  \n" for name, value in told if value)
    for cell in report.cells:
        yield f"## {in_markdown(cell.title)}\n"
        for table in tables_of(cell):
            yield f"### {table.title}\n"
            yield from table_lines(table)
            yield f"\n{in_markdown(table.note)}\n" if table.note else ""
    if report.missing:
        yield "## What is missing\n"
        for missing in report.missing:
            yield f"- {in_markdown(missing.cell)}, {in_markdown(missing.stage)}: {in_markdown(missing.reason)}"
        yield ""
    for title, facts in backgrounds(origin):
        yield f"## {title}\n"
        yield from (f"- {in_markdown(name)}: {in_markdown(value)}" for name, value in flat(facts))
        yield ""


def backgrounds(origin: Origin) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Environments and settings with their headings."""
    for number, environment in enumerate(origin.environments, 1):
        yield "Environment" if len(origin.environments) == 1 else f"Environment {number}", environment
    if origin.settings:
        yield "Settings", origin.settings


def table_lines(table: Table) -> Iterator[str]:
    """A table's lines."""
    yield _line(map(in_markdown, table.columns))
    yield _line("---" if number == 0 else "---:" for number in range(len(table.columns)))
    for number, entries in enumerate(table.lines):
        yield _line(_cell(entry, number in table.emphasis) for entry in entries)


def _cell(entry: Entry, is_bold: bool) -> str:
    text = in_markdown(entry.text)
    return (f"**{text}**" if is_bold else text) + (f" ({in_markdown(entry.note)})" if entry.note else "")


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested facts as dotted names and what they are; long lists of objects by their numbers."""
    for name, value in facts.items():
        yield from _flat(f"{prefix}{name}", value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from flat(value, f"{name}.")
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _flat(f"{name}.{number}", item)
    else:
        yield name, visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
