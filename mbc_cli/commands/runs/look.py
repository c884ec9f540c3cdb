"""`mbc runs list` and `mbc runs show`: training runs, at work or not."""

from mbc_cli.commands.runs.options import RunArgument
from mbc_cli.options import JsonOption, RunsOption


def list_runs(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List training runs, the one that changed last first; tab-separated in a pipe.

    What each is at, its steps, its best F1 in percent and when it changed. With
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
    """Show what a training run is made of, how far it is, how good, and how long it will take.

    With --json also its last step and every validation.

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
