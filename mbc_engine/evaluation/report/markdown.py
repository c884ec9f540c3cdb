"""A report, or a comparison of two, as Markdown."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mbc_engine.evaluation.report.figures import moment
from mbc_engine.evaluation.report.foreign import in_markdown, visible
from mbc_engine.evaluation.report.report import Origin, Report
from mbc_engine.evaluation.report.tables import Entry, Table, tables_of

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
