"""`mbc eval show` and `mbc eval compare`: evaluations that were done.

What an evaluation found out, and how two differ, on the terminal: what must not be overlooked first.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from mbc_cli.commands.evaluate import EvaluationArgument, ReportOption
from mbc_cli.completion import evaluations
from mbc_cli.options import JsonOption
from mbc_cli.render.terminal import notes, out, print_json, print_table
from mbc_cli.text import plain

if TYPE_CHECKING:
    from mbc_engine.evaluation.report.comparing import Change, ExperimentComparison
    from mbc_engine.evaluation.report.report import Cell, Report
    from mbc_engine.evaluation.report.tables import Entry, Table


def show(run: EvaluationArgument, *, report: ReportOption = False, json: JsonOption = False) -> None:
    """Show the report of an evaluation, finished or not.

    \b
    Examples:
      mbc eval show small
      mbc eval show small --json | jq .verdicts
    """
    from mbc_cli.evaluations import existing_evaluation

    show_report(existing_evaluation(run).path, opens=report, as_json=json)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An evaluation.", autocompletion=evaluations)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.", autocompletion=evaluations)],
    *,
    json: JsonOption = False,
) -> None:
    """Compare two evaluations, method by method, on the questions they share.

    Differences are B minus A, with a paired test over the questions.

    \b
    Examples:
      mbc eval compare small ./elsewhere/small
    """
    from mbc_cli.evaluations import existing_evaluation
    from mbc_cli.render.terminal import print_json
    from mbc_engine.evaluation.report.comparing import compare_experiments
    from mbc_engine.experiments.registry import METHODS

    titles = {name: kind.title for name, kind in METHODS.items()}
    comparison = compare_experiments(existing_evaluation(a), existing_evaluation(b), titles=titles)
    if json:
        print_json(comparison.to_json())
    else:
        print_comparison(comparison)


_STYLES: Final = {"worse": "red", "no": "red", "unchecked": "yellow", "partly": "yellow", "yes": "green"}
# What a terminal of so many columns has room for beside the method, most important first.
_FIGURES: Final = (
    ("EM", 0),
    ("F1", 0),
    ("source first", 0),
    ("paper's EM", 100),
    ("paper's F1", 100),
    ("in five", 120),
    ("lenient match*", 132),
    ("questions", 144),
)
_COSTS: Final = (
    ("documents", 96),
    ("a document", 0),
    ("an answer", 0),
    ("bytes, paper's count", 0),
    ("bytes on disk", 0),
    ("learning rate", 112),
)
_DIFFERENCES: Final = (
    ("method", 0),
    ("questions", 110),
    ("EM before", 0),
    ("EM", 0),
    ("EM difference", 0),
    ("p", 0),
    ("F1 difference", 84),
)


def print_report(report: "Report") -> None:
    """The report on stdout: verdicts, what to be careful about, tables of every cell, what is missing."""
    from mbc_engine.evaluation.report.tables import LENIENT, NOTHING_TO_BEAT, OUTCOMES, costs_table, scores_table

    for verdict in report.verdicts:
        style = _STYLES[verdict.outcome]
        figures = f": {plain(verdict.figures)}." if verdict.figures else "."
        _print((f"{OUTCOMES[verdict.outcome]} ", style), (plain(verdict.claim), f"bold {style}"), figures)
    if not report.verdicts:
        _print((NOTHING_TO_BEAT, "bold yellow"))
    for caution in report.cautions:
        _print(("Note. ", "bold yellow"), plain(caution))
    for cell in report.cells:
        _head(cell.title, f"{len(cell.rows)} methods")
        for table, columns in ((scores_table(cell), _FIGURES), (costs_table(cell), _COSTS)):
            if table is not None:
                _print_table(table, ("method", *_that_fit(columns)))
                print()
        _print_protocols(cell)
    if any(cell.leader is not None for cell in report.cells) and "lenient match*" in _that_fit(_FIGURES):
        _print((LENIENT, "dim"))
    if report.missing:
        _head("What is missing", "")
        for missing in report.missing:
            _print(f"{plain(missing.cell)}, {plain(missing.stage)}: {plain(missing.reason)}")


def print_comparison(comparison: "ExperimentComparison") -> None:
    """Two experiments on stdout: differences method by method, then what else is different."""
    _head(f"{comparison.second} against {comparison.first}", "percent, second less first")
    for table in comparison.tables():
        _head(table.title, "")
        _print_table(table, _that_fit(_DIFFERENCES))
    if not comparison.compared:
        _print("They have no method in common.")
    print()
    for name, only in ((comparison.first, comparison.only_first), (comparison.second, comparison.only_second)):
        if only:
            told = ", ".join(f"{cell} {method}" for cell, method in only)
            _print((f"Only in {plain(name)}: ", "dim"), plain(told))
    _print_changes("Other settings", comparison.settings)
    _print_changes("Another environment", comparison.environment)


def _print_protocols(cell: "Cell") -> None:
    """How the cell's retention and scaling ended, a line for each method; the page has every step."""
    from mbc_engine.evaluation.report.tables import percent, size

    for row in cell.rows:
        if row.retention is not None and row.retention.steps:
            last = row.retention.steps[-1]
            kept = "" if last.retention is None else f", {percent(last.retention)} % of its first"
            bytes_ = "" if last.paper_bytes is None else f", {size(last.paper_bytes)} as the paper counts"
            paper = row.published_after(last.documents)
            theirs = f"; the paper's: {percent(paper.retention)} %, {size(paper.bank_bytes)}" if paper else ""
            told = f"F1 {percent(last.f1)} after {last.documents:,} documents{kept}{bytes_}{theirs}"
            _print((f"{plain(row.title)}, retention: ", "dim"), told)
    for row in cell.rows:
        if row.scaling is not None and row.scaling.steps:
            told = ", ".join(
                f"{percent(step.scores.exact_match.value)} of {step.cost.documents:,}" for step in row.scaling.steps
            )
            _print((f"{plain(row.title)}, EM by documents: ", "dim"), told)
    if cell.code_usage is not None and cell.code_usage.with_reset.steps and cell.code_usage.without_reset.steps:
        usage = cell.code_usage
        told = f"{usage.with_reset.perplexity[-1]:.1f} with reset, {usage.without_reset.perplexity[-1]:.1f} without"
        _print((f"Code usage, perplexity of {usage.codes:,}: ", "dim"), told)


