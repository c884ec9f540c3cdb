"""`mbc train`, `mbc runs` and `mbc calibrate`: train a model from questions; show, stop and continue its training.

In help texts, `[b]train[/b]` keeps Rich from rendering `:train:` as an emoji.
"""

import json as json_format
import shlex
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from mbc_cli.command_line import interrupt_message, is_from_command_line, stop_on_interrupt, stopped
from mbc_cli.commands.models import show_presets
from mbc_cli.formatting import display_path, format_duration, format_moment, pluralise, sanitise
from mbc_cli.loading import load_model, loading, prepare_torch, read_data, require_device, require_model
from mbc_cli.local_models import RunCommand, command_of, config_of, existing_run, name_of, new_run, read_run, run_facts
from mbc_cli.options import (
    DeviceOption,
    JsonOption,
    ModelOption,
    RunsOption,
    ThreadsOption,
    argument,
    complete_models,
    complete_presets,
    complete_runs,
    option,
)
from mbc_cli.paths import resolve_name, states_cache
from mbc_cli.render.terminal import ProgressView, notes, out, print_facts, print_json, print_json_lines, print_table
from mbc_engine import events
from mbc_engine.datasets.by_name import absolute, own_validation
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import ConfigError
from mbc_engine.machine import is_launched, is_main_process
from mbc_engine.names import CONFIG, find_model, from_anywhere
from mbc_engine.runs import MODEL, training_runs

if TYPE_CHECKING:
    from mbc_engine.config import Config
    from mbc_engine.paper.model import MBC

_HELD_OUT = 0.05  # share of the documents, if no validation data is named
_DATA = "Training data: a .jsonl, .csv or .json file, or squad:[b]train[/b]; can be repeated."
_HELD_OUT_DATA = "squad:validation for squad:train, else the last 5% of the documents"
_BASE = "The base LM: a hub id, or the folder of a model."
_CHANGE = "Change a setting: training.epochs=3; can be repeated."
_PRESET = "A built-in preset, or a TOML file."
_NUMBERED = "the preset's name and a number"
_TRACK = "Log metrics to tensorboard, wandb, ...; can be repeated."
RunArgument = Annotated[str, argument("NAME", "A run's name, or its folder.", complete_runs)]
_VALIDATION = "Validation data, in the same form."
_HELD_OUT_SPEC = "Questions the model was not trained on: a file, or squad:validation."
_CALIBRATED_ON = "Maximum number of questions, evenly spaced."


