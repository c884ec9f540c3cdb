"""A suite: base LMs × datasets, each pair a cell, with the methods and protocols of each; built in, or a TOML file."""

# ruff: noqa: RUF012 - pydantic copies defaults

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from mbc_engine.config import Config, Settings, first_fault, load_preset, read_model_config, read_paper_config
from mbc_engine.datasets.by_name import absolute
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.evaluation.methods import METHODS, Protocol
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.names import CONFIG, find_model, from_anywhere, parse_read_mode, suite_names

_Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]  # part of a folder's name
# Where questions are: a path is absolute, or relative to the `folder` of the context.
_Source = Annotated[
    str, AfterValidator(lambda given, info: absolute(given, info.context["folder"]) if info.context else given)
]
# A preset's or a model's name, or an absolute path.
_Preset = Annotated[str, AfterValidator(lambda given: from_anywhere(given, os.path.isfile))]
_Model = Annotated[str, AfterValidator(lambda given: from_anywhere(given) if os.sep in given else given)]


def _with_absolute_folder(change: str) -> str:
    key, equals, value = change.partition("=")
    is_lm = key.strip() in ("model.base", "model.documents.name", "model.questions.name")
    return f"{key}{equals}{from_anywhere(value, os.path.isdir)}" if is_lm else change


_Change = Annotated[str, AfterValidator(_with_absolute_folder)]


class Base(Settings):
    """A base LM, and the preset by which MBC and MAC are trained around it, or a trained MBC in its place.

    Empty `methods` and `protocols` are the suite's.
    """

    name: _Name
    title: str
    preset: _Preset | None = None
    changes: list[_Change] = []
    model: _Model | None = None
    optimiser: Literal["adam", "adafactor"] = "adam"
    methods: list[str] = []
    protocols: list[Protocol] = []

    def config(self, changes: Iterable[str] = ()) -> Config:
        """The settings of MBC around this base LM, with further changes."""
        if self.model is None:
            return load_preset(self.preset or "", [*self.changes, *changes])
        return read_paper_config(find_model(self.model) / CONFIG, [*changes])


class Dataset(Settings):
    """Questions to train on, to validate on, and to test with.

    `questions_train` trains the base LMs of fine-tuning, by default on `train`; without `validation`, documents of
    `train` are held back. `most_train` are questions, `most_validation` documents.
    """

    name: _Name
    title: str
    train: list[_Source] = []
    questions_train: list[_Source] = []
    validation: _Source | None = None
    test: _Source
    most_train: PositiveInt | None = None
    most_validation: PositiveInt = 200


class Tuning(Settings):
    """How a base LM is trained on at most `most_train` questions.

    It also answers in that precision, unless it is fine-tuned.
    """

    epochs: PositiveInt = 8
    batch_size: PositiveInt = 32
    learning_rate: PositiveFloat = 1e-4
    precision: Literal["float32", "bf16"] = "float32"
    most_train: PositiveInt | None = None


class Camels(Settings):
    """How CaMeLS' token weights are trained.

    `inner_rate` is that of the inner update of the base LM, `locality` the weight of the locality term.
    """

    steps: PositiveInt = 2000
    inner_documents: PositiveInt = 6
    inner_batches: PositiveInt = 4
    learning_rate: PositiveFloat = 1e-4
    inner_rate: PositiveFloat = 5e-4
    locality: NonNegativeFloat = 0.1


class Retention(Settings):
    """The sizes of the retention protocol in documents (paper, section 4.4.3)."""

    first: PositiveInt = 200
    step: PositiveInt = 200
    further: PositiveInt = 1400


class Suite(Settings):
    """What is evaluated, on what and how; examples/suite.toml explains every setting."""

    title: str
    seed: NonNegativeInt = 0
    bases: list[Base]
    datasets: list[Dataset]
    methods: list[str]
    protocols: list[Protocol] = ["online"]
    documents: PositiveInt = 1665
    bank_documents: PositiveInt | None = None
    questions: PositiveInt | None = None
    golds: Literal["shortest", "any"] = "shortest"
    read: str | None = None
    rates: Annotated[list[PositiveFloat], Field(min_length=1)] = [1e-4, 2.5e-5, 6.25e-6, 1.625e-6]
    document_window: PositiveInt = 512
    retention: Retention = Retention()
    scaling: Annotated[list[PositiveInt], Field(min_length=1)] = [16, 64, 256, 1024]
    question_training: Tuning = Tuning()
    reading_training: Tuning = Tuning()
    text_training: Tuning = Tuning(learning_rate=5e-4)
    camels: Camels = Camels()
    code_usage_changes: list[str] = []

    def methods_of(self, base: Base) -> list[str]:
        return list(dict.fromkeys(base.methods or self.methods))

    def protocols_of(self, base: Base) -> list[Protocol]:
        return base.protocols or self.protocols

    def only(self, bases: Sequence[str]) -> "Suite":
        """The same suite with only the named base LMs; a folder takes the place of the first one's base LM.

        Raises ConfigError if a name is unknown.
        """
        known, first, chosen = {base.name: base for base in self.bases}, self.bases[0], []
        for name in bases:
            if name not in known and not (first.preset and Path(name).is_dir()):
                hint = f"It has {', '.join(known)}; or give a folder with an LM."
                raise ConfigError(f"The suite has no base LM {name!r}.", hint=hint)
            path = Path(name).absolute()
            other = {
                "name": path.name,
                "title": "".join((path.name, *first.title.partition(",")[1:])),
                "changes": [*first.changes, f"model.base={json.dumps(str(path))}"],
            }
            chosen.append(known[name] if name in known else first.model_copy(update=other))
        return self.model_copy(update={"bases": chosen})


