"""A report as one self-contained HTML page: tables that sort, plots, and a browser of the questions.

It asks the network for nothing and runs no script but its own: its Content-Security-Policy names the two hashes.

Writes an experiment's report into its folder: as a page, as Markdown and as JSON.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.evaluation.report.building import CellResults, build_report, missing_of, origin_of, results_of
from mbc_engine.evaluation.report.plots import plots_of, swatch
from mbc_engine.evaluation.report.report import Cell, Known, Report, Row, by_question
from mbc_engine.evaluation.report.tables import (
    NOTHING_TO_BEAT,
    OUTCOMES,
    Entry,
    Table,
    backgrounds,
    flat,
    in_html,
    in_script,
    markdown,
    moment,
    tables_of,
    visible,
)
from mbc_engine.evaluation.results import Prediction

# Longer tables scroll inside themselves.
_LONG = 24


def page(report: Report, predictions: Mapping[str, Mapping[str, Sequence[Prediction]]]) -> str:
    """The page, with the predictions of each cell's methods to look through."""
    style, script = _resource("page.css"), _resource("page.js")
    return Template(_resource("page.html")).substitute(
        title=in_html(report.origin.title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        origin=_origin(report),
        contents=_contents(report),
        verdicts=_verdicts(report),
        cautions=_list("cautions", (f"<li>{in_html(caution)}</li>" for caution in report.cautions)),
        cells="\n".join(_cell(cell, number) for number, cell in enumerate(report.cells)),
        missing=_missing(report),
        facts="".join(_facts(title, facts) for title, facts in backgrounds(report.origin)),
        data="\n".join(_data(cell, predictions[cell.name]) for cell in report.cells if predictions.get(cell.name)),
    )


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _origin(report: Report) -> str:
    origin = report.origin
    facts = [
        in_html(moment(origin.date)),
        f"seed {origin.seed}",
        f"<code>{in_html(origin.command)}</code>" if origin.command else "",
    ]
    return " · ".join(fact for fact in facts if fact)


def _contents(report: Report) -> str:
    return _list(
        "contents",
        (
            *(
                f'<li><a href="#cell-{number}">{in_html(cell.title)}</a></li>'
                for number, cell in enumerate(report.cells)
            ),
            *(['<li><a href="#missing">What is missing</a></li>'] if report.missing else []),
            '<li><a href="#questions">Questions</a></li>',
        ),
    )


def _verdicts(report: Report) -> str:
    if not report.verdicts:
        return f"<p>{NOTHING_TO_BEAT}</p>"
    return _list(
        "verdicts",
        (
            f'<li class="{verdict.outcome}"><span class="mark" aria-hidden="true">{OUTCOMES[verdict.outcome]}</span>'
            f"<b>{in_html(verdict.claim)}</b>{': ' if verdict.figures else ''}{in_html(verdict.figures)}.</li>"
            for verdict in report.verdicts
        ),
    )


def _cell(cell: Cell, number: int) -> str:
    tables = tables_of(cell)
    plots = "".join(
        f"<figure><figcaption>{in_html(plot.title)}</figcaption>{plot.drawing}{_legend(plot.legend)}</figure>"
        for plot in plots_of(cell)
    )
    return "\n".join(
        (
            f'<section id="cell-{number}" class="results">',
            f"<h2>{in_html(cell.title)}</h2>",
            "" if tables else "<p>There are no results yet.</p>",
            *(_table(table) for table in tables if not table.is_detail),
            f'<div class="plots">{plots}</div>' if plots else "",
            *(
                f"<details><summary>{in_html(table.title)}</summary>{_body(table)}</details>"
                for table in tables
                if table.is_detail
            ),
            "</section>",
        )
    )


def _legend(legend: Sequence[tuple[str, int]]) -> str:
    return _list("legend", (f"<li>{swatch(style)}{in_html(name)}</li>" for name, style in legend))


def _table(table: Table) -> str:
    return f"<h3>{in_html(table.title)}</h3>{_body(table)}"


def _body(table: Table) -> str:
    has_figures = [any(line[number].order is not None for line in table.lines) for number in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col"{" data-is-figure" if is_figure else ""}><button type="button">{in_html(column)}</button></th>'
        for column, is_figure in zip(table.columns, has_figures, strict=True)
    )
    body = "".join(
        f'<tr{_line_class(table, number)}><th scope="row">{in_html(name.text)}</th>'
        f"{''.join(map(_entry, entries, has_figures[1:]))}</tr>"
        for number, (name, *entries) in enumerate(table.lines)
    )
    return (
        f'<div class="scroll{" long" if len(table.lines) > _LONG else ""}" tabindex="0" role="region" '
        f'aria-label="{in_html(table.title)}"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        + (f'<p class="note">{in_html(table.note)}</p>' if table.note else "")
    )


def _line_class(table: Table, number: int) -> str:
    return ' class="leads"' if number in table.emphasis else ' class="control"' if number in table.muted else ""


def _entry(entry: Entry, is_figure: bool) -> str:
    kind = "" if is_figure else ' class="text"'
    order = f' data-order="{entry.order!r}"' if entry.order is not None else ""
    note = f"<small>{in_html(entry.note)}</small>" if entry.note else ""
    return f"<td{kind}{order}>{in_html(entry.text)}{note}</td>"


def _missing(report: Report) -> str:
    if not report.missing:
        return ""
    lines = (
        f"<li>{in_html(missing.cell)}, <b>{in_html(missing.stage)}</b>: {in_html(missing.reason)}</li>"
        for missing in report.missing
    )
    return f'<section id="missing"><h2>What is missing</h2><ul>{"".join(lines)}</ul></section>'


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    lines = "".join(f"<dt>{in_html(name)}</dt><dd><code>{in_html(value)}</code></dd>" for name, value in flat(facts))
    return f'<details><summary>{title}</summary><dl class="facts">{lines}</dl></details>'


def _list(class_: str, items: Iterator[str] | Sequence[str]) -> str:
    inside = "".join(items)
    return f'<ul class="{class_}">{inside}</ul>' if inside else ""


def _data(cell: Cell, predictions: Mapping[str, Sequence[Prediction]]) -> str:
    """A cell's questions once, and each method's answers to them in the same order."""
    asked = {method: by_question(answered) for method, answered in predictions.items()}
    questions = {key: one for answered in asked.values() for key, one in answered.items()}
    value = {
        "questions": [
            [visible(one.id), one.document, visible(one.question), [visible(answer) for answer in one.answers]]
            for one in questions.values()
        ],
        "methods": [
            _answers(row, [asked[row.method].get(key) for key in questions])
            for row in cell.rows
            if asked.get(row.method)
        ],
    }
    title = in_html(cell.title)
    return f'<script class="cell" type="application/json" data-title="{title}">{in_script(value)}</script>'


def _answers(row: Row, asked: Sequence[Prediction | None]) -> dict[str, Any]:
    return {
        "title": visible(row.title),
        "namesSources": row.names_sources,
        "answers": [None if one is None else visible(one.answer) for one in asked],
        "right": [None if one is None else int(one.exact_match) for one in asked],
        "f1": [None if one is None else round(one.f1, 3) for one in asked],
        "rank": [None if one is None else one.rank for one in asked],
    }


def read_report(folder: ExperimentFolder, known: Known, *, planned: Sequence[tuple[str, str]] = ()) -> Report:
    """The report of what an experiment's folder holds so far.

    Args:
        folder: the experiment's.
        known: see `build_report`.
        planned: cells and stages that have no result, whether they were passed over or not yet begun.

    Raises:
        DataError: the folder holds no experiment, or something in it is damaged.
    """
    return _report(folder, list(results_of(folder)), known, planned)


def write_report(folder: ExperimentFolder, known: Known, *, planned: Sequence[tuple[str, str]] = ()) -> Path:
    """Write the report in its three forms, each whole; returns the page's path.

    Args:
        folder, known, planned: as for `read_report`.

    Raises:
        DataError: as for `read_report`.
        OSError: a file cannot be written.
    """
    cells = list(results_of(folder))
    report = _report(folder, cells, known, planned)
    predictions = {
        cell.name: {name: results.predictions for name, results in cell.methods.items() if results.predictions}
        for cell in cells
    }
    for path, text in (
        (folder.report_json, json.dumps(report.to_json(), indent=2, allow_nan=False) + "\n"),
        (folder.report_markdown, markdown(report)),
        (folder.report_html, page(report, predictions)),
    ):
        with atomic_write(path) as file:
            file.write(text.encode())
    return folder.report_html


def _report(
    folder: ExperimentFolder, cells: Sequence[CellResults], known: Known, planned: Sequence[tuple[str, str]]
) -> Report:
    return build_report(origin_of(folder), cells, known, missing=missing_of(folder, planned))
