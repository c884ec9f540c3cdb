"""The settings of an experiment of one cell, from what was typed."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mbc_cli.data import read_data
from mbc_engine.datasets.files import absolute, is_of_hub
from mbc_engine.errors import ConfigError
from mbc_engine.experiments.roster import controls_of
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, ExperimentSettings
from mbc_engine.experiments.suites import require_usable
from mbc_engine.model_folder import find_model

_LONGEST_NAME = 40
_OPTIONS = {"golds": "--golds", "protocols": "--protocol"}


@dataclass(frozen=True)
class One:
    """What was typed; [] and None are what nobody typed."""

    data: str
    model: str | None
    preset: str | None
    changes: list[str]
    methods: list[str]
    protocols: list[str]
    documents: int
    bank_documents: int | None
    questions: int | None
    golds: str
    read: str | None
    train: list[str]
    validation: str | None


def settings_of(typed: One) -> ExperimentSettings:
    """The settings, with all that can be checked before a model is loaded.

    Raises:
        DataError: a dataset cannot be read.
        ModelError: there is no such model.
        ConfigError: options contradict each other, or name something that there is not.
    """
    if typed.model is not None and typed.preset is not None:
        raise ConfigError("--model and --preset contradict each other.", hint="Leave one of them out.")
    if typed.validation is not None and not typed.train:
        raise ConfigError("--validation is for what is trained.", hint="Give questions to learn from: --train.")
    if typed.changes and typed.preset is None:
        raise ConfigError("--set changes a preset.", hint="Name it with --preset.")
    try:
        settings = ExperimentSettings.model_validate(
            {
                "title": f"{_told(typed)} on {typed.data}",
                "bases": [_base(typed)],
                "datasets": [_dataset(typed)],
                "methods": typed.methods or ["mbc", *controls_of("mbc")],
                "protocols": typed.protocols or ["online"],
                "documents": typed.documents,
                "bank_documents": typed.bank_documents,
                "questions": typed.questions,
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
    sources = [typed.data, *typed.train, *([typed.validation] if typed.validation else [])]
    read_data([source for source in sources if not is_of_hub(source)])  # the hub's take too long to be read twice
    if typed.model is not None:
        find_model(typed.model)
    return settings


def _told(typed: One) -> str:
    return typed.model if typed.model is not None else typed.preset or ""


def _base(typed: One) -> BaseSettings:
    name = _told(typed)
    model = typed.model
    if model is not None and os.path.exists(model):  # noqa: PTH110  # Path.exists() fails where a name is too long
        model = str(Path(model).absolute())
    preset, is_file = typed.preset, os.path.isfile(name)  # noqa: PTH113
    if preset is not None and is_file:
        preset = str(Path(preset).absolute())
    short = Path(name).stem if is_file else Path(name).name
    return BaseSettings(name=_slug(short), title=name, preset=preset, changes=typed.changes, model=model)


def _dataset(typed: One) -> DatasetSettings:
    return DatasetSettings(
        name=_dataset_name(typed.data),
        title=typed.data,
        train=[absolute(source) for source in typed.train],
        validation=typed.validation and absolute(typed.validation),
        test=absolute(typed.data),
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
