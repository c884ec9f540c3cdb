"""Writes an experiment's report into its folder: as a page, as Markdown and as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.evaluation.report.building import CellResults, build_report
from mbc_engine.evaluation.report.gathering import missing_of, origin_of, results_of
from mbc_engine.evaluation.report.known import Known
from mbc_engine.evaluation.report.markdown import markdown
from mbc_engine.evaluation.report.page import page
from mbc_engine.evaluation.report.report import Report
from mbc_engine.whole_file import whole_file


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
        with whole_file(path) as file:
            file.write(text.encode())
    return folder.report_html


def _report(
    folder: ExperimentFolder, cells: Sequence[CellResults], known: Known, planned: Sequence[tuple[str, str]]
) -> Report:
    return build_report(origin_of(folder), cells, known, missing=missing_of(folder, planned))
