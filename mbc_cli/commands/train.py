"""The options of `mbc train` that no other command has.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `newswire:train:5000`.

`mbc train`: a model from questions about documents.

What `mbc train` is to do: a new training as it was typed, or one that goes on as it was begun.

Doing a training: drawn by the first of the processes that train together, if there are several.
"""

from dataclasses import dataclass, replace
from functools import partial
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from mbc_cli.completion import models, presets, runs
from mbc_cli.engine import loading, prepare_torch, read_data, require_device
from mbc_cli.interrupt import INTERRUPTED, ending_with, stop_on_interrupt
from mbc_cli.options import DeviceOption, JsonOption, RunsOption, ThreadsOption
from mbc_cli.paths import states_cache
from mbc_cli.render.terminal import notes
from mbc_cli.render.training import JsonTrainView, TrainView
from mbc_cli.runs import RunCommand, config_of, find_run, name_of, new_run
from mbc_engine.config import Config, load_preset
from mbc_engine.datasets.by_name import absolute, own_validation
from mbc_engine.datasets.questions import HeldOut, hold_out
from mbc_engine.errors import ConfigError
from mbc_engine.model_folder import find_model
from mbc_engine.training.launch import is_launched, is_main_process

PresetOption = Annotated[
    str | None, typer.Option(metavar="NAME|FILE", autocompletion=presets, help="A built-in preset, or a TOML file.")
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SPEC",
        help="A .jsonl, .csv or .json file, squad:train, or newswire:[b]train[/b]:5000; can be repeated.",
    ),
]
ValidationOption = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        show_default="squad:validation for squad:train, else the last 5% of the documents",
        help="Validate on this.",
    ),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|PATH",
        show_default="the preset's name and a number",
        autocompletion=runs,
        help="The run's folder.",
    ),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue --run where it stopped.")]
BaseOption = Annotated[
    str | None,
    typer.Option(metavar="MODEL", show_default="the preset's", help="The base LM: a hub id, or the folder of a model."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: training.epochs=3; can be repeated."),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="MODEL", autocompletion=models, help="Start from the weights of this model."),
]
CompileOption = Annotated[bool, typer.Option("--compile", help="Compile encoders and aggregator with torch.compile.")]
TrackOption = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="Log metrics to tensorboard, wandb, ...; can be repeated."),
]
ListPresetsOption = Annotated[bool, typer.Option("--list-presets", help="List the built-in presets.")]


def train(
    ctx: typer.Context,
    *,
    preset: PresetOption = None,
    data: DataOption = None,
    validation: ValidationOption = None,
    run: RunOption = None,
    resume: ResumeOption = False,
    base: BaseOption = None,
    settings: SetOption = None,
    start: FromOption = None,
    device: DeviceOption = None,
    threads: ThreadsOption = None,
    compiles: CompileOption = False,
    track: TrackOption = None,
    runs: RunsOption,
    list_presets: ListPresetsOption = False,
    json: JsonOption = False,
) -> None:
    """Train a model. Ctrl-C stops after the current step; --resume continues from there.

    With --json each event is one line of JSON on stdout.

    \b
    Examples:
      mbc train --list-presets
      mbc train --preset mini --data newswire:[b]train[/b]:5000 --run first
      mbc train --resume --run first
      mbc train --preset distilgpt2 --data train.jsonl --set training.epochs=3
      mbc train --preset distilgpt2 --base Qwen/Qwen3-0.6B --data train.jsonl
    """
    if list_presets:
        from mbc_cli.commands.models import show_presets

        show_presets(as_json=json)
        return
    from mbc_cli.program import is_typed
    from mbc_cli.runs import RunCommand

    if resume:
        kept = ("preset", "data", "validation", "base", "settings", "start", "compiles")
        is_changed = any(is_typed(ctx, name) for name in kept)
        job = resumed_job(run, runs, device if is_typed(ctx, "device") else None, track, is_changed=is_changed)
    else:
        typed = RunCommand(data or [], validation, start, device, track or [])
        job = new_job(run, runs, preset, changes_of(settings or [], base, compiles=compiles), typed)
    work(job, threads, as_json=json)


@dataclass(frozen=True)
class Job:
    """Everything a training needs."""

    run: Path
    config: Config
    command: RunCommand
    resume: bool


