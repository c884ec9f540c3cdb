"""`mbc train`: train a model from questions about documents, or continue a training run.

In help texts, `[b]train[/b]` keeps Rich from rendering `:train:` as an emoji.
"""

import json as json_format
import os
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbc_cli.commands.models import show_presets
from mbc_cli.config import resolve_name, states_cache
from mbc_cli.engine import loading, prepare_torch, read_data, require_device
from mbc_cli.models import RunCommand, config_of, name_of, new_run
from mbc_cli.options import (
    DeviceOption,
    JsonOption,
    RunsOption,
    ThreadsOption,
    complete_models,
    complete_presets,
    complete_runs,
    option,
)
from mbc_cli.program import INTERRUPTED, interrupt_message, is_from_command_line, stop_on_interrupt
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import notes, out
from mbc_cli.text import format_duration, pluralise, sanitise
from mbc_engine import events
from mbc_engine.datasets.by_name import absolute, own_validation
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import ConfigError
from mbc_engine.machine import is_launched, is_main_process
from mbc_engine.names import CONFIG, find_model

if TYPE_CHECKING:
    from mbc_engine.config import Config

_HELD_OUT = 0.05  # share of the documents, if no validation data is named

_DATA = "Training data: a .jsonl, .csv or .json file, or squad:[b]train[/b]; can be repeated."
_HELD_OUT_DATA = "squad:validation for squad:train, else the last 5% of the documents"
_BASE = "The base LM: a hub id, or the folder of a model."
_CHANGE = "Change a setting: training.epochs=3; can be repeated."
_PRESET = "A built-in preset, or a TOML file."
_NUMBERED = "the preset's name and a number"
_TRACK = "Log metrics to tensorboard, wandb, ...; can be repeated."


def train(
    ctx: typer.Context,
    *,
    preset: Annotated[str | None, option(_PRESET, metavar="NAME|FILE", completion=complete_presets)] = None,
    data: Annotated[list[str] | None, option(_DATA, metavar="SPEC")] = None,
    validation: Annotated[
        str | None, option("Validation data, in the same form.", metavar="SPEC", show_default=_HELD_OUT_DATA)
    ] = None,
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

    With --json each event is one line of JSON on stdout.

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
            raise ConfigError(
                "A resumed run keeps its preset, settings and data.", hint=f"Run just: mbc train --resume --run {run}"
            )
        if not run:
            raise ConfigError("Resume which run?", hint="Give --run a run's name or folder.")
        resume_run(
            resolve_name(run, runs), device if is_from_command_line(ctx, "device") else None, threads, track, json=json
        )
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

    config = load_preset(preset, _changes(settings or [], base))
    folder, data = resolve_name(run, runs) if run else new_run(preset, runs), list(map(absolute, data))
    validation = absolute(validation) if validation else own_validation(data)
    start = str(Path(start).absolute()) if start and os.path.exists(start) else start
    command = RunCommand(data, validation, start, device, track or [])
    _train(folder, config, command, threads, resume=False, as_json=json)


def resume_run(run: Path, device: str | None, threads: int | None, track: list[str] | None, *, json: bool) -> None:
    """Continue the training run in a folder, where not said otherwise with the device and trackers it had."""
    before = RunCommand.load(run)
    command = replace(before, device=device or before.device, track=track or before.track)
    _train(run, config_of(run), command, threads, resume=True, as_json=json)


def _changes(settings: list[str], base: str | None) -> list[str]:
    if base is None:
        return settings
    name = str(Path(base).absolute()) if os.path.isdir(base) else base  # the same from any working folder
    return [*settings, f"model.base={json_format.dumps(name, ensure_ascii=False)}"]  # a string in JSON is one in TOML


def _train(
    run: Path, config: "Config", command: RunCommand, threads: int | None, *, resume: bool, as_json: bool
) -> None:
    is_main = is_main_process()
    notes.quiet = notes.quiet or not is_main
    require_device(command.device)
    start = find_model(command.start) if command.start else None
    examples, validation = read_data(command.data), None
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
    train_here = partial(train, config, examples, validation, run, resume=resume, start=start, **where)
    if not is_main:
        with stop_on_interrupt(lambda: None) as stop:
            for _ in train_here(stop=stop):
                pass
        return
    replace(command, device=device).save(run)
    view = TrainProgress(run, name_of(run), as_json=as_json)
    with interrupt_message(view.resume_hint), view, stop_on_interrupt(view.announce_stopping) as stop:
        for event in train_here(stop=stop):
            view.show(event)
    if view.end is None:
        view.announce(f"Stopped. {view.resume_hint}")
        raise typer.Exit(INTERRUPTED)
    if not as_json:
        _show_end(view.end)


def _show_end(end: events.TrainFinished) -> None:
    notes.print(f"Trained {end.step:,} steps in {format_duration(end.seconds)}. The model:")
    out.print(sanitise(end.model))
    model = shlex.quote(sanitise(end.model))
    notes.print(f"Use it with: mbc ingest FOLDER --model {model} --bank my.mbc")
    notes.print(f'             mbc ask "..." --model {model} --bank my.mbc')


class TrainProgress(ProgressView):
    """Shows a training run's events; with `as_json`, prints each as a line on stdout and draws nothing."""

    def __init__(self, run: Path, name: str, *, as_json: bool = False) -> None:
        super().__init__()
        self._run, self._name, self._as_json = run, name, as_json
        self._total = 0
        self.end: events.TrainFinished | None = None

    def show(self, event: events.Event) -> None:
        if isinstance(event, events.TrainFinished):
            self.end = event
        if self._as_json:
            print(json_format.dumps(event.to_json()), flush=True)
        else:
            self._draw(event)

    def _draw(self, event: events.Event) -> None:
        match event:
            case events.Progressed():
                self.bar("Reading texts", event.total, completed=event.done)
                if not self.is_live and event.done == event.total:
                    self.line(f"Read {pluralise(event.done, 'text')} once for all epochs.")
            case events.TrainStarted():
                self._total = event.total_steps
                self.remove_bar("Reading texts")
                self.bar("Training", event.total_steps, completed=event.step)
                self.line(
                    f"{sanitise(self._run)}: {pluralise(event.examples, 'question')} about "
                    f"{pluralise(event.documents, 'document')}, {event.trainable_parameters / 1e6:.3g} M trainable "
                    f"parameters, {f'continuing after step {event.step:,} of ' if event.step else ''}"
                    f"{event.total_steps:,} steps"
                )
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

    def announce_stopping(self) -> None:
        again = "" if is_launched() else "; Ctrl-C again ends at once and loses the steps since the last snapshot"
        self.announce(f"Stopping after this step{again}.")

    @property
    def resume_hint(self) -> str:
        return f"Continue with: mbc train --resume --run {shlex.quote(sanitise(self._name))}"
