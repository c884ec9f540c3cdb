"""The local models and training runs, by name, and the command that started a run. Imports no torch."""

import json
import os
import shlex
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from mbc_cli.formatting import format_time_left, pluralise
from mbc_cli.paths import DEFAULT_MODEL, resolve_name, runs_folder, short_name
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.events import Validated
from mbc_engine.names import CONFIG, find_model, is_model, own_models, packaged_model, preset_names
from mbc_engine.runs import MODEL
from mbc_engine.runs.training_runs import COMMAND, EVENTS, FollowedRun, runs_in

if TYPE_CHECKING:
    from mbc_engine.bank import CodeShape
    from mbc_engine.config import Config, ModelSettings, RetrieverReaderConfig, RetrieverReaderSettings

Place = Literal["package", "yours", "run", "folder"]


@dataclass(frozen=True)
class LocalModel:
    """A local model; if its config cannot be read, `config` is None and `problem` says why."""

    name: str
    folder: Path
    place: Place
    config: "Config | RetrieverReaderConfig | None"
    problem: str | None
    size: int
    best: Validated | None

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.name,
            "path": str(self.folder),
            "place": self.place,
            **(components(self.config.settings) if self.config else dict.fromkeys(("base", "encoders", "codes"))),
            "reads_text": self.config is not None and self.config.reads_text,
            "problem": self.problem,
            "size": self.size,
            "best": self.best,
        }


def components(settings: "ModelSettings | RetrieverReaderSettings") -> dict[str, Any]:
    """Base LM, encoders and codes as JSON; null if there is none."""
    shape = shape_of(settings)
    codes = {**asdict(shape), "bits_per_chunk": shape.bits_per_chunk} if settings.quantised else None
    return {"base": settings.base, "encoders": settings.encoders, "codes": codes}


def shape_of(settings: "ModelSettings | RetrieverReaderSettings") -> "CodeShape":
    """The shape of a chunk's codes. Raises ConfigError if no bank can hold them."""
    from mbc_engine.bank import CodeShape

    try:
        return CodeShape(*settings.code_numbers)
    except ValueError as error:
        raise ConfigError(f"No bank can hold these codes: {error}.") from error


def model_folders(runs: Path) -> list[tuple[str, Path, Place]]:
    """All models by name, folder and place: the package's, the user's own, then runs, most recently changed first."""
    of_user = _folders_in(own_models())
    models: list[tuple[str, Path, Place]] = [
        *((folder.name, folder, "package") for folder in _folders_in(packaged_model(DEFAULT_MODEL).parent)),
        *((folder.name, folder, "yours") for folder in of_user),
        *((f"{owner.name}/{folder.name}", folder, "yours") for owner in of_user for folder in _folders_in(owner)),
        *((run.name, run / MODEL, "run") for run in runs_in(runs)),
    ]
    return [model for model in models if is_model(model[1])]


def find_local_model(name: str, runs: Path) -> LocalModel | None:
    try:
        folder = find_model(name).absolute()
    except ModelError:
        folder = resolve_name(name, runs) / MODEL
        if not is_model(folder):
            return None
    for known, its_folder, place in model_folders(runs):
        if its_folder.absolute() == folder:
            return read_model(known, folder, place)
    run = run_of(folder)
    return read_model(run.name, folder, "run") if run else read_model(folder.name, folder, "folder")


def model_not_found(name: str, runs: Path) -> ModelError:
    run = resolve_name(name, runs)
    if run in runs_in(run.parent):
        hint = f"`mbc runs show {shlex.quote(name)}` shows its progress."
        return ModelError(f"The run {name} has no model yet.", hint=hint)
    hint = f"`mbc models list` shows the available models. Presets: {', '.join(preset_names())}."
    return ModelError(f"There is no model, run or preset {name!r}.", hint=hint)


