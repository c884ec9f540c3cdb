"""Experiment settings: base LMs × datasets × methods × protocols, from a built-in suite or a TOML file.

The files of a suite's datasets are in a folder that the user gives.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError

from mbc_engine.config import RetrieverReaderConfig, first_fault, load_preset, read_model_config
from mbc_engine.datasets.by_name import absolute
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.evaluation.results import ExperimentFolder
from mbc_engine.experiments.registry import METHODS, Protocol
from mbc_engine.methods.method import STRICT, CamelsSettings, QuestionSettings, Rate
from mbc_engine.names import CONFIG, find_model, parse_read_mode, suite_names

_SUITES = files("mbc_engine.experiments") / "suites"


class BaseSettings(BaseModel):
    """A row of the table: a base LM and what is built around it."""

    model_config = STRICT
    name: str = Field(description="short, for folders")
    title: str = Field(description="as the table shows it")
    preset: str | None = Field(None, description="preset or TOML file that MBC and MAC are trained by")
    changes: list[str] = Field([], description="section.key=value changes of the preset")
    model: str | None = Field(None, description="a trained MBC model, in place of a preset")
    optimiser: Literal["adam", "adafactor"] = Field("adam", description="of fine-tuning, with a preset or a model")
    methods: list[str] = Field([], description="[] is the suite's")
    protocols: list[Protocol] = Field([], description="[] is the suite's")


class DatasetSettings(BaseModel):
    """A column of the table: questions to train on, to validate on, and to test with."""

    model_config = STRICT
    name: str
    title: str
    train: list[str] = []
    questions_train: list[str] = Field([], description="for the base LMs of fine-tuning; [] is `train`")
    validation: str | None = Field(None, description="None holds back documents of `train`")
    test: str
    most_train: PositiveInt | None = Field(None, description="most training questions")
    most_validation: PositiveInt = Field(200, description="most validation documents")

    def placed(self, folder: Path | None) -> "DatasetSettings":
        lists = {name: [absolute(own, folder) for own in getattr(self, name)] for name in ("train", "questions_train")}
        validation = self.validation and absolute(self.validation, folder)
        return self.model_copy(update={**lists, "validation": validation, "test": absolute(self.test, folder)})


class RetentionSettings(BaseModel):
    """The retention protocol (paper, section 4.4.3)."""

    model_config = STRICT
    first: PositiveInt = Field(200, description="documents asked about")
    step: PositiveInt = 200
    further: PositiveInt = 1400


class ExperimentSettings(BaseModel):
    """An experiment. Its cells are its bases × datasets."""

    model_config = STRICT
    title: str
    seed: NonNegativeInt = 0
    bases: list[BaseSettings]
    datasets: list[DatasetSettings]
    methods: list[str]
    protocols: list[Protocol] = ["online"]
    documents: PositiveInt = Field(1665, description="most documents of the stream")
    bank_documents: PositiveInt | None = Field(None, description="documents of a memory; None is all in one")
    questions: PositiveInt | None = Field(None, description="most questions asked, spread evenly; None is all")
    golds: Literal["shortest", "any"] = Field("shortest", description="shortest gold answer, or the best of all")
    read: str | None = Field(None, description="how MBC and MAC read; None is the model's own way")
    rates: list[Rate] = Field(
        [1e-4, 2.5e-5, 6.25e-6, 1.625e-6], min_length=1, description="learning rates that are swept"
    )
    document_window: PositiveInt = Field(512, description="tokens of a piece that a fine-tuning step is made on")
    retention: RetentionSettings = RetentionSettings()
    scaling: list[PositiveInt] = Field([16, 64, 256, 1024], min_length=1)
    question_training: QuestionSettings = QuestionSettings()
    reading_training: QuestionSettings = QuestionSettings()
    camels: CamelsSettings = CamelsSettings()
    code_usage_changes: list[str] = Field([], description="changes of the preset for the two trainings of code-usage")

    def of(self, base: BaseSettings) -> tuple[list[str], list[Protocol]]:
        """The methods and the protocols for a base LM."""
        return base.methods or self.methods, base.protocols or self.protocols

    def only(self, bases: Sequence[str]) -> "ExperimentSettings":
        """The same settings with only the named base LMs. Raises ConfigError if a name is unknown."""
        names = [base.name for base in self.bases]
        for name in bases:
            if name not in names:
                raise ConfigError(f"The suite has no base LM {name!r}.", hint=f"It has {', '.join(names)}.")
        return self.model_copy(update={"bases": [base for base in self.bases if base.name in bases]})


def load_suite(name: str, folder: Path | None = None) -> ExperimentSettings:
    """Load a built-in suite or a TOML file; relative paths are resolved against `folder`, or the working directory."""
    try:
        text = (_SUITES / f"{name}.toml" if name in suite_names() else Path(name)).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        hint = f"Suites: {', '.join(suite_names())}; or a TOML file."
        raise ConfigError(f"There is no suite {name!r}.", hint=hint) from error
    settings = parse_settings(text, name)
    settings = settings.model_copy(update={"datasets": [dataset.placed(folder) for dataset in settings.datasets]})
    require_usable(settings, name)
    return settings


def settings_in(folder: Path) -> ExperimentSettings:
    """The settings of the experiment in a folder."""
    return _validated(ExperimentFolder(folder).settings(), str(folder))


def parse_settings(text: str, origin: str) -> ExperimentSettings:
    """Parse TOML from `origin`."""
    try:
        return _validated(tomllib.loads(text), origin)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not valid TOML: {error}.", hint="Repair it.") from error


def _validated(table: dict[str, Any], origin: str) -> ExperimentSettings:
    try:
        return ExperimentSettings.model_validate(table)
    except ValidationError as error:
        raise ConfigError(f"{origin}: {first_fault(error)}.", hint="docs/evaluation.md shows every setting.") from error


def is_retriever_reader(model: str) -> bool:
    """Whether a model is a retriever-reader such as mini, rather than one of the paper's method."""
    return isinstance(read_model_config(find_model(model) / CONFIG), RetrieverReaderConfig)


