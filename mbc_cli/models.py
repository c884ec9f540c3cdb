"""The models that are here: this package's, the user's own, and those of training runs. None of it needs torch."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from mbc_cli.paths import DEFAULT_MODEL
from mbc_cli.runs import find_run, read_run, run_of
from mbc_engine.config import (
    Config,
    ModelSettings,
    RetrieverReaderConfig,
    RetrieverReaderSettings,
    load_preset,
    parse_model_config,
    preset_names,
)
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.events import Validated
from mbc_engine.model_folder import CONFIG, find_model, is_model, own_models, packaged_model
from mbc_engine.runs.training_runs import MODEL, runs_in
from mbc_engine.sharing.inspection import code_shape

if TYPE_CHECKING:
    from mbc_engine.paper.builder import ParameterTable


class Place(StrEnum):
    """Where a model lies: in this package, in the user's data folder, in a training run, or anywhere."""

    PACKAGE = "package"
    OWN = "yours"
    RUN = "run"
    ELSEWHERE = "folder"


@dataclass(frozen=True)
class ModelHere:
    """A model that can be used.

    Attributes:
        name: what people call it.
        folder: where it lies, its files in it.
        place: what kind of place that is.
        settings: what it is made of; None if that cannot be read.
        problem: why it cannot.
        size: bytes of its files.
        best: the validation that it was kept for; None if no run tells.
    """

    name: str
    folder: Path
    place: Place
    settings: ModelSettings | RetrieverReaderSettings | None
    problem: str | None
    size: int
    best: Validated | None

    @property
    def handle(self) -> str:
        """What --model takes to find it from anywhere."""
        return self.name if self.place in (Place.PACKAGE, Place.OWN) else str(self.folder)


@dataclass(frozen=True)
class Counted:
    """The parameters of a model, or why they cannot be counted."""

    table: "ParameterTable | None"
    problem: ModelError | None


def models_here(runs: Path) -> list[ModelHere]:
    """All of them: the package's, the user's own, those of the runs in a folder, the last changed first."""
    packaged = (read_model(folder, folder.name, Place.PACKAGE) for folder in _models_in(_package()))
    own = (read_model(folder, name, Place.OWN) for name, folder in _own())
    trained = (read_model(run / MODEL, run.name, Place.RUN) for run in runs_in(runs) if is_model(run / MODEL))
    return [*packaged, *own, *trained]


def find(name: str, runs: Path) -> ModelHere | None:
    """The model of a name, a run, or a folder; None if there is none.

    A bare name means what it means after --model; a run's name comes after that.
    """
    with suppress(ModelError):
        return _placed(find_model(name).absolute())
    run = find_run(name, runs)
    return read_model(run / MODEL, run.name, Place.RUN) if is_model(run / MODEL) else None


def config_of(model: ModelHere) -> Config | RetrieverReaderConfig:
    """The config of a model.

    Raises:
        ModelError: it cannot be used.
    """
    try:
        return _config(model.folder / CONFIG)
    except ConfigError as error:
        raise ModelError(error.message, hint="Get the model again.") from error


def find_preset(name: str) -> Config | None:
    """The preset of a name, or of a TOML file; None if there is none.

    Raises:
        ConfigError: there is one, and it cannot be used.
    """
    with suppress(OSError):  # no file could have this name
        return load_preset(name) if name in preset_names() or Path(name).is_file() else None
    return None


def nothing_of(name: str, runs: Path) -> ModelError:
    """That there is neither a model nor a preset of a name."""
    run = find_run(name, runs)
    if run in runs_in(run.parent):
        return ModelError(
            f"The run {name} has no model yet.", hint=f"`mbc runs show {shlex.quote(name)}` shows how far it is."
        )
    return ModelError(
        f"There is no model, run or preset {name!r}.",
        hint=f"`mbc models list` shows the models that are here. Presets: {', '.join(preset_names())}.",
    )


def read_model(folder: Path, name: str, place: Place) -> ModelHere:
    """What a model's folder, and the run that it lies in, tell of it."""
    settings, problem = None, None
    try:
        settings = _settings(_config(folder / CONFIG))
    except ConfigError as error:
        problem = error.message
    return ModelHere(name, folder, place, settings, problem, _size(folder), _best(folder))


def counted(settings: ModelSettings) -> Counted:
    """How many parameters a model of these settings has; it takes torch, and no weights."""
    from mbc_engine.paper.builder import parameter_table

    try:
        return Counted(parameter_table(settings), None)
    except ModelError as error:
        return Counted(None, error)


def _config(path: Path) -> Config | RetrieverReaderConfig:
    """A model's config. Raises ConfigError if it cannot be used."""
    try:
        config = parse_model_config(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read.") from error
    code_shape(_settings(config))
    return config


def _settings(config: Config | RetrieverReaderConfig) -> ModelSettings | RetrieverReaderSettings:
    return config.retriever_reader if isinstance(config, RetrieverReaderConfig) else config.model


def _placed(folder: Path) -> ModelHere:
    """The model in a folder, by what kind of place that is."""
    if folder.parent == _package().absolute():
        return read_model(folder, folder.name, Place.PACKAGE)
    if folder.is_relative_to(own_models().absolute()):
        return read_model(folder, str(folder.relative_to(own_models().absolute())), Place.OWN)
    if run := run_of(folder):
        return read_model(folder, run.name, Place.RUN)
    return read_model(folder, folder.name, Place.ELSEWHERE)


def _package() -> Path:
    return packaged_model(DEFAULT_MODEL).parent


def _own() -> Iterator[tuple[str, Path]]:
    """The user's own, by NAME, and by OWNER/NAME those that were pulled."""
    folder = own_models()
    for model in _models_in(folder):
        yield model.name, model
    with suppress(OSError):
        for owner in sorted(folder.iterdir()):
            for model in _models_in(owner):
                yield f"{owner.name}/{model.name}", model


def _models_in(folder: Path) -> list[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if entry.name[0] != "." and is_model(entry))
    except OSError:
        return []


def _best(folder: Path) -> Validated | None:
    """The best validation of the run whose model it is."""
    run = run_of(folder)
    return read_run(run, has_curves=False).history.best if run else None


def _size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            found += path.stat().st_size if path.is_file() else 0
    return found