def read_model(name: str, folder: Path, place: Place) -> LocalModel:
    from mbc_engine.config import parse_model_config

    config, problem, path, run = None, None, folder / CONFIG, run_of(folder)
    try:
        config = parse_model_config(path.read_text(encoding="utf-8"), str(path))
        shape_of(config.settings)
    except ConfigError as error:
        config, problem = None, error.message
    except (OSError, UnicodeDecodeError):
        problem = f"{path} cannot be read."
    size = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # it may be gone again, or inaccessible
            size += file.stat().st_size if file.is_file() else 0
    best = read_run(run, has_curves=False).history.best if run else None
    return LocalModel(name, folder, place, config, problem, size, best)


def _folders_in(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(entry for entry in folder.iterdir() if entry.name[0] != "." and entry.is_dir())
    return []


@dataclass(frozen=True)
class RunCommand:
    """What a training run was started with, besides its settings; dataset names work from any working folder."""

    data: list[str]
    validation: str | None
    start: str | None
    device: str | None
    track: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def load(cls, run: Path) -> Self:
        """Raises ConfigError if there is no such run, or the file is damaged."""
        try:
            return cls(**json.loads((run / COMMAND).read_text()))
        except FileNotFoundError as error:
            hint = "Start one with `mbc train --preset NAME --data SPEC`."
            raise ConfigError(f"There is no run to resume at {run}.", hint=hint) from error
        except (OSError, ValueError, TypeError) as error:
            reason = "it does not hold a command" if isinstance(error, TypeError) else error
            raise ConfigError(f"{run / COMMAND} cannot be read: {reason}.", hint="Start a new run.") from error


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
    return short_name(run, runs_folder())


def new_run(preset: str, runs: Path) -> Path:
    """A new folder that no other training takes; if it cannot be made, the training reports why."""
    numbers = count(1)
    while True:
        folder = (runs / f"{Path(preset).stem}-{next(numbers)}").absolute()
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError:
            pass
        return folder


def existing_run(name: str, runs: Path) -> Path:
    folder = resolve_name(name, runs)
    if not os.path.isfile(folder / EVENTS):
        raise ConfigError(f"There is no run at {folder}.", hint="`mbc runs list` shows those in --runs.")
    return folder


def read_run(folder: Path, *, has_curves: bool = True) -> FollowedRun:
    """A run as its log has it now; without its curves, reading takes a tenth of the time."""
    run = FollowedRun(folder, has_curves=has_curves)
    run.update()
    return run


def run_of(model: Path) -> Path | None:
    return model.parent if model.name == MODEL and (model.parent / EVENTS).is_file() else None


def run_facts(run: FollowedRun) -> list[tuple[str, str]]:
    """How far a run has come, as labels and values of some 24 characters; without what is not known yet."""
    history, cached = run.history, run.history.cached
    step, total, latest = history.step, history.total_steps, history.latest
    last = history.validations[-1] if history.validations else None
    is_going = run.state == "training" and history.seconds_left is not None
    reset_steps = pluralise(len(history.resets), "step")
    facts: list[tuple[str, object]] = [
        ("reading", cached and not history.started and f"{cached.done:,} of {cached.total or 0:,} texts"),
        ("step", f"{step:,} of {total:,} ({step / total:.0%})" if total else "none yet"),
        ("time left", is_going and format_time_left(history.seconds_left or 0)),
        ("epoch", latest and f"{latest.epoch + 1}"),
        ("speed", history.throughput and f"{history.throughput:,.0f} questions/s"),
        ("validated", last and f"F1 {last.f1:.1f}, EM {last.exact_match:.1f}"),
        ("best", history.best and f"F1 {history.best.f1_text} at step {history.best.step:,}"),
        ("resets", history.resets and f"{pluralise(history.codes_reset, 'code')} in {reset_steps}"),
        ("codes", history.quantised and f"from step {history.quantised.step:,}"),
        ("snapshot", history.checkpoints and f"step {history.checkpoints[-1]:,}"),
    ]
    return [(label, str(value)) for label, value in facts if value]
