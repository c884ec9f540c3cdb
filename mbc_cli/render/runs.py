"""Training runs: a line each, one at a glance, and what was asked of one."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mbc_cli.render.terminal import notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_cli.runs import base_of, command_of, name_of
from mbc_cli.text import counted, plain, seconds
from mbc_engine.events import Validated
from mbc_engine.runs.training_runs import MODEL, FollowedRun, Request, RunHistory, RunState, request_in

_ASKED = {Request.PAUSE: "to be paused", Request.STOP: "to be stopped"}


def show_list(runs: Sequence[FollowedRun]) -> None:
    """What `mbc runs list` prints."""
    if not runs:
        notes.print("There are no runs yet. Start one with: mbc train --preset NAME --data SPEC")
        return
    print_table(
        ("run", "state", "steps", "F1 %", "changed"),
        [
            (
                run.folder.name,
                _state(run),
                _steps(run.history),
                f"{run.history.best.f1:.1f}" if run.history.best else "",
                _moment(run.history.last_time),
            )
            for run in runs
        ],
        right=("steps", "F1 %"),
    )


def list_json(runs: Sequence[FollowedRun]) -> None:
    """The same as lines of JSON."""
    print_json_lines(map(_summary, runs))


def show_run(run: FollowedRun) -> None:
    """What `mbc runs show` prints."""
    told, command = run.history, command_of(run.folder)
    base = base_of(run.folder)
    facts = [
        ("run", run.folder.name),
        ("folder", str(run.folder)),
        ("state", f"{_state(run)}{_way_on(run)}"),
        ("base", base or "unknown"),
        *([("data", ", ".join(command.data))] if command else []),
        ("steps", _steps(told) or _texts(told)),
        *_step_facts(told),
        *([("best", _validation(told.best))] if told.best else []),
        *([("latest", _validation(told.validations[-1]))] if told.validations else []),
        *([("snapshot", f"of step {told.checkpoints[-1]:,}")] if told.checkpoints else []),
        *([("model", str(run.folder / MODEL))] if (run.folder / MODEL).is_dir() else []),
        ("changed", _moment(told.last_time)),
    ]
    print_facts(facts)


def run_json(run: FollowedRun) -> dict[str, Any]:
    """The same as JSON; times in seconds."""
    told, command = run.history, command_of(run.folder)
    return {
        **_summary(run),
        "base": base_of(run.folder),
        "command": asdict(command) if command else None,
        "latest": asdict(told.latest) if told.latest else None,
        "validations": [asdict(validation) for validation in told.validations],
        "quantised": told.quantised.step if told.quantised else None,
        "codes_reset": told.codes_reset,
        "snapshot": told.checkpoints[-1] if told.checkpoints else None,
        "questions_per_second": told.throughput,
        "seconds_left": told.seconds_left,
        "model": str(run.folder / MODEL) if (run.folder / MODEL).is_dir() else None,
    }


def show_asked(run: FollowedRun, request: Request | None, *, as_json: bool) -> None:
    """What comes of a request to a training."""
    if as_json:
        print_json({"run": run.folder.name, "path": str(run.folder), "request": request})
        return
    name = shlex.quote(plain(name_of(run.folder)))
    match request:
        case Request.PAUSE:
            out.print(f"{name} pauses after the step in progress. It goes on with: mbc runs resume {name}")
        case Request.STOP:
            out.print(f"{name} stops after the step in progress. It goes on with: mbc train --resume --run {name}")
        case None:
            out.print(f"{name} goes on.")


def _summary(run: FollowedRun) -> dict[str, Any]:
    told = run.history
    return {
        "run": run.folder.name,
        "path": str(run.folder),
        "state": run.state,
        "request": _request(run),
        "step": told.progress.step,
        "total_steps": told.progress.total,
        "best": asdict(told.best) if told.best else None,
        "changed": told.last_time,
    }


def _request(run: FollowedRun) -> Request | None:
    """What is asked of the training at work and has not come about."""
    request, state = request_in(run.folder), run.state
    if request is Request.PAUSE and state is RunState.PAUSED:
        return None
    return request if state in (RunState.PREPARING, RunState.TRAINING, RunState.PAUSED) else None


def _state(run: FollowedRun) -> str:
    request = _request(run)
    return f"{run.state}, {_ASKED[request]}" if request else run.state


def _way_on(run: FollowedRun) -> str:
    name = shlex.quote(name_of(run.folder))
    match run.state:
        case RunState.PAUSED:
            return f"; go on with: mbc runs resume {name}"
        case RunState.STOPPED | RunState.INTERRUPTED:
            return f"; go on with: mbc train --resume --run {name}"
    return ""


def _steps(told: RunHistory) -> str:
    progress = told.progress
    return f"{progress.step:,} of {progress.total:,}" if progress.total else ""


def _texts(told: RunHistory) -> str:
    """How far a training is that has no steps yet."""
    return f"none yet, {told.cached.done:,} of {told.cached.total:,} texts read" if told.cached else "none yet"


def _step_facts(told: RunHistory) -> list[tuple[str, str]]:
    """How the last steps went."""
    latest, left = told.latest, told.seconds_left
    if latest is None:
        return []
    route = "" if latest.route_accuracy is None else f", source {latest.route_accuracy:.0%}"
    use = f"perplexity {latest.perplexity:.4g}, {latest.dead_codes:,} dead, {told.codes_reset:,} reset"
    if latest.perplexity <= 1:  # as long as nothing is used; 0 in a model that makes none
        use = "none yet" if latest.perplexity else "none"
    codes = f"since step {told.quantised.step:,}, {use}" if told.quantised else use
    pace = f"{told.throughput or 0:.0f} questions/s" + (f", {seconds(left)} left" if left else "")
    return [
        ("epoch", f"{latest.epoch + 1:,}"),
        ("loss", f"{latest.loss:.4g}{route}"),
        ("codes", codes),
        ("pace", pace),
    ]


def _validation(validation: Validated) -> str:
    return (
        f"F1 {validation.f1:.1f} %, exact match {validation.exact_match:.1f} % at step {validation.step:,} "
        f"({counted(validation.questions, 'question')})"
    )


def _moment(stamp: float | None) -> str:
    return "" if stamp is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))
