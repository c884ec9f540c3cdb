"""Training runs by name, and what a run remembers of the command that started it."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mbc_cli.config import name_in, placed, runs_folder
from mbc_engine.errors import ConfigError
from mbc_engine.runs.training_runs import CONFIG, EVENTS, MODEL, FollowedRun

if TYPE_CHECKING:
    from mbc_engine.config import Config

_COMMAND = "command.json"


@dataclass(frozen=True)
class RunCommand:
    """What a training was started with, beside its settings; names of datasets mean the same in every working folder."""

    data: list[str]
    validation: str | None
    start: str | None
    device: str | None
    track: list[str] = field(default_factory=list)

    def save(self, run: Path) -> None:
        """Note the command in a new run's folder; one that holds a training already keeps its own."""
        if (run / EVENTS).exists():
            return
        try:
            run.mkdir(parents=True, exist_ok=True)
            (run / _COMMAND).write_text(json.dumps(asdict(self), indent=2) + "\n")
        except OSError as error:
            hint = "Check the path and the free disk space."
            raise ConfigError(f"{run} cannot be written: {error.strerror}.", hint=hint) from error

    @classmethod
    def load(cls, run: Path) -> Self:
        """Raises ConfigError if there is no such run, or the file is damaged."""
        try:
            return cls(**json.loads((run / _COMMAND).read_text()))
        except FileNotFoundError as error:
            hint = "Start one with `mbc train --preset NAME --data SPEC`."
            raise ConfigError(f"There is no run to resume at {run}.", hint=hint) from error
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{run / _COMMAND} cannot be read: {error}", hint="Start a new run.") from error


def command_of(run: Path) -> RunCommand | None:
    with suppress(ConfigError):
        return RunCommand.load(run)
    return None


def config_of(run: Path) -> "Config":
    from mbc_engine.config import parse_config

    try:
        return parse_config((run / CONFIG).read_text(), str(run / CONFIG))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{run / CONFIG} cannot be read.", hint="Start a new run.") from error


def name_of(run: Path) -> str:
    return name_in(run, runs_folder())


def new_run(preset: str, runs: Path) -> Path:
    stem = Path(preset).stem
    return next(runs / f"{stem}-{number}" for number in count(1) if not (runs / f"{stem}-{number}").exists()).absolute()


def existing_run(name: str, runs: Path) -> Path:
    folder = placed(name, runs)
    if not (folder / EVENTS).is_file():
        raise ConfigError(f"There is no run at {folder}.", hint="`mbc runs list` shows those in --runs.")
    return folder


def read_run(folder: Path, *, has_curves: bool = True) -> FollowedRun:
    """A run as its log has it now; without its curves that takes a tenth of the time."""
    run = FollowedRun(folder, has_curves=has_curves)
    run.update()
    return run


def run_of(model: Path) -> Path | None:
    return model.parent if model.name == MODEL and (model.parent / EVENTS).is_file() else None
