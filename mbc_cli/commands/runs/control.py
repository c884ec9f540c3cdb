"""`mbc runs pause`, `resume` and `stop`: what is asked of a training at work in another process."""

from pathlib import Path

from mbc_cli.commands.runs.options import RunArgument
from mbc_cli.options import JsonOption, RunsOption


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
    from mbc_engine.work.run_folder import Request

    request = None if wanted is None else Request(wanted)
    run = run_at_work(name, runs)
    ask(run, request)
    show_asked(run, request, as_json=as_json)
