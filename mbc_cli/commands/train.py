"""`mbc train`: a model from questions about documents.

In help texts `[b]train[/b]` keeps Rich from reading a tram out of `newswire:train:5000`.
"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbc_cli.completion import models, presets
from mbc_cli.completion import runs as known_runs
from mbc_cli.options import DeviceOption, JsonOption, RunsOption
from mbc_engine.launch import is_launched, is_main_process

if TYPE_CHECKING:
    from mbc_cli.runs import RunCommand
    from mbc_engine.config import Config


def train(
    ctx: typer.Context,
    *,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", autocompletion=presets, help="A built-in preset, or a TOML file."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="A .jsonl, .csv or .json file, squad:train, or newswire:[b]train[/b]:5000; may be given again.",
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            show_default="squad:validation for squad:train, else the last 5% of the documents",
            help="Validate on this.",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|PATH",
            show_default="the preset's name and a number",
            autocompletion=known_runs,
            help="The run's folder.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with --run where it was stopped.")] = False,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", show_default="the preset's", help="The base LM: a hub id, or the folder of a model."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: training.epochs=3; may be given again."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="MODEL", autocompletion=models, help="Start from the weights of this model."),
    ] = None,
    device: DeviceOption = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads to use.")] = None,
    compiles: Annotated[
        bool, typer.Option("--compile", help="Compile encoders and aggregator with torch.compile.")
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(metavar="TRACKER", help="Hand figures on to tensorboard, wandb, ...; may be given again."),
    ] = None,
    runs: RunsOption,
    list_presets: Annotated[bool, typer.Option("--list-presets", help="List the built-in presets.")] = False,
    json: JsonOption = False,
) -> None:
    """Train a model. Ctrl-C stops after the step in progress; --resume goes on from there.

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
        from mbc_cli.render.presets import show_presets

        show_presets(as_json=json)
        return
    if resume:
        from mbc_cli.program import is_typed

        kept = ("preset", "data", "validation", "base", "settings", "start", "compiles")
        is_changed = any(is_typed(ctx, name) for name in kept)
        job = _resumed(run, runs, device if is_typed(ctx, "device") else None, track, is_changed=is_changed)
    else:
        changes = [*_with_base(settings, base), *(["training.compile=true"] if compiles else [])]
        job = _new(run, runs, preset, data, validation, changes, start, device, track)
    _work(job, threads, json)


@dataclass(frozen=True)
class _Job:
    """Everything a training needs."""

    run: Path
    config: "Config"
    command: "RunCommand"
    resume: bool


def _new(
    run: str | None,
    runs: Path,
    preset: str | None,
    data: list[str] | None,
    validation: str | None,
    settings: list[str] | None,
    start: str | None,
    device: str | None,
    track: list[str] | None,
) -> _Job:
    from mbc_cli.runs import RunCommand, find_run, new_run
    from mbc_engine.config import load_preset
    from mbc_engine.datasets.files import absolute, own_validation
    from mbc_engine.errors import ConfigError

    if preset is None or not data:
        missing = [told for told, given in (("--preset", preset), ("--data", data)) if not given]
        raise ConfigError(
            f"A new training needs {' and '.join(missing)}.",
            hint="For example: mbc train --preset mini --data newswire:train:5000; "
            "`mbc train --list-presets` lists the presets.",
        )
    if run is None and is_launched():
        raise ConfigError("Processes that train together need a common run.", hint="Give --run a name.")
    config = load_preset(preset, settings)
    folder = find_run(run, runs) if run else new_run(preset, runs)
    sources = [absolute(spec) for spec in data]
    command = RunCommand(
        data=sources,
        validation=absolute(validation) if validation else own_validation(sources),
        start=str(Path(start).absolute()) if start and Path(start).exists() else start,
        device=device,
        track=track or [],
    )
    return _Job(folder, config, command, resume=False)


def _with_base(settings: list[str] | None, base: str | None) -> list[str]:
    """Settings with another base LM, a folder by a path that means the same from everywhere."""
    from json import dumps

    if base is None:
        return settings or []
    place = str(Path(base).absolute()) if Path(base).is_dir() else base
    return [*(settings or []), f"model.base={dumps(place, ensure_ascii=False)}"]  # a string in JSON is one in TOML


def _resumed(run: str | None, runs: Path, device: str | None, track: list[str] | None, *, is_changed: bool) -> _Job:
    from mbc_cli.runs import RunCommand, config_of, find_run
    from mbc_engine.errors import ConfigError

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
    return _Job(folder, config_of(folder), command, resume=True)


def _work(job: _Job, threads: int | None, json: bool) -> None:
    from mbc_cli.engine import loading, prepare_torch
    from mbc_cli.interrupt import ending_with, stop_on_interrupt
    from mbc_cli.paths import states_cache
    from mbc_cli.render.consoles import notes
    from mbc_cli.render.training import JsonTrainView, TrainView
    from mbc_cli.runs import name_of

    is_main = is_main_process()
    notes.quiet = notes.quiet or not is_main
    examples = job.command.examples()
    with loading("torch"):
        from mbc_engine.model.checkpoint import find_model
        from mbc_engine.training.tracking import require_trackers
        from mbc_engine.training.trainer import require_learned_vectors
        from mbc_engine.training.trainer import train as work

        require_trackers(job.command.track)
        start = find_model(job.command.start) if job.command.start else None
        require_learned_vectors(job.config, start)
        device = prepare_torch(job.command.device, threads)
    command = replace(job.command, device=device)
    train_here = partial(
        work,
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
    view = (JsonTrainView if json else TrainView)(job.run, name_of(job.run))
    with ending_with(view.way_on), view, stop_on_interrupt(view.stopping) as stop:
        for event in train_here(stop=stop):
            view.show(event)
    if not view.is_finished:
        view.stopped()
        raise typer.Exit(130)
    view.finished()
