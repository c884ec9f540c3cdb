"""What `mbc train` is to do: a new training as it was typed, or one that goes on as it was begun."""

from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path

from mbc_cli.runs import RunCommand, config_of, find_run, new_run
from mbc_engine.config import Config, load_preset
from mbc_engine.datasets.by_name import absolute, own_validation
from mbc_engine.errors import ConfigError
from mbc_engine.training.launch import is_launched


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
