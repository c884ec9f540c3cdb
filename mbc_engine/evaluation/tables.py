"""A report's results as tables, and the report as files: Markdown and JSON."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.methods import method_kind
from mbc_engine.evaluation.report import (
    NOTHING,
    CellReport,
    MethodReport,
    Report,
    difference,
    interval,
    p_value,
    percent,
    read_report,
)
from mbc_engine.evaluation.results import ExperimentFolder, Measurement
from mbc_engine.evaluation.statistics import Interval

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
# Left out where they would be empty.
_OPTIONAL: Final = ("paper's EM", "paper's F1", "paper's F1 kept", "paper's bytes", "paper's", "learning rate")
Columns = Sequence[tuple[str, Callable[[Any], Entry]]]


def tables_of(cell: CellReport) -> list[Table]:
    """The tables that the cell has results for."""
    return [table for table in _tables(cell) if table.lines]


def _tables(cell: CellReport) -> Iterator[Table]:
    rows, measured = cell.rows, [row for row in cell.rows if row.online]
    reported = [row for row in rows if row.online or row.published]
    yield _table("Figures, in percent, with 95% intervals", _SCORES, reported, cell.leader, note=LENIENT)
    yield _table("Time and memory", _COSTS, measured, cell.leader)
    titles = {row.method: row.title for row in rows}
    tested = ("first", _at("first", titles.get)), ("second", _at("second", titles.get))
    tests = *cell.against_leader, *cell.against_controls
    yield _table("Paired tests", (*tested, *_TESTS), tests, is_detail=True)
    steps = [_Step(row.title, one, row.published_after(one.cost.documents)) for row in rows for one in row.retention]
    yield _table("Retention of the first documents, in percent", _RETENTION, steps, is_detail=True)
    scaled = [row for row in rows if row.scaling]
    sizes = sorted({step.cost.documents for row in scaled for step in row.scaling})
    for measure, name in (("exact_match", "EM"), ("f1", "F1")):
        title = f"{name} by the number of documents in a memory, in percent, with 95% intervals"
        columns = [("method", _at("title")), *((f"{size:,}", _scaled_to(size, measure)) for size in sizes)]
        yield _table(title, columns, scaled, cell.leader, is_detail=True)
    yield _table("Code usage at the end of training", _USAGE, [*_usage(cell)], is_detail=True)


def _table(
    title: str,
    columns: Columns,
    rows: Sequence[Any],
    leader: str | None = None,
    *,
    is_detail: bool = False,
    note: str = "",
) -> Table:
    entries = [(name, [entry(row) for row in rows]) for name, entry in columns]
    shown = [(name, column) for name, column in entries if name not in _OPTIONAL or {*column} != {_NONE}]
    number = next((number for number, row in enumerate(rows) if leader and row.method == leader), None)
    lines = list(zip(*(column for _, column in shown), strict=True))
    return Table(title, tuple(name for name, _ in shown), lines, number, is_detail, note)


def _at(path: str, show: Callable[[Any], Entry | str | None] = str) -> Callable[[Any], Entry]:
    """Shows what is at a dotted path of a row; a dash if anything on the way is None."""

    def entry(row: Any) -> Entry:
        for name in path.split("."):
            row = row if row is None else row[name] if isinstance(row, dict) else getattr(row, name)
        shown = NOTHING if row is None else show(row)
        return shown if isinstance(shown, Entry) else Entry(shown or "")

    return entry


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


def _count(count: int) -> str:
    return f"{count:,}"


def _mean(found: Interval) -> Entry:
    return Entry(percent(found.value), interval(found))


def _gap(found: Interval) -> Entry:
    return Entry(difference(found.value), interval(found))


def _published(measure: str) -> Callable[[MethodReport], Entry]:
    def entry(row: MethodReport) -> Entry:
        if row.published is None:
            return _NONE
        value = row.published[measure]
        note = f"ours {difference(getattr(row.online.scores, measure).value - value)}" if row.online else ""
        return Entry(f"{value:.2f}", note)

    return entry


def _scaled_to(documents: int, measure: str) -> Callable[[MethodReport], Entry]:
    def entry(row: MethodReport) -> Entry:
        means = {step.cost.documents: getattr(step.scores, measure) for step in row.scaling}
        return _mean(means[documents]) if documents in means else _NONE

    return entry


def _memories(online: Measurement) -> Entry:
    return Entry(_count(online.cost.documents), f"{online.banks} memories" if online.banks > 1 else "")


def _adapting(row: MethodReport) -> Entry:
    return _at("online.cost.seconds_per_document", seconds)(row) if method_kind(row.method).adapts else _NONE


_SCORES: Final = (
    ("method", _at("title")),
    ("EM", _at("online.scores.exact_match", _mean)),
    ("F1", _at("online.scores.f1", _mean)),
    ("paper's EM", _published("exact_match")),
    ("paper's F1", _published("f1")),
    ("lenient match*", _at("online.scores.lenient_match", percent)),
    ("source first", _at("online.scores.first_source", percent)),
    ("in five", _at("online.scores.in_five", percent)),
    ("questions", _at("online.scores.questions", _count)),
)
_COSTS: Final = (
    ("method", _at("title")),
    ("documents", _at("online", _memories)),
    ("per document", _adapting),
    ("per answer", _at("online.cost.seconds_per_answer", seconds)),
    ("bytes, paper's count", _at("online.cost.paper_bytes", size)),
    ("bytes on disk", _at("online.cost.on_disk", size)),
    ("learning rate", _at("rate", "{:g}".format)),
)
_TESTS: Final = (
    ("questions", _at("questions", _count)),
    ("EM difference", _at("exact_match.difference", _gap)),
    ("p", _at("exact_match.p", p_value)),
    ("F1 difference", _at("f1.difference", _gap)),
    ("p", _at("f1.p", p_value)),
)
_RETENTION: Final = (
    ("method", _at("method")),
    ("documents", _at("step.cost.documents", _count)),
    ("EM", _at("step.scores.exact_match.value", percent)),
    ("F1", _at("step.scores.f1.value", percent)),
    ("F1 kept", _at("step.retained", percent)),
    ("paper's F1 kept", _at("published.retention", percent)),
    ("bytes, paper's count", _at("step.cost.paper_bytes", size)),
    ("paper's bytes", _at("published.bank_bytes", size)),
    ("bytes on disk", _at("step.cost.on_disk", size)),
)
_USAGE: Final = (
    ("training", _at("training")),
    ("step", _at("step", _count)),
    ("perplexity", _at("perplexity", Entry._make)),
    ("paper's", _at("published")),
)


class _Step(NamedTuple):
    method: str
    step: Measurement
    published: dict[str, Any] | None


class _Usage(NamedTuple):
    training: str
    step: int
    perplexity: Entry
    published: str | None


def _usage(cell: CellReport) -> Iterator[_Usage]:
    papers: tuple[str | None, str | None] = None, None
    if published := cell.published_usage:
        low, *high = (f"{value:g}" for value in published["with_reset"])
        papers = f"{low} to {high[0]}" if high else f"from {low}", f"falls to {published['without_reset']:g}"
    if usage := cell.code_usage:
        curves = ("with reset", usage.with_reset), ("without reset", usage.without_reset)
        for (name, curve), paper in zip(curves, papers, strict=True):
            for step, perplexity in curve[-1:]:
                yield _Usage(name, step, Entry(f"{perplexity:.1f}", f"of {usage.codes:,}"), paper)


_MARKUP: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
# Characters that reorder, hide or break text: controls (C0, DEL, C1), bidirectional marks, line separators, tags, lone
# surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    "\ud800-\udfff]"
)


def write_report(experiment: ExperimentFolder) -> Path:
    """Write the report on an experiment's results so far into its folder; returns the path of the Markdown."""
    report = read_report(experiment)
    with atomic_write(experiment.report_json) as file:
        file.write((json.dumps(asdict(report), indent=2, allow_nan=False) + "\n").encode())
    with atomic_write(experiment.report_markdown) as file:
        file.write(markdown(report).encode())
    return experiment.report_markdown


