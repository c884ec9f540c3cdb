"""The settings of an experiment of one cell, from what was typed.

Which experiment the options of `mbc eval` mean: one on a data set, a suite's, or one that was begun.
"""

import os
import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import typer
from pydantic import ValidationError

from mbc_cli.engine import read_data
from mbc_cli.evaluations import existing_evaluation, find_evaluation, new_evaluation
from mbc_cli.program import is_typed
from mbc_engine.datasets.by_name import absolute, is_of_hub
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.experiments.cells import BaseSettings, DatasetSettings, ExperimentSettings, is_retriever_reader
from mbc_engine.experiments.registry import controls_of
from mbc_engine.experiments.suites import load_suite, require_usable, settings_in
from mbc_engine.model_folder import find_model

_LONGEST_NAME = 40
_OPTIONS = {"golds": "--golds", "protocols": "--protocol"}


@dataclass(frozen=True)
class Amounts:
    """How much is evaluated; None for all there is.

    Attributes:
        documents: that are taken in, at most.
        bank_documents: in one memory.
        questions: that are asked, at most.
    """

    documents: int
    bank_documents: int | None
    questions: int | None


@dataclass(frozen=True)
class Learning:
    """What methods learn from, and how: datasets, a preset and changes of its settings."""

    train: list[str]
    validation: str | None
    preset: str | None
    changes: list[str]


@dataclass(frozen=True)
class One:
    """How one data set is evaluated, as it was typed; [] and None are what nobody typed."""

    model: str | None
    methods: list[str]
    protocols: list[str]
    golds: str
    read: str | None
    amounts: Amounts
    learning: Learning


def settings_of(data: str, typed: One) -> ExperimentSettings:
    """The settings, with all that can be checked before a model is loaded.

    Args:
        data: the dataset, as it was typed.
        typed: all else.

    Raises:
        DataError: a dataset cannot be read.
        ModelError: there is no such model.
        ConfigError: options contradict each other, or name something that there is not.
    """
    learning, amounts = typed.learning, typed.amounts
    if typed.model is not None and learning.preset is not None:
        raise ConfigError("--model and --preset contradict each other.", hint="Leave one of them out.")
    if learning.validation is not None and not learning.train:
        raise ConfigError("--validation is for what is trained.", hint="Give questions to learn from: --train.")
    if learning.changes and learning.preset is None:
        raise ConfigError("--set changes a preset.", hint="Name it with --preset.")
    try:
        settings = ExperimentSettings.model_validate(
            {
                "title": f"{_told(typed)} on {data}",
                "bases": [_base(typed)],
                "datasets": [_dataset(data, learning)],
                "methods": typed.methods or _methods_of(typed.model),
                "protocols": typed.protocols or ["online"],
                **asdict(amounts),
                "golds": typed.golds,
                "read": typed.read,
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        option = _OPTIONS.get(str(first["loc"][0]), str(first["loc"][0]))
        told = f"{option} {first['input']!r}: {first['msg'].lower()}."
        raise ConfigError(told, hint="`mbc eval --help` tells what it takes.") from error
    require_usable(settings)
    sources = [data, *learning.train, *([learning.validation] if learning.validation else [])]
    read_data([source for source in sources if not is_of_hub(source)])  # the hub's take too long to be read twice
    if typed.model is not None:
        find_model(typed.model)
    return settings


def _methods_of(model: str | None) -> list[str]:
    """What is evaluated where nobody says: the model, and the controls of its method."""
    try:
        own = "retriever-reader" if model is not None and is_retriever_reader(model) else "mbc"
    except ModelError:
        own = "mbc"  # that there is no such model is told once the data were looked at
    return [own, *controls_of(own)]


def _told(typed: One) -> str:
    return typed.model if typed.model is not None else typed.learning.preset or ""


def _base(typed: One) -> BaseSettings:
    name = _told(typed)
    model = typed.model
    if model is not None and os.path.exists(model):  # noqa: PTH110  # Path.exists() fails where a name is too long
        model = str(Path(model).absolute())
    preset, is_file = typed.learning.preset, os.path.isfile(name)  # noqa: PTH113
    if preset is not None and is_file:
        preset = str(Path(preset).absolute())
    short = Path(name).stem if is_file else Path(name).name
    return BaseSettings(name=_slug(short), title=name, preset=preset, changes=typed.learning.changes, model=model)


def _dataset(data: str, learning: Learning) -> DatasetSettings:
    return DatasetSettings(
        name=_dataset_name(data),
        title=data,
        train=[absolute(source) for source in learning.train],
        validation=learning.validation and absolute(learning.validation),
        test=absolute(data),
    )


def _dataset_name(source: str) -> str:
    """Short, for folders; the paper's name for the paper's SQuAD, so that its figures are found."""
    if source == "squad:test" or (source.startswith("squad:test:") and not source.endswith("]")):
        return "squad"
    name = Path(source).name
    return _slug(name.partition(".")[0] if ":" not in name.partition("[")[0] else name)


def _slug(text: str) -> str:
    """Letters, digits and hyphens of a text, not many."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text)[:_LONGEST_NAME].strip("-").lower() or "own"


# Options that say what is evaluated, and how: a suite says all of it itself.
_OF_ONE: Final = (
    *("model", "method", "protocol", "documents", "bank_size", "limit", "golds", "read"),
    *("train", "validation", "preset", "settings"),
)


@dataclass(frozen=True)
class Chosen:
    """An experiment, and the folder that keeps it."""

    settings: ExperimentSettings
    folder: Path

    @property
    def is_grid(self) -> bool:
        """Whether it has more cells than one."""
        return len(self.settings.bases) * len(self.settings.datasets) > 1


def choose(
    ctx: typer.Context, data: str | None, suite: str | None, one: One, data_folder: Path | None, run: str | None
) -> Chosen:
    """What the options mean.

    Args:
        ctx: of the command.
        data, suite, data_folder, run: see the options.
        one: how `data` is evaluated.

    Raises:
        DataError: a dataset cannot be read, or there is no experiment to go on with.
        ModelError: there is no such model.
        ConfigError: options contradict each other, or name something that there is not.
    """
    _require_sense(ctx, data, suite, run)
    folder = find_evaluation(run) if run else None
    if suite is not None:
        return Chosen(load_suite(suite, data_folder), folder or new_evaluation(Path(suite).stem))
    if data is not None:
        if one.learning.preset is not None and not is_typed(ctx, "model"):
            one = replace(one, model=None)
        settings = settings_of(data, one)
        return Chosen(settings, folder or new_evaluation(settings.datasets[0].name))
    assert run is not None
    kept = existing_evaluation(run).path
    return Chosen(settings_in(kept), kept)


def _require_sense(ctx: typer.Context, data: str | None, suite: str | None, run: str | None) -> None:
    """Make sure that it is said once what to evaluate, and nothing that is not for it.

    Raises:
        ConfigError: it is not.
    """
    if data is not None and suite is not None:
        raise ConfigError("--data and --suite contradict each other.", hint="A suite names its own data.")
    if data is None and suite is None and run is None:
        raise ConfigError(
            "Evaluate on what?",
            hint="Give --data SPEC, for example: mbc eval --data newswire:test:64; or --suite small.",
        )
    if suite is None and is_typed(ctx, "data_folder"):
        raise ConfigError("--data-folder is for --suite.", hint="It says where the files lie that a suite names.")
    typed = [name for name in _OF_ONE if is_typed(ctx, name)]
    if data is None and typed:
        told = typed[0].replace("_", "-").replace("settings", "set")
        raise ConfigError(f"--{told} is for --data.", hint="A suite is settled: copy its TOML file to change it.")
