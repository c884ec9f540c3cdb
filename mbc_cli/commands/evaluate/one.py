"""The settings of an experiment of one cell, from what was typed."""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import ValidationError

from mbc_cli.data import read_data
from mbc_engine.datasets.by_name import absolute, is_of_hub
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.experiments.cells import is_retriever_reader
from mbc_engine.experiments.roster import controls_of
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, ExperimentSettings
from mbc_engine.experiments.suites import require_usable
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
