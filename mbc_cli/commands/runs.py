"""`mbc runs`: training runs and those at work on them. None of it needs a model.

What the verbs of `mbc runs` share.

`mbc runs pause`, `resume` and `stop`: what is asked of a training at work in another process.

`mbc runs list` and `mbc runs show`: training runs, at work or not.
"""

from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.completion import runs
from mbc_cli.options import JsonOption, RunsOption

RunArgument = Annotated[str, typer.Argument(metavar="NAME", help="A run's name, or its folder.", autocompletion=runs)]


def pause(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Pause a training run after the current step and save a snapshot.

    The process keeps its memory. Resuming with `mbc runs resume` gives bit-identical
    results.

    \b
    Examples:
      mbc runs pause first
    """
    _ask(name, runs, "pause", as_json=json)


def stop(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Stop a training run after the current step and save a snapshot, as Ctrl-C does.

    To continue it, use `mbc train --resume`.

    \b
    Examples:
      mbc runs stop first
    """
    _ask(name, runs, "stop", as_json=json)


def resume(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Resume a paused training run.

    To continue one that was stopped or killed, use `mbc train --resume`.

    \b
    Examples:
      mbc runs resume first
    """
    _ask(name, runs, None, as_json=json)


def _ask(name: str, runs: Path, wanted: str | None, *, as_json: bool) -> None:
    """Ask the training at work in a run for something; None is to go on."""
    from mbc_cli.render.runs import show_asked
    from mbc_cli.runs import ask, run_at_work
    from mbc_engine.runs.training_runs import Request

    request = None if wanted is None else Request(wanted)
    run = run_at_work(name, runs)
    ask(run, request)
    show_asked(run, request, as_json=as_json)


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
    from mbc_engine.runs.training_runs import runs_in

    (list_json if json else show_list)([read_run(folder, has_curves=False) for folder in runs_in(runs.absolute())])


def show(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Show a training run's settings, progress, best result and remaining time.

    With --json also the last step and every validation.

    \b
    Examples:
      mbc runs show first
      mbc runs show first --json | jq .latest.loss
    """
    from mbc_cli.render.runs import run_json, show_run
    from mbc_cli.render.terminal import print_json
    from mbc_cli.runs import open_run

    run = open_run(name, runs)
    if json:
        print_json(run_json(run))
    else:
        show_run(run)