def require_usable(settings: ExperimentSettings, origin: str | None = None) -> None:
    """Raise ConfigError unless what an experiment names exists and fits together, before any data or model is loaded.

    `origin` is the file the settings come from; None if they come from the command line.
    """
    if settings.read is not None:
        parse_read_mode(settings.read)
    for wrong, hint in _faults(settings):
        raise ConfigError(f"{origin}: {wrong}." if origin else f"{wrong[0].upper()}{wrong[1:]}.", hint=hint)
    for base in settings.bases:
        if base.preset is not None:
            load_preset(base.preset, base.changes)


def _faults(settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    yield from _faults_of_names(settings)
    for base in settings.bases:
        yield from _faults_of_base(base, settings)
    for base in settings.bases:
        methods, protocols = settings.of(base)
        if not any(METHODS[name].adapts and METHODS[name].control_of is None for name in methods):
            for protocol in {"retention", "scaling"}.intersection(protocols):
                wrong = f"none of the methods memorises documents, so {protocol} has nothing to measure"
                yield wrong, "Add one that does, such as mbc."
    learners = [name for name in _methods(settings) if METHODS[name].needs_training_data]
    learners += [f"the preset {base.preset}" for base in settings.bases if base.model is None]
    for dataset in settings.datasets:
        if learners and not dataset.train:
            wrong = f"there are no questions to train {', '.join(learners)} on for {dataset.title}"
            yield wrong, "Give questions to learn from: --train."


def _methods(settings: ExperimentSettings) -> list[str]:
    return list(dict.fromkeys(name for base in settings.bases for name in settings.of(base)[0]))


def _faults_of_names(settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    for name in [name for name in _methods(settings) if name not in METHODS]:
        yield f"there is no method {name!r}", f"Methods: {', '.join(METHODS)}."
    bases, datasets = [base.name for base in settings.bases], [dataset.name for dataset in settings.datasets]
    named: list[tuple[str, Sequence[str]]] = [("base", bases), ("dataset", datasets)]
    for base in settings.bases:
        named += zip(("method", "protocol"), settings.of(base), strict=True)
    for kind, given in named:
        if not given:
            yield f"no {kind} is given", f"Name at least one {kind}."
        for name in given:
            if given.count(name) > 1:
                yield f"the {kind} {name!r} is given twice", "Name each once: its results have a folder of that name."
            if not name or Path(name).name != name:
                yield f"{name!r} cannot be the name of a {kind}", "It names a folder: use letters, digits and hyphens."
    for name, count in Counter(f"{base}-{dataset}" for base in bases for dataset in datasets).items():
        if count > 1:
            yield f"{count} cells would share the folder {name}", "Give every base and dataset a name of its own."


def _faults_of_base(base: BaseSettings, settings: ExperimentSettings) -> Iterator[tuple[str, str]]:
    title = base.title
    if (base.preset is None) == (base.model is None):
        yield f"the base {base.name!r} needs either a preset or a model", "Leave one of them out."
    methods, protocols = settings.of(base)
    if base.model is not None and "code-usage" in protocols:
        yield f"code-usage trains a preset, but {title} is a model", "Give a preset in its place."
    try:
        reads = base.model is not None and is_retriever_reader(base.model)
    except ModelError:  # reported when the model is looked for
        return
    for name in methods:
        if reads and not METHODS[name].is_retriever_reader:
            wrong = f"the method {name} needs a model of the paper's method, and {title} is a retriever-reader"
            yield wrong, "Use --method retriever-reader, or a model or preset of the paper's method."
        elif METHODS[name].is_retriever_reader and not reads:
            yield f"the method {name} needs a retriever-reader, which {title} is not", "Use --model mini."
    if reads and settings.read is not None:
        wrong = f"--read does not apply to {title}, which has only one way to search its bank"
        yield wrong, "It is for models of the paper's method."
