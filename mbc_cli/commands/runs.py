"""`mbc runs`: list training runs, show one, and pause, resume or stop one at work. None of it needs a model."""

import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbc_cli.completion import runs
from mbc_cli.options import JsonOption, RunsOption
from mbc_cli.render.terminal import notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_cli.text import counted, plain, seconds

if TYPE_CHECKING:
    from mbc_engine.events import Validated
    from mbc_engine.runs.training_runs import FollowedRun, Request, RunHistory

RunArgument = Annotated[str, typer.Argument(metavar="NAME", help="A run's name, or its folder.", autocompletion=runs)]
_REQUESTED = {"pause": "to be paused", "stop": "to be stopped"}


def pause(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Pause a training run after the current step and save a snapshot.

    The process keeps its memory. Resuming with `mbc runs resume` gives bit-identical results.

    Examples:
      mbc runs pause first
    """
    _request(name, runs, "pause", as_json=json)


def stop(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Stop a training run after the current step and save a snapshot, as Ctrl-C does.

    To continue it, use `mbc train --resume`.

    Examples:
      mbc runs stop first
    """
    _request(name, runs, "stop", as_json=json)


def resume(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Resume a paused training run.

    To continue one that was stopped or killed, use `mbc train --resume`.

    Examples:
      mbc runs resume first
    """
    _request(name, runs, None, as_json=json)


def _request(name: str, runs: Path, wanted: "Request | None", *, as_json: bool) -> None:
    from mbc_cli.runs import ask, name_of, run_at_work

    run = run_at_work(name, runs)
    ask(run, wanted)
    if as_json:
        print_json({"run": run.folder.name, "path": str(run.folder), "request": wanted})
        return
    quoted = shlex.quote(plain(name_of(run.folder)))
    if wanted is None:
        out.print(f"{quoted} continues.")
    else:
        way = "runs resume" if wanted == "pause" else "train --resume --run"
        out.print(f"{quoted} will {wanted} after the current step. Continue with: mbc {way} {quoted}")


def list_runs(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List training runs, latest first; tab-separated in a pipe.

    Shows each run's state, steps, best F1 in percent and when it last changed. With --json each run is one line of
    JSON.

    Examples:
      mbc runs list
      mbc runs list --json | jq -r 'select(.state == "training").run'
    """
    from mbc_cli.runs import read_run
    from mbc_engine.runs.training_runs import runs_in

    found = [read_run(folder, has_curves=False) for folder in runs_in(runs.absolute())]
    if json:
        print_json_lines(map(_summary, found))
    elif not found:
        notes.print("There are no runs yet. Start one with: mbc train --preset NAME --data SPEC")
    else:
        rows = [
            (
                run.folder.name,
                _state(run),
                _steps(run.history),
                f"{run.history.best.f1:.1f}" if run.history.best else "",
                _moment(run.history.last_time),
            )
            for run in found
        ]
        print_table(("run", "state", "steps", "F1 %", "changed"), rows, right=("steps", "F1 %"))


def show(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Show a training run's settings, progress, best result and remaining time.

    With --json also the last step and every validation.

    Examples:
      mbc runs show first
      mbc runs show first --json | jq .latest.loss
    """
    from mbc_cli.runs import open_run

    run = open_run(name, runs)
    if json:
        print_json(_details(run))
    else:
        print_facts(_facts(run))


def _facts(run: "FollowedRun") -> list[tuple[str, str]]:
    from mbc_cli.runs import base_of, command_of
    from mbc_engine.runs.training_runs import MODEL

    history, command = run.history, command_of(run.folder)
    unread = f", {history.cached.done:,} of {history.cached.total:,} texts read" if history.cached else ""
    return [
        ("run", run.folder.name),
        ("folder", str(run.folder)),
        ("state", f"{_state(run)}{_way_to_continue(run)}"),
        ("base", base_of(run.folder) or "unknown"),
        *([("data", ", ".join(command.data))] if command else []),
        ("steps", _steps(history) or f"none yet{unread}"),
        *_step_facts(history),
        *([("best", _validation(history.best))] if history.best else []),
        *([("latest", _validation(history.validations[-1]))] if history.validations else []),
        *([("snapshot", f"of step {history.checkpoints[-1]:,}")] if history.checkpoints else []),
        *([("model", str(run.folder / MODEL))] if (run.folder / MODEL).is_dir() else []),
        ("changed", _moment(history.last_time)),
    ]


def _step_facts(history: "RunHistory") -> list[tuple[str, str]]:
    latest, left = history.latest, history.seconds_left
    if latest is None:
        return []
    route = "" if latest.route_accuracy is None else f", source {latest.route_accuracy:.0%}"
    use = f"perplexity {latest.perplexity:.4g}, {latest.dead_codes:,} dead, {history.codes_reset:,} reset"
    if latest.perplexity <= 1:  # as long as nothing is used; 0 in a model that makes none
        use = "none yet" if latest.perplexity else "none"
    codes = f"since step {history.quantised.step:,}, {use}" if history.quantised else use
    pace = f"{history.throughput or 0:.0f} questions/s" + (f", {seconds(left)} left" if left else "")
    return [("epoch", f"{latest.epoch + 1:,}"), ("loss", f"{latest.loss:.4g}{route}"), ("codes", codes), ("pace", pace)]


def _details(run: "FollowedRun") -> dict[str, Any]:
    """What `mbc runs show --json` prints; times in seconds."""
    from mbc_cli.runs import base_of, command_of
    from mbc_engine.runs.training_runs import MODEL

    history, command = run.history, command_of(run.folder)
    return {
        **_summary(run),
        "base": base_of(run.folder),
        "command": asdict(command) if command else None,
        "latest": asdict(history.latest) if history.latest else None,
        "validations": [asdict(validation) for validation in history.validations],
        "quantised": history.quantised.step if history.quantised else None,
        "codes_reset": history.codes_reset,
        "snapshot": history.checkpoints[-1] if history.checkpoints else None,
        "questions_per_second": history.throughput,
        "seconds_left": history.seconds_left,
        "model": str(run.folder / MODEL) if (run.folder / MODEL).is_dir() else None,
    }


def _summary(run: "FollowedRun") -> dict[str, Any]:
    history = run.history
    return {
        "run": run.folder.name,
        "path": str(run.folder),
        "state": run.state,
        "request": _pending(run),
        "step": history.step,
        "total_steps": history.total_steps,
        "best": asdict(history.best) if history.best else None,
        "changed": history.last_time,
    }


def _pending(run: "FollowedRun") -> str | None:
    """What is asked of the training at work and has not come about."""
    from mbc_engine.runs.training_runs import request_in

    request, state = request_in(run.folder), run.state
    if request == "pause" and state == "paused":
        return None
    return request if state in ("preparing", "training", "paused") else None


def _state(run: "FollowedRun") -> str:
    request = _pending(run)
    return f"{run.state}, {_REQUESTED[request]}" if request else run.state


def _way_to_continue(run: "FollowedRun") -> str:
    from mbc_cli.runs import name_of

    name = shlex.quote(name_of(run.folder))
    if run.state == "paused":
        return f"; continue with: mbc runs resume {name}"
    return f"; continue with: mbc train --resume --run {name}" if run.state in ("stopped", "interrupted") else ""


def _steps(history: "RunHistory") -> str:
    return f"{history.step:,} of {history.total_steps:,}" if history.total_steps else ""


def _validation(validation: "Validated") -> str:
    return (
        f"F1 {validation.f1:.1f} %, exact match {validation.exact_match:.1f} % at step {validation.step:,} "
        f"({counted(validation.questions, 'question')})"
    )


def _moment(stamp: float | None) -> str:
    return "" if stamp is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))