def _print_changes(title: str, changes: "Sequence[Change]") -> None:
    if changes:
        _head(title, "")
        for change in changes:
            before, now = plain(change.first or "none"), plain(change.second or "none")
            _print((f"{plain(change.name)}: ", "dim"), f"{before} → {now}")


def _print_table(table: "Table", columns: Sequence[str]) -> None:
    places = [number for number, name in enumerate(table.columns) if name in columns]
    # "p" stands twice, once beside each difference; the second has room where its difference has.
    if "F1 difference" not in columns and table.columns.count("p") > 1:
        places.remove(len(table.columns) - 1)
    rows = [[_told(line[place]) for place in places] for line in table.lines]
    shown = [table.columns[place] for place in places]
    print_table(shown, rows, right=[name for name in shown if name != "method"])


def _told(entry: "Entry") -> str:
    return f"{entry.text} ({entry.note})" if entry.note else entry.text


def _that_fit(columns: Sequence[tuple[str, int]]) -> list[str]:
    """All of them where nothing limits a line's length."""
    return [name for name, width in columns if not out.is_terminal or out.width >= width]


def _head(title: str, note: str) -> None:
    print()
    _print((plain(title), "bold"), (f"  {note}", "dim") if note else "")


def _print(*parts: str | tuple[str, str]) -> None:
    """A paragraph, wrapped on a terminal."""
    out.print(Text.assemble(*parts), soft_wrap=not out.is_terminal)


def show_report(folder: Path, *, opens: bool, as_json: bool) -> None:
    """The report of what an experiment's folder holds, on stdout; where it lies, on stderr; in the browser if asked."""
    from mbc_engine.evaluation.folder import ExperimentFolder
    from mbc_engine.experiments.reporting import report_of, write_report_of

    kept = ExperimentFolder(folder)
    if opens:  # a page of before may lack what was done since
        try:
            write_report_of(kept)
        except OSError:  # somebody else's folder has the page that it came with
            if not kept.report_html.is_file():
                raise
    report = report_of(kept)
    if as_json:
        print_json({"folder": str(folder), **report.to_json()})
    else:
        print_report(report)
    if kept.report_html.is_file():
        notes.print(f"The report: {plain(kept.report_html)}")
    if opens:
        typer.launch(str(kept.report_html))
