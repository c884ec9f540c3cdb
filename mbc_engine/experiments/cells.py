"""Settings of an experiment: base LMs × datasets × methods × protocols, typed and checked, as TOML on the disk.

A cell of an experiment: one base LM on one dataset, with its questions read and checked.

What a preset is compared with: the same but for the one thing whose worth is in question.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, NonNegativeInt, PositiveInt

from mbc_engine.config import Config, RetrieverReaderConfig, load_preset, parse_config, parse_model_config
from mbc_engine.datasets.by_name import load_examples, own_validation
from mbc_engine.datasets.layout import QAExample, evenly_spaced
from mbc_engine.datasets.questions import hold_out
from mbc_engine.errors import DataError
from mbc_engine.evaluation.protocols import Stream, stream
from mbc_engine.model_folder import CONFIG, find_model

Rate = Annotated[FiniteFloat, Field(gt=0)]
Protocol = Literal["online", "retention", "scaling", "code-usage"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BaseSettings(_Settings):
    """A row of the table: a base LM and what is built around it."""

    name: str = Field(description="short, for folders")
    title: str = Field(description="as the table shows it")
    preset: str | None = Field(None, description="preset or TOML file that MBC and MAC are trained by")
    changes: list[str] = Field([], description="section.key=value changes of the preset")
    model: str | None = Field(None, description="a trained MBC model, in place of a preset")
    optimiser: Literal["adam", "adafactor"] = Field("adam", description="of fine-tuning, with a preset or a model")


class DatasetSettings(_Settings):
    """A column of the table: questions to train on, to validate on, and to test with."""

    name: str
    title: str
    train: list[str] = []
    questions_train: list[str] = Field([], description="for the base LMs of fine-tuning; [] is `train`")
    validation: str | None = Field(None, description="None holds back documents of `train`")
    test: str
    most_train: PositiveInt | None = Field(None, description="most training questions")
    most_validation: PositiveInt = Field(200, description="most validation documents of a learning-rate sweep")


class QuestionSettings(_Settings):
    """How a base LM is trained on questions, without documents or with (paper, section 4.3.2)."""

    epochs: PositiveInt = 8
    batch_size: PositiveInt = 32
    learning_rate: Rate = 1e-4


class CamelsSettings(_Settings):
    """How CaMeLS' token weights are meta-trained."""

    steps: PositiveInt = 2000
    inner_documents: PositiveInt = Field(6, description="document-question-answer triples of an inner batch")
    inner_batches: PositiveInt = Field(4, description="inner batches whose outer gradients make a step")
    learning_rate: Rate = Field(1e-4, description="of the weight model")
    inner_rate: Rate = Field(5e-4, description="of the inner update of the base LM")
    locality: FiniteFloat = Field(0.1, ge=0, description="weight of the locality term")


class RetentionSettings(_Settings):
    """The retention protocol (paper, section 4.4.3)."""

    first: PositiveInt = Field(200, description="documents asked about")
    step: PositiveInt = 200
    further: PositiveInt = 1400


class ExperimentSettings(_Settings):
    """An experiment. `cells` are its bases × datasets."""

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


_HELD_BACK = 0.1


@dataclass(frozen=True)
class Cell:
    """A row and a column of the table."""

    base: BaseSettings
    dataset: DatasetSettings

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"{self.base.name}-{self.dataset.name}"

    @property
    def is_of_retriever_reader(self) -> bool:
        """Whether its model is a retriever-reader, so that there is no base LM.

        Raises:
            ConfigError: the model's config cannot be used.
            ModelError: there is no such model.
        """
        return self.base.model is not None and is_retriever_reader(self.base.model)

    def config(self, changes: Sequence[str] = ()) -> Config:
        """What MBC is trained by here, or was, with further `section.key=value` changes.

        Raises:
            ConfigError: it cannot be used.
            ModelError: there is no such model.
        """
        base = self.base
        if base.model is None:
            return load_preset(base.preset or "", [*base.changes, *changes])
        path = find_model(base.model) / CONFIG
        return parse_config(path.read_text(encoding="utf-8"), str(path), list(changes))


@dataclass(frozen=True)
class CellData:
    """The questions of a cell.

    Attributes:
        train: what MBC, MAC, token weights and readers learn from; empty where there is nothing to learn from.
        question_train: what the base LMs of fine-tuning learn to answer from.
        validation: what training and learning rates are chosen by.
        test: the stream that is adapted to and asked about.
    """

    train: list[QAExample]
    question_train: list[QAExample]
    validation: list[QAExample]
    test: Stream

    @property
    def training_documents(self) -> list[str]:
        """The distinct documents that are trained on, in order."""
        return list(dict.fromkeys(example.text for example in self.train))

    def digest(self) -> str:
        """What tells these questions, documents and answers from others."""
        found = hashlib.sha256()
        for part in (self.train, self.question_train, self.validation, self.test.examples):
            for example in part:
                found.update(json.dumps([example.id, example.text, example.question, example.answers]).encode())
            found.update(b"\n")
        return found.hexdigest()[:16]


def is_retriever_reader(model: str) -> bool:
    """Whether a model is a retriever-reader such as mini; else it is one of the paper's method.

    Raises:
        ConfigError: its config cannot be used.
        ModelError: there is no such model.
    """
    path = find_model(model) / CONFIG
    return isinstance(parse_model_config(path.read_text(encoding="utf-8"), str(path)), RetrieverReaderConfig)


def cells(settings: ExperimentSettings) -> Iterator[Cell]:
    """All cells, base by base."""
    for base in settings.bases:
        for dataset in settings.datasets:
            yield Cell(base, dataset)


def read_data(cell: Cell, settings: ExperimentSettings) -> CellData:
    """The questions of a cell.

    Raises:
        DataError: a dataset cannot be read, or documents that are tested with are trained on too.
    """
    dataset = cell.dataset
    test = stream(load_examples(dataset.test), settings.documents, settings.questions)
    train = _joined(dataset.train)
    validation: list[QAExample] = []
    place = dataset.validation or own_validation(dataset.train)
    if place:
        validation = load_examples(place)
    elif train:
        held = hold_out(train, _HELD_BACK)
        train, validation = held.training, held.validation
    question_train = _joined(dataset.questions_train) or train
    tested = set(test.documents)
    for part, told in ((train, "trained on"), (question_train, "trained on"), (validation, "validated on")):
        shared = len(tested & {example.text for example in part})
        if shared:
            raise DataError(
                f"{shared:,} of the {len(tested):,} documents of {dataset.test} are {told} too.",
                hint="Test with documents that nothing was learned from.",
            )
    return CellData(
        train=evenly_spaced(train, dataset.most_train),
        question_train=evenly_spaced(question_train, dataset.most_train),
        validation=[*stream(validation, dataset.most_validation).examples] if validation else [],
        test=test,
    )


def _joined(sources: Sequence[str]) -> list[QAExample]:
    return [example for source in sources for example in load_examples(source)]


def mac_of(config: Config) -> Config:
    """MAC, the paper's strongest rival: the same model without codes and without KV-LoRA (paper, section 4.3.2)."""
    model = config.model
    changes = {"quantised": False, "lora": model.lora.model_copy(update={"layers": 0}), "confidence": None}
    training = config.training.model_copy(update={"quantise_from": 0.0})
    return config.model_copy(update={"model": model.model_copy(update=changes), "training": training})


def without_reset(config: Config) -> Config:
    """The same without the online reset of dead codes (paper, sections 3.3 and 4.4.4)."""
    return config.model_copy(update={"training": config.training.model_copy(update={"reset_codes": False})})
