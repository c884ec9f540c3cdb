"""A report's results as tables of text, and the report as files: Markdown and JSON."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
from mbc_engine.evaluation.results import ExperimentFolder, Measurement, MethodResults, PairedTest
from mbc_engine.evaluation.statistics import Interval

OUTCOMES: Final = {"worse": "✗✗", "no": "✗", "unchecked": "?", "yes": "✓"}
NOTHING_TO_BEAT: Final = "No method here has a control to beat, so nothing shows whether a memory helped."
LENIENT: Final = (
    "* The released code's match: the answer is cut to as many characters as the gold answer has before they are "
    "compared. It is not EM as the paper defines it, and is shown for comparison only."
)
ADJUSTED: Final = "p is of a sign-flip test over articles, adjusted for the number of rows (Benjamini and Hochberg)."
Line = Mapping[str, Any]  # texts by column; what is empty is shown as a dash


@dataclass(frozen=True)
class Table:
    """A table without columns that would be empty; `lines` have one text per column, the first of which names the line;
    the note goes below."""

    title: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]
    note: str = ""


def tables_of(cell: CellReport) -> list[Table]:
    """The tables that the cell has results for."""
    return [table for table in _tables(cell) if table.lines]


def _tables(cell: CellReport) -> Iterator[Table]:
    rows, titles = cell.rows, {row.method: row.title for row in cell.rows}
    reported = [row for row in rows if row.online or row.published]
    yield _table("Figures, in percent, with 95% intervals", map(_scores, reported), LENIENT)
    costs = [_costs(row, row.online) for row in rows if row.online]
    yield _table("Time and memory", costs, _break_even(cell))
    yield _table("Paired tests", [_test(test, titles) for test in cell.tests], ADJUSTED)
    kept = [_kept(row, one) for row in rows for one in row.retention]
    yield _table("Retention of the first documents, in percent", kept)
    sizes = sorted({step.cost.documents for row in rows for step in row.scaling})
    for measure, name in (("exact_match", "EM"), ("f1", "F1")):
        title = f"{name} by the number of documents in a memory, in percent, with 95% intervals"
        yield _table(title, [_scaled(row, sizes, measure) for row in rows if row.scaling])
    tests = [{"documents": f"{documents:,}", **_test(test, titles)} for documents, test in cell.tests_by_size]
    yield _table("Paired tests by the number of documents in a memory", tests, ADJUSTED)
    if usage := cell.code_usage:
        curves = (("with reset", usage.with_reset[-1:]), ("without reset", usage.without_reset[-1:]))
        ends = [
            {"training": name, "step": f"{step:,}", "perplexity": f"{perplexity:.1f} (of {usage.codes:,})"}
            for name, end in curves
            for step, perplexity in end
        ]
        yield _table("Code usage at the end of training", ends)


def _table(title: str, lines: Iterable[Line], note: str = "") -> Table:
    lines = [{name: entry or NOTHING for name, entry in line.items()} for line in lines]
    columns = [name for name in (lines[0] if lines else ()) if any(line[name] != NOTHING for line in lines)]
    return Table(title, tuple(columns), [tuple(str(line[name]) for name in columns) for line in lines], note)


def _scores(row: MethodResults) -> Line:
    scores, published = row.online.scores if row.online else None, row.published
    return {
        "method": row.title,
        "EM": scores and mean(scores.exact_match),
        "F1": scores and mean(scores.f1),
        "paper's EM": published and f"{published['exact_match']:.2f}",
        "paper's F1": published and f"{published['f1']:.2f}",
        "lenient match*": scores and percent(scores.lenient_match),
        "source first": scores and percent(scores.first_source),
        "in five": scores and percent(scores.in_five),
        "questions": scores and f"{scores.questions:,}",
    }


def _costs(row: MethodResults, online: Measurement) -> Line:
    cost = online.cost
    pays = pays_from(cost, cost.text / cost.documents) if cost.shared and cost.text else None
    return {
        "method": row.title,
        "documents": f"{cost.documents:,}" + (f" ({online.banks} memories)" if online.banks > 1 else ""),
        "per document": seconds(cost.seconds_per_document) if method_kind(row.method).adapts else None,
        "per answer": seconds(cost.seconds_per_answer),
        "bytes, paper's count": size(cost.paper_bytes),
        "bytes on disk": size(cost.on_disk),
        "shared": size(cost.shared or None),
        "text": size(cost.text),
        "less than text from": None if pays is None else f"{pays:,} documents",
        "learning rate": None if row.rate is None else f"{row.rate:g}",
    }


def _break_even(cell: CellReport) -> str:
    """From how many documents on MBC takes less than MAC."""
    mbc, mac = (row.online.cost if row and row.online else None for row in map(cell.row, ("mbc", "mac")))
    number = mbc and mac and pays_from(mbc, mac.on_disk / mac.documents)
    return f"MBC's codes and codebook take less than MAC's vectors from {number:,} documents on." if number else ""


def _test(test: PairedTest, titles: Mapping[str, str]) -> Line:
    em, f1 = test.exact_match, test.f1
    return {
        "first": titles[test.first],
        "second": titles[test.second],
        "questions": f"{test.questions:,}",
        "EM difference": f"{difference(em.difference.value)} ({between(em.difference)})",
        "p of EM": p_value(em.adjusted),
        "F1 difference": f"{difference(f1.difference.value)} ({between(f1.difference)})",
        "p of F1": p_value(f1.adjusted),
    }


def _kept(row: MethodResults, one: Measurement) -> Line:
    steps = {step["documents"]: step for step in (row.published or {}).get("retention", ())}
    is_alike = row.retention[0].cost.documents == next(iter(steps), None)  # the paper's first documents are as many
    published = steps.get(one.cost.documents, {}) if is_alike else {}
    return {
        "method": row.title,
        "documents": f"{one.cost.documents:,}",
        "EM": percent(one.scores.exact_match.value),
        "F1": mean(one.scores.f1),
        "F1 kept": mean(one.retained),
        "closed book": mean(row.alone),
        "wrong bank": mean(row.wrong),
        "paper's F1 kept": percent(published.get("retention")),
        "bytes, paper's count": size(one.cost.paper_bytes),
        "paper's bytes": size(published.get("bank_bytes")),
        "bytes on disk": size(one.cost.on_disk),
    }


def _scaled(row: MethodResults, sizes: Sequence[int], measure: str) -> Line:
    found = {step.cost.documents: getattr(step.scores, measure) for step in row.scaling}
    return {"method": row.title, **{f"{documents:,}": mean(found.get(documents)) for documents in sizes}}


def seconds(value: float | None) -> str:
    """Three digits: `1.23 ms`, `1.23 s`, `1,234 s`."""
    if value is None or not value or value >= 999.5:
        return NOTHING if value is None else f"{value:,.0f} s"
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
