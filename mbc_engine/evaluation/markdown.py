"""A report as files: Markdown and JSON."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.report import NOTHING, Report, read_report
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.evaluation.tables import NOTHING_TO_BEAT, OUTCOMES, Table, tables_of

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
            lines += _table(table)
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


def _table(table: Table) -> Iterator[str]:
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