def train(
    ctx: typer.Context,
    *,
    preset: Annotated[str | None, option(_PRESET, metavar="NAME|FILE", completion=complete_presets)] = None,
    data: Annotated[list[str] | None, option(_DATA, metavar="SPEC")] = None,
    validation: Annotated[str | None, option(_VALIDATION, metavar="SPEC", show_default=_HELD_OUT_DATA)] = None,
    run: Annotated[
        str | None, option("The run's folder.", metavar="NAME|PATH", show_default=_NUMBERED, completion=complete_runs)
    ] = None,
    resume: Annotated[bool, option("Continue --run where it stopped.", "--resume")] = False,
    base: Annotated[str | None, option(_BASE, metavar="MODEL", show_default="the preset's")] = None,
    settings: Annotated[list[str] | None, option(_CHANGE, "--set", metavar="KEY=VALUE")] = None,
    start: Annotated[
        str | None,
        option("Start from the weights of this model.", "--from", metavar="MODEL", completion=complete_models),
    ] = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    track: Annotated[list[str] | None, option(_TRACK, metavar="TRACKER")] = None,
    runs: RunsOption,
    list_presets: Annotated[bool, option("List the built-in presets.", "--list-presets")] = False,
    json: JsonOption = False,
) -> None:
    """Train a model. Ctrl-C stops after the current step; --resume continues from there.

    With --json, each event is one line of JSON on stdout.

    Examples:
      mbc train --list-presets
      mbc train --preset smollm2-135m --data train.jsonl --run first
      mbc train --resume --run first
      mbc train --preset distilgpt2 --data train.jsonl --set training.epochs=3
      mbc train --preset distilgpt2 --base Qwen/Qwen3-0.6B --data train.jsonl
    """
    if list_presets:
        show_presets(as_json=json)
        return
    if resume:
        fixed = ("preset", "data", "validation", "base", "settings", "start")
        if any(run and is_from_command_line(ctx, name) for name in fixed):
            hint = f"Run just: mbc train --resume --run {run}"
            raise ConfigError("A resumed run keeps its preset, settings and data.", hint=hint)
        if not run:
            raise ConfigError("Resume which run?", hint="Give --run a run's name or folder.")
        _resume(ctx, resolve_name(run, runs), device, threads, track, as_json=json)
        return
    if preset is None or not data:
        missing = [name for name, given in (("--preset", preset), ("--data", data)) if not given]
        raise ConfigError(
            f"A new training needs {' and '.join(missing)}.",
            hint="For example: mbc train --preset smollm2-135m --data train.jsonl; "
            "`mbc train --list-presets` lists the presets.",
        )
    if run is None and is_launched():
        raise ConfigError("Processes that train together need a common run.", hint="Give --run a name.")
    from mbc_engine.config import load_preset

    if base is not None:  # a string in JSON is one in TOML
        settings = [*(settings or []), f"model.base={json_format.dumps(base, ensure_ascii=False)}"]
    config = load_preset(preset, settings)
    folder, data = resolve_name(run, runs) if run else new_run(preset, runs), list(map(absolute, data))
    validation = absolute(validation) if validation else own_validation(data)
    start = start and from_anywhere(start)
    command = RunCommand(data, validation, start, device, track or [])
    try:
        _train(folder, config, command, threads, resume=False, as_json=json)
    finally:
        with suppress(OSError):
            folder.rmdir()  # if it is empty, since training failed before its first step


def _resume(
    ctx: typer.Context, run: Path, device: str | None, threads: int | None, track: list[str] | None, *, as_json: bool
) -> None:
    """Continue the training run in a folder, where not typed otherwise with the device and trackers it had."""
    before = RunCommand.load(run)
    device = device if is_from_command_line(ctx, "device") else before.device
    command = replace(before, device=device, track=track or before.track)
    _train(run, config_of(run), command, threads, resume=True, as_json=as_json)


def _train(
    run: Path, config: "Config", command: RunCommand, threads: int | None, *, resume: bool, as_json: bool
) -> None:
    is_main = is_main_process()
    notes.quiet = notes.quiet or not is_main
    require_device(command.device)
    start = find_model(command.start) if command.start else None
    examples = read_data(command.data)
    if command.validation is not None:
        validation = read_data([command.validation])
    else:
        examples, validation = hold_out(examples, _HELD_OUT)
    with loading("torch"):
        from mbc_engine.config import read_paper_config
        from mbc_engine.training.trainer import require_trackers, train

        require_trackers(command.track)
        if start is not None:
            read_paper_config(start / CONFIG)  # fails early for a model of another kind
        device = prepare_torch(command.device, threads)
    where: dict[str, Any] = {"cache": states_cache(), "device": device, "trackers": command.track}
    where["command"] = "" if resume else replace(command, device=device).to_json()
    train_here = partial(train, config, examples, validation, run, resume=resume, start=start, **where)
    if not is_main:
        with stop_on_interrupt() as stop:
            for _ in train_here(stop=stop):
                pass
        return
    view = TrainProgress(run, as_json=as_json)
    hint = f"Continue with: mbc train --resume --run {shlex.quote(sanitise(name_of(run)))}"
    again = "" if is_launched() else "; Ctrl-C again ends at once and loses the steps since the last snapshot"
    with interrupt_message(hint), view, stop_on_interrupt(view, f"Stopping after this step{again}.") as stop:
        for event in train_here(stop=stop):
            view.show(event)
    if (end := view.end) is None:
        raise stopped(view, hint)
    if not as_json:
        notes.print(f"Trained {pluralise(end.step, 'step')} in {format_duration(end.seconds)}. The model:")
        out.print(sanitise(end.model))
        model = shlex.quote(sanitise(end.model))
        notes.print(f"Use it with: mbc ingest FOLDER --model {model} --bank my.mbc")
        notes.print(f'             mbc ask "..." --model {model} --bank my.mbc')


