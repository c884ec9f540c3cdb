"""`mbc eval show` and `mbc eval compare`: evaluations that were done."""

from typing import Annotated

import typer

from mbc_cli.commands.evaluate.options import EvaluationArgument, ReportOption
from mbc_cli.completion import evaluations
from mbc_cli.options import JsonOption


def show(run: EvaluationArgument, *, report: ReportOption = False, json: JsonOption = False) -> None:
    """Show the report of an evaluation, finished or not.

    \b
    Examples:
      mbc eval show small
      mbc eval show small --json | jq .verdicts
    """
    from mbc_cli.commands.evaluate.work import show_report
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
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.evaluation import print_comparison
    from mbc_engine.evaluation.report.comparing import compare_experiments
    from mbc_engine.experiments.roster import METHODS

    titles = {name: kind.title for name, kind in METHODS.items()}
    comparison = compare_experiments(existing_evaluation(a), existing_evaluation(b), titles=titles)
    if json:
        print_json(comparison.to_json())
    else:
        print_comparison(comparison)