def load_suite(name: str, folder: Path | None = None) -> Suite:
    """Load a built-in suite or a TOML file; relative paths are resolved against `folder`, or the working directory."""
    path = files("mbc_engine.evaluation") / "suites" / f"{name}.toml" if name in suite_names() else Path(name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not valid TOML: {error}.", hint="Repair it.") from error
    except (OSError, ValueError) as error:
        hint = f"Suites: {', '.join(suite_names())}; or a TOML file."
        raise ConfigError(f"There is no suite {name!r}.", hint=hint) from error
    suite = _validated(table, name, folder)
    require_usable(suite, name)
    return suite


def suite_in(folder: Path) -> Suite:
    """The suite of the experiment in a folder."""
    return _validated(ExperimentFolder(folder).settings(), str(folder))


def _validated(table: dict[str, Any], origin: str, folder: Path | None = None) -> Suite:
    try:
        return Suite.model_validate(table, context={"folder": folder})
    except ValidationError as error:
        raise ConfigError(
            f"{origin}: {first_fault(error)}.", hint="examples/suite.toml shows every setting."
        ) from error


def require_usable(suite: Suite, origin: str | None = None) -> None:
    """Raise ConfigError unless what a suite names exists and fits together, before any data or model is loaded.

    `origin` is the file the suite comes from; None if it comes from the command line.
    """
    if suite.read is not None:
        parse_read_mode(suite.read)
    if first := next(_faults(suite), None):
        fault, hint = first
        raise ConfigError(f"{origin}: {fault}." if origin else f"{fault[0].upper()}{fault[1:]}.", hint=hint)
    for base in suite.bases:
        if base.preset is not None:
            base.config()
            for kind in (METHODS[name] for name in suite.methods_of(base)):
                read, settings = kind.read or suite.read, kind.bank_settings
                if read is not None and settings is not None:
                    base.config([f"model.read={json.dumps(read)}", *settings])


def _faults(suite: Suite) -> Iterator[tuple[str, str]]:
    folders = [f"{base.name}-{dataset.name}" for base in suite.bases for dataset in suite.datasets]
    if not folders or len({*folders}) < len(folders):
        names = ", ".join(folders) or "no base or dataset"
        yield f"folders cannot be named for {names}", "Name bases and datasets apart, in letters, digits and hyphens."
    learners: list[str] = []
    for base in suite.bases:
        if (base.preset is None) == (base.model is None):
            yield f"the base {base.name!r} needs either a preset or a model", "Leave one of them out."
        is_reader = base.model is not None and is_retriever_reader(base.model)
        for name in suite.methods_of(base):
            if name not in METHODS:
                yield f"there is no method {name!r}", f"Methods: {', '.join(METHODS)}."
            if METHODS[name].is_retriever_reader != is_reader:
                needed = "a model of the paper's method" if is_reader else "a retriever-reader"
                hint = "Use another --method or --model."
                yield f"the method {name} needs {needed}, and {base.title} is not one", hint
        if is_reader and suite.read is not None:
            fault = f"--read does not apply to {base.title}, which has only one way to search its bank"
            yield fault, "It is for models of the paper's method."
        learners += [f"the preset {base.preset}"] if base.model is None else []
        learners += [name for name in suite.methods_of(base) if METHODS[name].needs_training_data]
    for dataset in suite.datasets:
        if learners and not dataset.train:
            fault = f"there are no questions to train {', '.join(learners)} on for {dataset.title}"
            yield fault, "Give questions to learn from: --train."


def is_retriever_reader(model: str) -> bool:
    """Whether a model is a retriever-reader such as mini, rather than one of the paper's method or not to be found."""
    try:
        return read_model_config(find_model(model) / CONFIG).reads_text
    except ModelError:  # reported when the model is loaded
        return False