def new_job(run: str | None, runs: Path, preset: str | None, changes: list[str], typed: RunCommand) -> Job:
    """A training that begins.

    Args:
        run: its name or folder; None for one that is not there yet.
        runs: the folder of runs given by name.
        preset: a preset's name or file.
        changes: of the preset's settings.
        typed: all else, with names as they were typed.

    Raises:
        ConfigError: something is missing, or cannot be used.
        DataError: a dataset is not there.
    """
    if preset is None or not typed.data:
        missing = [told for told, given in (("--preset", preset), ("--data", typed.data)) if not given]
        raise ConfigError(
            f"A new training needs {' and '.join(missing)}.",
            hint="For example: mbc train --preset mini --data newswire:train:5000; "
            "`mbc train --list-presets` lists the presets.",
        )
    if run is None and is_launched():
        raise ConfigError("Processes that train together need a common run.", hint="Give --run a name.")
    config = load_preset(preset, changes)
    folder = find_run(run, runs) if run else new_run(preset, runs)
    sources, start = [absolute(spec) for spec in typed.data], typed.start
    command = replace(
        typed,
        data=sources,
        validation=absolute(typed.validation) if typed.validation else own_validation(sources),
        start=str(Path(start).absolute()) if start and Path(start).exists() else start,
    )
    return Job(folder, config, command, resume=False)


def changes_of(settings: list[str], base: str | None, *, compiles: bool) -> list[str]:
    """Changes of a preset's settings as they were typed, with those for which there are options of their own."""
    changes = list(settings)
    if base is not None:
        place = str(Path(base).absolute()) if Path(base).is_dir() else base  # the same from every working folder
        changes.append(f"model.base={dumps(place, ensure_ascii=False)}")  # a string in JSON is one in TOML
    if compiles:
        changes.append("training.compile=true")
    return changes


def resumed_job(run: str | None, runs: Path, device: str | None, track: list[str] | None, *, is_changed: bool) -> Job:
    """A training that goes on.

    Args:
        run: its name or folder.
        runs: the folder of runs given by name.
        device, track: instead of those that it was begun with; None for these.
        is_changed: whether anything was typed that cannot be changed any more.

    Raises:
        ConfigError: there is no such run, or it was asked to change.
    """
    if not run:
        raise ConfigError("Resume which run?", hint="Give --run a run's name or folder.")
    if is_changed:
        raise ConfigError(
            "A resumed run keeps its preset, settings and data.", hint=f"Only: mbc train --resume --run {run}"
        )
    folder = find_run(run, runs)
    command = RunCommand.load(folder)
    if device:
        command = replace(command, device=device)
    if track:
        command = replace(command, track=track)
    return Job(folder, config_of(folder), command, resume=True)


_HELD_OUT = 0.05  # of the documents, where none to validate on are named


def work(job: "Job", threads: int | None, *, as_json: bool) -> None:
    """Train, and show how it goes; Ctrl-C stops it after the step in progress.

    Args:
        job: what is to be done.
        threads: of torch; None for the default.
        as_json: each event as a line of JSON.

    Raises:
        MBCError: it cannot be done.
        typer.Exit: it was stopped.
    """
    is_main = is_main_process()
    notes.quiet = notes.quiet or not is_main
    require_device(job.command.device)
    start = find_model(job.command.start) if job.command.start else None
    examples = _examples(job.command)
    with loading("torch"):
        from mbc_engine.training.run_files import require_start
        from mbc_engine.training.tracking import require_trackers
        from mbc_engine.training.trainer import train

        require_trackers(job.command.track)
        if start is not None:
            require_start(start)
        device = prepare_torch(job.command.device, threads)
    command = replace(job.command, device=device)
    train_here = partial(
        train,
        job.config,
        examples.training,
        examples.validation,
        job.run,
        cache=states_cache(),
        resume=job.resume,
        start=start,
        device=device,
        trackers=command.track,
    )
    if not is_main:
        with stop_on_interrupt(lambda: None) as stop:
            for _ in train_here(stop=stop):
                pass
        return
    command.save(job.run)
    view = (JsonTrainView if as_json else TrainView)(job.run, name_of(job.run))
    with ending_with(view.way_on), view, stop_on_interrupt(view.stopping) as stop:
        for event in train_here(stop=stop):
            view.show(event)
    if not view.is_finished:
        view.stopped()
        raise typer.Exit(INTERRUPTED)
    view.finished()


def _examples(command: "RunCommand") -> HeldOut:
    """The questions to train and to validate on."""
    examples = read_data(command.data)
    if command.validation is None:
        return hold_out(examples, _HELD_OUT)
    return HeldOut(examples, read_data([command.validation]))
