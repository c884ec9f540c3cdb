"""`mbc runs`: list and show training runs, stop an active one, resume another."""

import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from mbc_cli.commands.train import resume_run
from mbc_cli.models import command_of, config_of, existing_run, name_of, read_run, run_facts
from mbc_cli.options import DeviceOption, JsonOption, RunsOption, ThreadsOption, complete_runs
from mbc_cli.program import is_from_command_line
from mbc_cli.render.terminal import notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_cli.text import sanitise
from mbc_engine.errors import ConfigError
from mbc_engine.runs import MODEL, training_runs

RunArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A run's name, or its folder.", autocompletion=complete_runs)
]


def stop(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Stop a training run after the current step and save a snapshot, as Ctrl-C does.

    Examples:
      mbc runs stop first
    """
    folder = existing_run(name, runs)
    quoted = shlex.quote(sanitise(name_of(folder)))
    if not training_runs.is_running(folder):
        state = read_run(folder, has_curves=False).state
        if state == "finished":
            raise ConfigError(f"The run {name} has finished.", hint=f"`mbc runs show {quoted}` shows how it went.")
        raise ConfigError(f"The run {name} was {state}.", hint=f"Continue with: mbc runs resume {quoted}")
    try:
        training_runs.request_stop(folder)
    except OSError as error:
        hint = "Run this command as the user who started the training."
        raise ConfigError(f"{folder} cannot be written: {error.strerror}.", hint=hint) from error
    if json:
        print_json({"run": folder.name, "path": folder, "request": "stop"})
    else:
        out.print(f"{quoted} will stop after the current step. Continue with: mbc runs resume {quoted}")


def resume(
    ctx: typer.Context,
    name: RunArgument,
    *,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    runs: RunsOption,
    json: JsonOption = False,
) -> None:
    """Continue a stopped or interrupted training run, as `mbc train --resume` does.

    Examples:
      mbc runs resume first
    """
    device = device if is_from_command_line(ctx, "device") else None
    resume_run(existing_run(name, runs), device, threads, None, json=json)


def list_runs(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List training runs, latest first; tab-separated in a pipe.

    Shows each run's state, steps, the best model's F1 in percent and when it last changed. With --json each run is
    one line of JSON.

    Examples:
      mbc runs list
      mbc runs list --json | jq -r 'select(.state == "training").run'
    """
    trainings = [read_run(folder, has_curves=False) for folder in training_runs.runs_in(runs.absolute())]
    if json:
        print_json_lines(map(_summary, trainings))
    elif not trainings:
        notes.print("There are no runs yet. Start one with: mbc train --preset NAME --data SPEC")
    else:
        rows = []
        for run in trainings:
            history = run.history
            best = history.best.f1_text if history.best else ""
            rows.append((run.folder.name, _state(run), _steps(history), best, _moment(history.last_time)))
        print_table(("run", "state", "steps", "F1 %", "changed"), rows, right=("steps", "F1 %"))


def show(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Show a training run's settings, progress, best result and remaining time.

    With --json also the last step and every validation.

    Examples:
      mbc runs show first
      mbc runs show first --json | jq .latest.loss
    """
    run = read_run(existing_run(name, runs))
    base, model = None, run.folder / MODEL
    with suppress(ConfigError):
        base = config_of(run.folder).model.base
    if json:
        print_json(_details(run, base, model if model.is_dir() else None))
    else:
        print_facts(_facts(run, base, model if model.is_dir() else None))


def _facts(run: training_runs.FollowedRun, base: str | None, model: Path | None) -> list[tuple[str, str]]:
    command, latest, name = command_of(run.folder), run.history.latest, shlex.quote(name_of(run.folder))
    way = f"; continue with: mbc runs resume {name}" if run.state in ("stopped", "interrupted") else ""
    source = f", source {latest.route_accuracy:.0%}" if latest and latest.route_accuracy is not None else ""
    return [
        ("run", run.folder.name),
        ("folder", str(run.folder)),
        ("state", f"{_state(run)}{way}"),
        ("base", base or "unknown"),
        *([("data", ", ".join(command.data))] if command else []),
        *run_facts(run),
        *([("loss", f"{latest.loss:.4g}{source}")] if latest else []),
        *([("perplexity", f"{latest.perplexity:.4g}, {latest.dead_codes:,} codes dead")] if latest else []),
        *([("model", str(model))] if model else []),
        ("changed", _moment(run.history.last_time)),
    ]


def _details(run: training_runs.FollowedRun, base: str | None, model: Path | None) -> dict[str, Any]:
    """What `mbc runs show --json` prints; times in seconds."""
    history = run.history
    return {
        **_summary(run),
        "base": base,
        "command": command_of(run.folder),
        "latest": history.latest,
        "validations": history.validations,
        "quantised": history.quantised.step if history.quantised else None,
        "codes_reset": history.codes_reset,
        "snapshot": history.checkpoints[-1] if history.checkpoints else None,
        "questions_per_second": history.throughput,
        "seconds_left": history.seconds_left,
        "model": model,
    }


def _summary(run: training_runs.FollowedRun) -> dict[str, Any]:
    history = run.history
    return {
        "run": run.folder.name,
        "path": run.folder,
        "state": run.state,
        "request": "stop" if _is_stopping(run) else None,
        "step": history.step,
        "total_steps": history.total_steps,
        "best": history.best,
        "changed": history.last_time,
    }


def _is_stopping(run: training_runs.FollowedRun) -> bool:
    return run.state in ("preparing", "training") and training_runs.is_stop_requested(run.folder)


def _state(run: training_runs.FollowedRun) -> str:
    return f"{run.state}, to be stopped" if _is_stopping(run) else run.state


def _steps(history: training_runs.RunHistory) -> str:
    return f"{history.step:,} of {history.total_steps:,}" if history.total_steps else ""


def _moment(stamp: float | None) -> str:
    return "" if stamp is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))
