"""`mbc runs list` and `mbc runs show`: training runs, at work or not."""

from mbc_cli.commands.runs.options import RunArgument
from mbc_cli.options import JsonOption, RunsOption


def list_runs(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List training runs, latest first; tab-separated in a pipe.

    Shows each run's state, steps, best F1 in percent and when it last changed. With
    --json each run is one line of JSON.

    \b
    Examples:
      mbc runs list
      mbc runs list --json | jq -r 'select(.state == "training").run'
    """
    from mbc_cli.render.runs import list_json, show_list
    from mbc_cli.runs import read_run
    from mbc_engine.work.run_folder import runs_in

    (list_json if json else show_list)([read_run(folder, has_curves=False) for folder in runs_in(runs.absolute())])


def show(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Show a training run's settings, progress, best result and remaining time.

    With --json also the last step and every validation.

    \b
    Examples:
      mbc runs show first
      mbc runs show first --json | jq .latest.loss
    """
    from mbc_cli.render.consoles import print_json
    from mbc_cli.render.runs import run_json, show_run
    from mbc_cli.runs import open_run

    run = open_run(name, runs)
    if json:
        print_json(run_json(run))
    else:
        show_run(run)
