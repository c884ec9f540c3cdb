"""A report's results as tables of text, and the report as files: Markdown and JSON."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.methods import method_kind
from mbc_engine.evaluation.report import (
    NOTHING,
    CellReport,
    Report,
    between,
    difference,
    p_value,
    pays_from,
    percent,
    read_report,
)
from mbc_engine.evaluation.results import CodeUsage, ExperimentFolder, Measurement, MethodResults, PairedTest
from mbc_engine.evaluation.statistics import Interval

OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "yes": "✓"}
NOTHING_TO_BEAT: Final = "No method here has a control to beat, so nothing shows whether a memory helped."
LENIENT: Final = (
    "* The released code's match: the answer is cut to as many characters as the gold answer has before they are "
    "compared. It is not EM as the paper defines it, and is shown for comparison only."
)
ADJUSTED: Final = "p is of a sign-flip test over articles, adjusted for the number of rows (Benjamini and Hochberg)."


@dataclass(frozen=True)
class Table:
    """A table without columns that would be empty; `lines` have one text per column, the first of which names the line;
    the note goes below."""

    title: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    note: str = ""


class _Step(NamedTuple):
    row: MethodResults
    measured: Measurement
    published: dict[str, Any]


Columns = Mapping[str, Callable[[Any], str]]


def tables_of(cell: CellReport) -> list[Table]:
    """The tables that the cell has results for."""
    return [table for table in _tables(cell) if table.lines]


def _tables(cell: CellReport) -> Iterator[Table]:
    rows, measured = cell.rows, [row for row in cell.rows if row.online]
    reported = [row for row in rows if row.online or row.published]
    yield _table("Figures, in percent, with 95% intervals", _SCORES, reported, note=LENIENT)
    yield _table("Time and memory", _COSTS, measured, note=_break_even(cell))
    yield _table("Paired tests", _tests(cell), cell.tests, note=ADJUSTED)
    steps = [_Step(row, one, row.published_after(one.cost.documents) or {}) for row in rows for one in row.retention]
    yield _table("Retention of the first documents, in percent", _RETENTION, steps)
    scaled = [row for row in rows if row.scaling]
    sizes = sorted({step.cost.documents for row in scaled for step in row.scaling})
    for measure, name in (("exact_match", "EM"), ("f1", "F1")):
        title = f"{name} by the number of documents in a memory, in percent, with 95% intervals"
        columns = {"method": _SCORES["method"], **{f"{size:,}": _scaled_to(size, measure) for size in sizes}}
        yield _table(title, columns, scaled)
    by_size: Columns = {
        "documents": lambda line: f"{line[0]:,}",
        **{name: lambda line, show=show: show(line[1]) for name, show in _tests(cell).items()},  # type: ignore[misc]
    }
    title = "Paired tests by the number of documents in a memory"
    yield _table(title, by_size, cell.tests_by_size, note=ADJUSTED)
    yield Table("Code usage at the end of training", _USAGE, [*_usage(cell.code_usage)])


def _table(title: str, columns: Columns, rows: Sequence[Any], *, note: str = "") -> Table:
    entries = {name: [entry(row) for row in rows] for name, entry in columns.items()}
    shown = {name: column for name, column in entries.items() if {*column} != {NOTHING}}
    return Table(title, tuple(shown), list(zip(*shown.values(), strict=True)), note)


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


def mean(found: Interval | float | None) -> str:
    """`12.3 (10.1 to 14.5)`; a value whose interval is not known stands alone."""
    return f"{percent(found.value)} ({between(found)})" if isinstance(found, Interval) else percent(found)


def _gap(found: Interval) -> str:
    return f"{difference(found.value)} ({between(found)})"


def _online(show: Callable[[Measurement], str]) -> Callable[[MethodResults], str]:
    return lambda row: NOTHING if row.online is None else show(row.online)


def _published(measure: str) -> Callable[[MethodResults], str]:
    return lambda row: NOTHING if row.published is None else f"{row.published[measure]:.2f}"


def _scaled_to(documents: int, measure: str) -> Callable[[MethodResults], str]:
    return lambda row: mean(
        next((getattr(step.scores, measure) for step in row.scaling if step.cost.documents == documents), None)
    )


def _less_than_text(online: Measurement) -> str:
    cost = online.cost
    number = pays_from(cost, cost.text / cost.documents) if cost.shared and cost.text else None
    return NOTHING if number is None else f"{number:,} documents"


def _break_even(cell: CellReport) -> str:
    """From how many documents on MBC takes less than MAC."""
    mbc, mac = (row.online.cost if row and row.online else None for row in map(cell.row, ("mbc", "mac")))
    number = mbc and mac and pays_from(mbc, mac.on_disk / mac.documents)
    return f"MBC's codes and codebook take less than MAC's vectors from {number:,} documents on." if number else ""


def _memories(online: Measurement) -> str:
    return f"{online.cost.documents:,}" + (f" ({online.banks} memories)" if online.banks > 1 else "")


def _tests(cell: CellReport) -> Columns:
    titles = {row.method: row.title for row in cell.rows}
    return {
        "first": lambda test: titles[test.first],
        "second": lambda test: titles[test.second],
        **_TESTS,
    }


_SCORES: Final[Columns] = {
    "method": lambda row: row.title,
    "EM": _online(lambda online: mean(online.scores.exact_match)),
    "F1": _online(lambda online: mean(online.scores.f1)),
    "paper's EM": _published("exact_match"),
    "paper's F1": _published("f1"),
    "lenient match*": _online(lambda online: percent(online.scores.lenient_match)),
    "source first": _online(lambda online: percent(online.scores.first_source)),
    "in five": _online(lambda online: percent(online.scores.in_five)),
    "questions": _online(lambda online: f"{online.scores.questions:,}"),
}
_COSTS: Final[Columns] = {
    "method": _SCORES["method"],
    "documents": _online(_memories),
    "per document": lambda row: (
        seconds(row.online.cost.seconds_per_document) if method_kind(row.method).adapts else NOTHING
    ),
    "per answer": _online(lambda online: seconds(online.cost.seconds_per_answer)),
    "bytes, paper's count": _online(lambda online: size(online.cost.paper_bytes)),
    "bytes on disk": _online(lambda online: size(online.cost.on_disk)),
    "shared": _online(lambda online: size(online.cost.shared or None)),
    "text": _online(lambda online: size(online.cost.text)),
    "less than text from": _online(_less_than_text),
    "learning rate": lambda row: NOTHING if row.rate is None else f"{row.rate:g}",
}
_TESTS: Final[Mapping[str, Callable[[PairedTest], str]]] = {
    "questions": lambda test: f"{test.questions:,}",
    "EM difference": lambda test: _gap(test.exact_match.difference),
    "p of EM": lambda test: p_value(test.exact_match.adjusted),
    "F1 difference": lambda test: _gap(test.f1.difference),
    "p of F1": lambda test: p_value(test.f1.adjusted),
}
_RETENTION: Final[Columns] = {
    "method": lambda step: step.row.title,
    "documents": lambda step: f"{step.measured.cost.documents:,}",
    "EM": lambda step: percent(step.measured.scores.exact_match.value),
    "F1": lambda step: mean(step.measured.scores.f1),
    "F1 kept": lambda step: mean(step.measured.retained),
    "closed book": lambda step: mean(step.row.alone),
    "wrong bank": lambda step: mean(step.row.wrong),
    "paper's F1 kept": lambda step: percent(step.published.get("retention")),
    "bytes, paper's count": lambda step: size(step.measured.cost.paper_bytes),
    "paper's bytes": lambda step: size(step.published.get("bank_bytes")),
    "bytes on disk": lambda step: size(step.measured.cost.on_disk),
}
_USAGE: Final = ("training", "step", "perplexity")


def _usage(usage: CodeUsage | None) -> Iterator[tuple[str, ...]]:
    curves = {"with reset": usage.with_reset, "without reset": usage.without_reset} if usage else {}
    for name, curve in curves.items():
        for step, perplexity in curve[-1:]:
            yield name, f"{step:,}", f"{perplexity:.1f} (of {usage.codes if usage else 0:,})"


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
        file.write((json.dumps(as_json(report), indent=2, allow_nan=False) + "\n").encode())
    with atomic_write(experiment.report_markdown) as file:
        file.write(markdown(report).encode())
    return experiment.report_markdown


def as_json(report: Report) -> dict[str, Any]:
    """The report without the answers."""
    return TypeAdapter(Report).dump_python(report)  # type: ignore[no-any-return]


def markdown(report: Report) -> str:
    """A report in Markdown."""
    lines = [*_summary(report)]
    for cell in report.cells:
        lines.append(f"## {_text(cell.title)}\n")
        for table in tables_of(cell):
            lines += _table_lines(table)
    if report.missing:
        lines.append("## What is missing\n")
        lines += [f"- {_text(one['cell'])}, {_text(one['stage'])}: {_text(one['reason'])}" for one in report.missing]
    for name in ("environments", "settings"):
        shown = json.dumps(report.origin[name], indent=2)  # in ASCII, and no line of it begins with a backtick
        lines.append(f"\n## {name.capitalize()}\n\n```json\n{shown}\n```\n")
    return "\n".join(lines)


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
    for line in table.lines:
        yield f"| {' | '.join(map(_text, line))} |"
    yield ""
    if table.note:
        yield f"{_text(table.note)}\n"


def _text(text: str) -> str:
    """Text escaped for Markdown, with invisible characters made visible: ↵ for a line end, `<U+001B>` for ESC."""
    visible = _UNSEEN.sub(lambda one: {"\n": "↵", "\t": " "}.get(one[0], f"<U+{ord(one[0]):04X}>"), text)
    return _MARKUP.sub(r"\\\1", visible)
