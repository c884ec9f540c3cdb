"""A report as files: one self-contained HTML page, Markdown and JSON, by the templates page.html and page.md."""

import hashlib
import importlib.util
import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from mbc_engine.atomic_write import atomic_write
from mbc_engine.evaluation.figures import draw
from mbc_engine.evaluation.report import CellReport, Report, read_report
from mbc_engine.evaluation.results import ExperimentFolder, Prediction, by_question
from mbc_engine.evaluation.tables import NOTHING_TO_BEAT, OUTCOMES, provenance, tables_of, visible
from mbc_engine.machine import installing

_MARKDOWN: Final = re.compile(r"([\\`*_\[\]#|~<>&$])")
_IN_SCRIPT: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})

Figures = Mapping[str, Sequence[tuple[str, str, bytes]]]  # by cell name: title, file name and image


def write_report(experiment: ExperimentFolder) -> Path:
    """Write the report on an experiment's results so far into its folder, in three formats; returns the page's path."""
    report, results = read_report(experiment)
    predictions = {
        cell: {name: done.predictions for name, done in own.items() if done.predictions}
        for cell, own in results.items()
    }
    has_figures = importlib.util.find_spec("matplotlib") is not None
    figures = {cell.name: draw(cell) for cell in report.cells} if has_figures else None
    written = {experiment.figures / name: image for own in (figures or {}).values() for _, name, image in own}
    if written:
        experiment.figures.mkdir(exist_ok=True)
    written[experiment.report_json] = (json.dumps(asdict(report), indent=2, allow_nan=False) + "\n").encode()
    written[experiment.report_markdown] = markdown(report, figures or {}).encode()
    written[experiment.report_html] = page(report, predictions, figures).encode()
    for path, content in written.items():
        with atomic_write(path) as file:
            file.write(content)
    return experiment.report_html


def page(
    report: Report, predictions: Mapping[str, Mapping[str, Sequence[Prediction]]], figures: Figures | None = None
) -> str:
    """The HTML page, in which each cell's predictions can be browsed by method."""
    images = {
        name: [(title, "", f"data:image/svg+xml;base64,{b64encode(image).decode()}") for title, _, image in own]
        for name, own in (figures or {}).items()
    }
    questions = [
        (cell.title, in_script(_questions(cell, own))) for cell in report.cells if (own := predictions.get(cell.name))
    ]
    no_figures = f"Figures need matplotlib: {installing('report')}"
    return _rendered(
        "page.html", report, images, questions=questions, has_figures=figures is not None, no_figures=no_figures
    )


def markdown(report: Report, figures: Figures) -> str:
    """The report without the questions; its figures are files in the folder `figures` next to it."""
    return _rendered("page.md", report, figures).rstrip() + "\n"


def _rendered(name: str, report: Report, figures: Mapping[str, Sequence[tuple[Any, ...]]], **values: Any) -> str:
    from jinja2 import Environment
    from markupsafe import Markup

    def displayed(value: Any) -> Any:
        return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value

    environment = Environment(autoescape=True, finalize=displayed)
    environment.filters |= {"moment": moment, "text": lambda value: Markup(in_markdown(value))}  # noqa: S704
    source = files(__package__).joinpath(name).read_text("utf-8")
    values |= {f"{element}_hash": _hash(source, element) for element in ("style", "script")}
    return environment.from_string(source).render(
        report=report,
        cells=[(cell, tables_of(cell), figures.get(cell.name, ())) for cell in report.cells],
        provenance=list(provenance(report.origin)),
        outcomes=OUTCOMES,
        nothing_to_beat=NOTHING_TO_BEAT,
        **values,
    )


def moment(date: str) -> str:
    """An ISO 8601 date in readable form: `2026-02-03 14:05:06 UTC`."""
    return date.replace("T", " ").replace("+00:00", " UTC")


def in_markdown(text: str) -> str:
    """Text escaped for a Markdown table cell or paragraph."""
    return _MARKDOWN.sub(r"\\\1", visible(text))


def in_script(value: Any) -> str:
    """A value as JSON that is safe in a script element: ASCII, with HTML's special characters escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_IN_SCRIPT)


def _hash(template: str, element: str) -> str | None:
    found = re.search(f"<{element}>(.*?)</{element}>", template, re.DOTALL)
    return found and f"sha256-{b64encode(hashlib.sha256(found[1].encode()).digest()).decode()}"


def _questions(cell: CellReport, predictions: Mapping[str, Sequence[Prediction]]) -> dict[str, Any]:
    asked = {method: by_question(answered) for method, answered in predictions.items()}
    questions = {key: one for answered in asked.values() for key, one in answered.items()}
    methods = []
    for row in cell.rows:
        if answered := asked.get(row.method):
            answers = [answered.get(key) for key in questions]
            methods.append(
                {
                    "title": visible(row.title),
                    "namesSources": row.online is not None and row.online.scores.first_source is not None,
                    "answers": [one and visible(one.answer) for one in answers],
                    "right": [one and int(one.exact_match) for one in answers],
                    "f1": [one and round(one.f1, 3) for one in answers],
                    "rank": [one and one.rank for one in answers],
                }
            )
    return {
        "questions": [
            [visible(one.id), one.document, visible(one.question), [visible(answer) for answer in one.answers]]
            for one in questions.values()
        ],
        "methods": methods,
    }
