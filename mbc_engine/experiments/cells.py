"""A cell of an experiment: one base LM on one dataset, with its questions read and checked."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mbc_engine.config import Config, RetrieverReaderConfig, load_preset, parse_config, parse_model_config
from mbc_engine.datasets.by_name import load_examples, own_validation
from mbc_engine.datasets.example import QAExample
from mbc_engine.datasets.spacing import evenly_spaced
from mbc_engine.datasets.split import hold_out
from mbc_engine.errors import DataError
from mbc_engine.evaluation.stream import Stream, stream
from mbc_engine.experiments.settings import BaseSettings, DatasetSettings, ExperimentSettings
from mbc_engine.model_folder import CONFIG, find_model

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