class TrainProgress(ProgressView):
    """Shows a training run's events; with `as_json`, prints each as a line on stdout and draws nothing."""

    def __init__(self, run: Path, *, as_json: bool = False) -> None:
        super().__init__()
        self._run, self._as_json, self._total = run, as_json, 0
        self.end: events.TrainFinished | None = None

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.TrainFinished):
            self.end = event
        if self._as_json:
            print(json_format.dumps(event.to_json()), flush=True)
        else:
            self.draw(event)

    def draw(self, event: events.Event) -> None:
        match event:
            case events.Progressed():
                self.bar("Reading texts", event.total, completed=event.done)
                if not self.is_live and event.done == event.total:
                    self.line(f"Read {pluralise(event.done, 'text')} once for all epochs.")
            case events.TrainStarted():
                self._total = event.total_steps
                self.remove_bar("Reading texts")
                self.bar("Training", event.total_steps, completed=event.step)
                counts = f"{pluralise(event.examples, 'question')} about {pluralise(event.documents, 'document')}"
                trained = f"{event.trainable_parameters / 1e6:.3g} M trainable parameters"
                before = f"continuing after step {event.step:,} of " if event.step else ""
                self.line(f"{sanitise(self._run)}: {counts}, {trained}, {before}{pluralise(event.total_steps, 'step')}")
            case events.TrainStep():
                route = "" if event.route_accuracy is None else f" · source {event.route_accuracy:.0%}"
                note = f"loss {event.loss:.3f}{route} · {event.examples_per_second:.0f} questions/s"
                self.bar("Training", self._total, completed=event.step, note=note)
            case events.QuantisationStarted():
                self.line(f"step {event.step:,}: documents are quantised to codes from here on")
            case events.Validated():
                self._draw_validation(event)

    def _draw_validation(self, event: events.Validated) -> None:
        source = "" if event.first_source is None else f" · source first {event.first_source:.1f} %"
        self.line(
            f"step {event.step:,}, epoch {event.epoch + 1}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %"
            f"{source} ({pluralise(event.questions, 'question')}, {pluralise(event.documents, 'document')})"
            + (" · best so far" if event.is_best else "")
            + ("; too few to tell which model is best" if event.questions < events.FEW_QUESTIONS else ""),
            "bold" if event.is_best else "",
        )


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
    _resume(ctx, existing_run(name, runs), device, threads, None, as_json=json)


