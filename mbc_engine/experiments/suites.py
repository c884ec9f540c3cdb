"""Experiments written down: suites by name or as a TOML file, and the settings of an experiment that was begun.

The files of a suite's datasets lie in a folder that whoever runs it names.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mbc_engine.config import first_fault, load_preset
from mbc_engine.datasets.by_name import absolute
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.evaluation.folder import ExperimentFolder
from mbc_engine.experiments.cells import BaseSettings, DatasetSettings, ExperimentSettings, cells, is_retriever_reader
from mbc_engine.experiments.registry import METHODS

_SUITES = files("mbc_engine.experiments") / "suites"


def suite_names() -> list[str]:
    """Names of the built-in suites, sorted."""
    return sorted(entry.name.removesuffix(".toml") for entry in _SUITES.iterdir() if entry.name.endswith(".toml"))


def load_suite(name: str, folder: Path | None = None) -> ExperimentSettings:
    """A built-in suite or a TOML file.

    Args:
        name: which.
        folder: where relative paths of its datasets begin; None is the working folder.

    Raises:
        ConfigError: there is no such suite, or something in it cannot be used.
        DataError: something in it names no dataset.
    """
    if name in suite_names():
        text = (_SUITES / f"{name}.toml").read_text(encoding="utf-8")
    else:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"There is no suite {name!r}.", hint=f"Suites: {', '.join(suite_names())}; or a TOML file."
            ) from error
    settings = parse_settings(text, name)
    placed = settings.model_copy(update={"datasets": [_placed(dataset, folder) for dataset in settings.datasets]})
    require_usable(placed, name)
    return placed


def settings_in(folder: Path) -> ExperimentSettings:
    """The settings of the experiment that was begun in a folder.

    Raises:
        DataError: there is none.
        ConfigError: another version of this program began it.
    """
    return parsed(ExperimentFolder(folder).settings(), str(folder))


def parse_settings(text: str, origin: str) -> ExperimentSettings:
    """Parse TOML from `origin`.

    Raises:
        ConfigError: with the place and what is wrong there.
    """
    try:
        return parsed(tomllib.loads(text), origin)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not TOML: {error}.", hint="Mend it.") from error


def parsed(table: dict[str, Any], origin: str) -> ExperimentSettings:
    """Settings from a table of `origin`.

    Raises:
        ConfigError: with the place and what is wrong there.
    """
    try:
        return ExperimentSettings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {first_fault(error)}.", hint="docs/evaluation.md shows every setting.") from error


def require_usable(settings: ExperimentSettings, origin: str | None = None) -> None:
    """Make sure that what an experiment names is there and fits together, before anything is read or loaded.

    Args:
        settings: of the experiment.
        origin: the file they come from; None if they were typed.

    Raises:
        ConfigError: it does not.
    """
    for wrong, hint in _faults(settings):
        raise ConfigError(f"{origin}: {wrong}." if origin else f"{wrong[0].upper()}{wrong[1:]}.", hint=hint)
    for base in settings.bases:
        if base.preset is not None:
            load_preset(base.preset, base.changes)


def _faults(settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    """What is wrong, and the way out."""
    yield from _faults_of_names(settings)
    for base in settings.bases:
        yield from _faults_of_base(base, settings)
    if not any(METHODS[name].goes_through_more for name in settings.methods):
        for protocol in {"retention", "scaling"}.intersection(settings.protocols):
            yield f"no method has anything to show in {protocol}", "Add one that takes in documents, as mbc."
    for dataset in settings.datasets:
        yield from _lacks_training_data(settings, dataset)


def _faults_of_names(settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    for name in settings.methods:
        if name not in METHODS:
            yield f"there is no method {name!r}", f"Methods: {', '.join(METHODS)}."
    names: dict[str, Sequence[str]] = {
        "base": [base.name for base in settings.bases],
        "dataset": [dataset.name for dataset in settings.datasets],
        "method": settings.methods,
        "protocol": settings.protocols,
    }
    for kind, given in names.items():
        if not given:
            yield f"there is no {kind}", f"Name one {kind} at least."
        for name, count in Counter(given).items():
            if count > 1:
                yield f"there are {count} {kind}s {name!r}", "Their results would lie in one folder; name each once."
            if not name or Path(name).name != name:
                yield f"{name!r} is no name of a {kind}", "Folders are named by it: use letters, digits and hyphens."
    folders = Counter(cell.name for cell in cells(settings))
    for name, count in folders.items():
        if count > 1:
            yield f"{count} cells would lie in the folder {name}", "Name bases and datasets so that no two are alike."


def _faults_of_base(base: BaseSettings, settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    if (base.preset is None) == (base.model is None):
        yield f"the base {base.name!r} has to have either a preset or a model", "Leave one of them out."
    if base.model is not None and "code-usage" in settings.protocols:
        yield f"code-usage trains a preset, but {base.title} is a model", "Give a preset in its place."
    yield from _faults_of_kind(base, settings)


def _faults_of_kind(base: BaseSettings, settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    """Methods for another kind of model; a model that is not there is told when it is looked for."""
    try:
        reads = base.model is not None and is_retriever_reader(base.model)
    except ModelError:
        return
    for name in settings.methods:
        if METHODS[name].is_retriever_reader == reads:
            continue
        if reads:
            yield (
                f"the method {name} needs a model of the paper's method, and {base.title} is a retriever-reader",
                ("Use --method retriever-reader, or a model or preset of the paper's method."),
            )
        else:
            yield f"the method {name} needs a retriever-reader, which {base.title} is not", "Use --model mini."
    if reads and settings.read is not None:
        yield (
            f"--read does not apply to {base.title}, which has only one way to search its bank",
            ("It is for models of the paper's method."),
        )


def _lacks_training_data(settings: ExperimentSettings, dataset: DatasetSettings) -> Iterator[tuple[str, str]]:
    if dataset.train:
        return
    given = [name for name in settings.methods if METHODS[name].needs_training_data]
    given += [f"the preset {base.preset}" for base in settings.bases if base.model is None]
    if given:
        listed = ", ".join(given)
        yield f"there is nothing to train {listed} on, for {dataset.title}", "Give questions to learn from: --train."


def _placed(dataset: DatasetSettings, folder: Path | None) -> DatasetSettings:
    """The same with files by paths that mean the same from everywhere."""
    return dataset.model_copy(
        update={
            "train": [absolute(source, folder) for source in dataset.train],
            "questions_train": [absolute(source, folder) for source in dataset.questions_train],
            "validation": dataset.validation and absolute(dataset.validation, folder),
            "test": absolute(dataset.test, folder),
        }
    )