def markdown(report: Report) -> str:
    """A report in Markdown."""
    lines = [*_summary(report)]
    for cell in report.cells:
        lines.append(f"## {_text(cell.title)}\n")
        for table in tables_of(cell):
            lines += _table_lines(table)
    if report.missing:
        stages = [(f"{missing['cell']}, {missing['stage']}", missing["reason"]) for missing in report.missing]
        lines += _facts("What is missing", stages)
    for title, facts in provenance(report.origin):
        lines += _facts(title, facts)
    return "\n".join(lines).rstrip() + "\n"


def _facts(title: str, facts: Sequence[tuple[str, str]]) -> list[str]:
    return [f"## {title}\n", *(f"- {_text(name)}: {_text(value)}" for name, value in facts), ""]


def _summary(report: Report) -> Iterator[str]:
    origin = report.origin
    yield f"# {_text(origin['title'])}\n"
    for verdict in report.verdicts:
        figure = f": {_text(verdict.figures)}" if verdict.figures else ""
        yield f"- {OUTCOMES[verdict.outcome]} **{_text(verdict.claim)}**{figure}."
    if not report.verdicts:
        yield _text(NOTHING_TO_BEAT)
    yield ""
    for caution in report.cautions:
        yield f"> {_text(caution)}\n"
    date = origin["date"].replace("T", " ").replace("+00:00", " UTC")
    for name, value in (("Date", date), ("Seed", str(origin["seed"])), ("Command", origin["command"])):
        if value:
            yield f"{name}: {_text(value)}  "
    yield ""


def _table_lines(table: Table) -> Iterator[str]:
    yield f"### {_text(table.title)}\n"
    yield f"| {' | '.join(map(_text, table.columns))} |"
    yield "| --- |" + " ---: |" * (len(table.columns) - 1)
    for number, line in enumerate(table.lines):
        mark = "**" if number == table.leader else ""
        entries = (f"{mark}{_text(text)}{mark}" + (f" ({_text(note)})" if note else "") for text, note in line)
        yield f"| {' | '.join(entries)} |"
    yield ""
    if table.note:
        yield f"{_text(table.note)}\n"


def provenance(origin: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Environments and settings with their headings, as dotted names and values; of later environments, what differs
    from the one before."""
    before: dict[str, str] = {}
    for number, environment in enumerate(origin["environments"], 1):
        values = dict(_flat(environment))
        title = "Environment" if number == 1 else f"Environment {number}: what differs"
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        yield title, [*changed.items(), *((name, NOTHING) for name in before if name not in values)]
        before = values
    if origin["settings"]:
        yield "Settings", list(_flat(origin["settings"]))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested values flattened to dotted names and text; lists of objects are numbered."""
    if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        value = {str(number): item for number, item in enumerate(value)}
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else key)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _text(text: str) -> str:
    """Text escaped for Markdown, with invisible characters made visible: ↵ for a line end, `<U+001B>` for ESC."""
    visible = _UNSEEN.sub(lambda one: {"\n": "↵", "\t": " "}.get(one[0], f"<U+{ord(one[0]):04X}>"), text)
    return _MARKUP.sub(r"\\\1", visible)