def list_runs(*, runs: RunsOption, json: JsonOption = False) -> None:
    """List training runs, latest first; tab-separated in a pipe.

    Shows each run's state, steps, the best model's F1 in percent and when it last changed. With --json, each run is
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
            steps = f"{history.step:,} of {history.total_steps:,}" if history.total_steps else ""
            rows.append((run.folder.name, _state(run), steps, best, format_moment(history.last_time)))
        print_table(("run", "state", "steps", "F1 %", "changed"), rows, right=("steps", "F1 %"))


def show(name: RunArgument, *, runs: RunsOption, json: JsonOption = False) -> None:
    """Show a training run's settings, progress, best result and remaining time.

    With --json, also the last step and every validation.

    Examples:
      mbc runs show first
      mbc runs show first --json | jq .latest.loss
    """
    run = read_run(existing_run(name, runs))
    base, model, history = None, run.folder / MODEL if (run.folder / MODEL).is_dir() else None, run.history
    with suppress(ConfigError):
        base = config_of(run.folder).model.base
    if not json:
        _print_facts(run, base, model)
        return
    print_json(
        {
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
    )


def _print_facts(run: training_runs.FollowedRun, base: str | None, model: Path | None) -> None:
    command, latest, name = command_of(run.folder), run.history.latest, shlex.quote(name_of(run.folder))
    way = f"; continue with: mbc runs resume {name}" if run.state in ("stopped", "interrupted") else ""
    source = f", source {latest.route_accuracy:.0%}" if latest and latest.route_accuracy is not None else ""
    print_facts(
        ("run", run.folder.name),
        ("folder", run.folder),
        ("state", f"{_state(run)}{way}"),
        ("base", base or "unknown"),
        ("data", command and ", ".join(command.data)),
        *run_facts(run),
        ("loss", latest and f"{latest.loss:.4g}{source}"),
        ("perplexity", latest and f"{latest.perplexity:.4g}, {latest.dead_codes:,} codes dead"),
        ("model", model),
        ("changed", format_moment(run.history.last_time)),
    )


def _summary(run: training_runs.FollowedRun) -> dict[str, Any]:
    history = run.history
    return {
        "run": run.folder.name,
        "path": run.folder,
        "state": run.state,
        "request": "stop" if run.is_stopping else None,
        "step": history.step,
        "total_steps": history.total_steps,
        "best": history.best,
        "changed": history.last_time,
    }


def _state(run: training_runs.FollowedRun) -> str:
    return f"{run.state}, to be stopped" if run.is_stopping else run.state


def calibrate(
    *,
    model: ModelOption,
    data: Annotated[str, option(_HELD_OUT_SPEC, metavar="SPEC")],
    bank_size: Annotated[int, option("Documents in each bank.", min=1)] = 64,
    questions: Annotated[int | None, option(_CALIBRATED_ON, min=1, show_default="all")] = None,
    dry_run: Annotated[bool, option("Measure only; do not change the model.", "--dry-run")] = False,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Set the confidence below which a model that you trained gives no answer, from held-out questions; changes its config.

    For trained models; mini is already calibrated. Each question is asked of a bank with its document and
    of one without; what the bank adds to the answer's likelihood is used to tell the two apart. The model's banks and
    codes stay valid. Ctrl-C changes nothing.

    Examples:
      mbc calibrate --model runs/mine --data questions.jsonl
      mbc calibrate --model runs/mine --data test.jsonl --bank-size 16 --dry-run
    """
    from mbc_engine.config import read_model_config

    require_model(model, device)
    folder = find_model(model)
    if read_model_config(folder / CONFIG).reads_text:
        hint = "Name one with --model. How mini was calibrated is in recipes/mini of the source code."
        raise ConfigError(f"The model {model} is already calibrated; `mbc calibrate` is for trained models.", hint=hint)
    examples = read_data([data])
    with loading(f"model {model}"):
        from mbc_engine.paper.calibration import calibrate as measure
        from mbc_engine.paper.calibration import deal, require_writable, store

    deal(examples, bank_size, questions)  # an error comes before the model is loaded
    if not dry_run:
        require_writable(folder)
    loaded = cast("MBC", load_model(model, device))
    with interrupt_message("The model was not changed; --questions asks fewer."), ProgressView() as view:
        for event in measure(loaded, examples, bank_documents=bank_size, questions=questions):
            if isinstance(event, events.Progressed):
                view.bar("Asking", event.total, completed=event.done)
    assert isinstance(event, events.Calibrated)
    if not dry_run:
        store(event, folder)
    if json:
        print_json({"model": model, "data": data, "folder": str(folder), "is_kept": not dry_run, **asdict(event)})
        return
    if not event.slope:
        view.line("The memory does not make right answers more likely, so answers will carry no confidence.", "yellow")
    elif event.auc < 0.5:
        view.line("On the held-out questions, the memory does not make right answers more likely.", "yellow")
    held_out = f"{event.held_out:,} held-out questions, {event.bank_documents:,} documents in the bank"
    print_facts(
        ("with its document", _rates(event.informed_memory, event.informed_unsure, event.informed_model)),
        ("without", _rates(event.uninformed_memory, event.uninformed_unsure, event.uninformed_model)),
        ("AUC", f"{event.auc:.3f} (0.5 is chance), {held_out}"),
        ("saved in", "nothing (--dry-run)" if dry_run else display_path(folder / CONFIG)),
    )


def _rates(memory: float, unsure: float, model: float) -> str:
    return f"{memory:.1f} % from memory, {unsure:.1f} % unsure, {model:.1f} % from the model alone"
