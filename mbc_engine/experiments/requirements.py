"""What an experiment needs, cell by cell: datasets and models, which of them are available, memory and time.

No hub is asked for anything and no model loaded. Memory and time are rough, from sizes alone: they tell what fits, and
hours from days. Counted are the products with a model's matrices, 2 operations a weight and token, twice as many again
to go back (Kaplan et al. 2020); weights, gradients and moments of what trains; and the activations that are kept to go
back (after Korthikanti et al. 2022). Expect half of it, or twice.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.config import EMBEDDED, Config, packaged_model
from mbc_engine.datasets import squad
from mbc_engine.datasets.by_name import file_of, is_of_hub, load_examples
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.experiments.cells import Cell, Stage, cells
from mbc_engine.experiments.registry import METHODS, published
from mbc_engine.experiments.settings import DatasetSettings, ExperimentSettings
from mbc_engine.machine import memory, usable_cores

if TYPE_CHECKING:
    from mbc_engine.paper.builder import Parameters

# What is assumed of texts, in tokens; an answer goes with its question.
DOCUMENT_TOKENS: Final = 256
QUESTION_TOKENS: Final = 32
ANSWER_TOKENS: Final = 16
ASSUMED: Final = (
    f"{DOCUMENT_TOKENS} tokens a document, {QUESTION_TOKENS} a question with its answer; float32, but for what a "
    "preset packs or trains in bf16; expect half of it, or twice"
)
_CAMELS_LAYERS: Final = 6
_FORWARD, _BACK_THROUGH, _BACK = 2, 4, 6  # operations a weight and token: without gradient, through, and with its own
_SINGLE: Final = 4  # bytes of a float
_MOMENTS: Final = {"adam": 2 * _SINGLE, "adafactor": 0}
# Operations a second that are kept up, not those of a data sheet: of a core, and of a large graphics card.
_CORE: Final = 4e10
_CARD: Final = 1e14
# The share of memory that a stage may be estimated to take; what it really takes may be more.
_ROOM: Final = 0.9
_UNKNOWN_MEMORY: Final = 1 << 62
_WEIGHTS: Final = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)


@dataclass(frozen=True)
class Availability:
    """A file, a dataset of the hub or a pretrained model that is needed; `status` says where it is or would come
    from, to follow "is", and `can_be_had` whether it is here or can be had while the experiment runs.
    """

    name: str
    is_here: bool
    status: str
    can_be_had: bool


@dataclass(frozen=True)
class Machine:
    """What there is to compute on: a torch device, bytes of memory, and operations a second, which are assumed."""

    device: str
    description: str
    memory: int
    speed: float
    has_hub: bool


@dataclass(frozen=True)
class CellRequirements:
    """A cell: data, pretrained models, stages. `unknown` says why there are no estimates, None if there are."""

    cell: str
    data: tuple[Availability, ...]
    models: tuple[Availability, ...]
    stages: tuple[Stage, ...]
    unknown: str | None

    @property
    def memory(self) -> int | None:
        """Bytes of the stage that takes most."""
        return max((stage.memory for stage in self.stages if stage.memory is not None), default=None)

    @property
    def hours(self) -> float | None:
        """Of all stages."""
        known = [stage.hours for stage in self.stages if stage.hours is not None]
        return sum(known) if known else None

    @property
    def possible(self) -> int:
        """How many stages can be done here."""
        return sum(1 for stage in self.stages if stage.obstacle is None)


def this_machine(device: str, *, has_hub: bool) -> Machine:
    """The machine that this process runs on, with a torch device that can be used here."""
    if device.startswith("cuda"):
        import torch

        _, own = torch.cuda.mem_get_info(device)
        return Machine(device, torch.cuda.get_device_name(device), own, _CARD, has_hub)
    cores = usable_cores()
    return Machine(device, f"{cores} cores", memory() or _UNKNOWN_MEMORY, cores * _CORE, has_hub)


def requirements(
    settings: ExperimentSettings, machine: Machine, *, most_hours: float = 100.0
) -> Iterator[CellRequirements]:
    """What each cell needs, in order; stages that are estimated to take more than `most_hours` have that obstacle."""
    for cell in cells(settings):
        yield _of_cell(cell, machine, most_hours)


def obstacles(needed: Iterable[CellRequirements]) -> dict[tuple[str, str], str]:
    """Why stages cannot be done here, by cell and stage; not those that only follow from others."""
    return {
        (cell.cell, stage.name): stage.obstacle
        for cell in needed
        for stage in cell.stages
        if stage.obstacle and stage.follows is None
    }


def _of_cell(cell: Cell, machine: Machine, most_hours: float) -> CellRequirements:
    dataset = cell.dataset
    sources = [*dataset.train, *dataset.questions_train, dataset.validation or dataset.test, dataset.test]
    data = tuple(_source(source, machine.has_hub) for source in dict.fromkeys(sources))
    missing = next((one for one in data if not one.can_be_had), None)
    models: tuple[Availability, ...] = ()
    unknown, estimates = None, None
    try:
        if cell.is_of_retriever_reader:
            raise ConfigError(f"{cell.base.title} is a retriever-reader.")
        config = cell.config()
        names = dict.fromkeys([config.model.base, config.model.documents.name, config.model.questions.name])
        models = tuple(_model(name, machine.has_hub) for name in names)
        missing = missing or next((one for one in models if not one.can_be_had), None)
        epochs = cell.config(cell.settings.code_usage_changes).training.epochs
        estimates = Estimates.of_cell(cell, config, epochs)
    except MBCError as error:
        unknown = error.message
    lacking = f"{missing.name} is {missing.status}" if missing else None
    judged: dict[str, Stage] = {}
    for stage in cell.stages():
        found = replace(stage, obstacle=lacking)
        if estimates is not None:
            found = _estimated(stage, *estimates.of(stage), machine, most_hours, lacking)
        follows = next((need for need in stage.needs if judged[need].obstacle), None)
        if found.obstacle is None and follows is not None:
            found = replace(found, obstacle=f"{follows} cannot be done", follows=follows)
        judged[stage.name] = found
    return CellRequirements(cell.name, data, models, tuple(judged.values()), unknown)


def _estimated(
    stage: Stage, taken: int, operations: float, machine: Machine, most_hours: float, lacking: str | None
) -> Stage:
    """A stage with what stands in its way: something missing, too little memory, too much time."""
    hours, obstacle = operations / machine.speed / 3600, lacking
    if obstacle is None and taken > _ROOM * machine.memory:
        obstacle = (
            f"it takes about {taken / 1e9:.0f} GB of memory; "
            f"there are {machine.memory / 1e9:.0f} GB on {machine.description}"
        )
    if obstacle is None and hours > most_hours:
        obstacle = f"it takes about {hours:,.0f} hours on {machine.description}, more than the {most_hours:g} allowed"
    return replace(stage, memory=taken, hours=hours, obstacle=obstacle)


def _source(source: str, has_hub: bool) -> Availability:
    """A dataset: a file, generated, or of the hub."""
    path = file_of(source)
    if path is not None:
        is_here = path.exists()
        return Availability(source, is_here, "available" if is_here else "not available", can_be_had=is_here)
    if not is_of_hub(source):
        return Availability(source, True, "generated", can_be_had=True)
    from huggingface_hub import constants

    place = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    return _of_hub(source, (place / squad.HUB_ID.replace("/", "___")).is_dir(), has_hub)


def _model(name: str, has_hub: bool) -> Availability:
    """A pretrained model: in this package, a folder, an installed bundle, or of the hub."""
    from mbc_engine.lm.encoders import locate

    if name.startswith(EMBEDDED):
        is_here = packaged_model(name.removeprefix(EMBEDDED)).is_dir()
        return Availability(name, is_here, "in this package" if is_here else "not in this package", is_here)
    if Path(locate(name)).is_dir():
        return Availability(name, True, "in a folder", can_be_had=True)
    return _of_hub(name, _is_cached_model(name), has_hub)


def _of_hub(name: str, is_here: bool, has_hub: bool) -> Availability:
    if is_here:
        return Availability(name, True, "in the hub cache", can_be_had=True)
    status = "available from the hub" if has_hub else "not in the hub cache, and the hub cannot be reached from here"
    return Availability(name, False, status, can_be_had=has_hub)


def _is_cached_model(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in _WEIGHTS)
    except ValueError:  # no name that a hub could know
        return False


@dataclass(frozen=True)
class Estimates:
    """Estimates for the stages of a cell, from `config`, which MBC is trained by, `optimiser`, which fine-tunes the base
    LM, and what is read (`_counts`). `stored` are bytes of MBC; `base`, `documents` and `questions` transformers' configs.
    """

    settings: ExperimentSettings
    config: Config
    optimiser: str
    usage_epochs: int
    counts: Mapping[str, int]
    stored: int
    trainable: int
    base_parameters: int
    base: Any
    documents: Any
    questions: Any

    @classmethod
    def of_cell(cls, cell: Cell, config: Config, usage_epochs: int) -> "Estimates":
        """The cell's, trained by `config`, with sizes counted on the meta device."""
        from mbc_engine.paper.builder import config_of

        table, model = _parameters(config), config.model
        base = table["base LM"]
        return cls(
            cell.settings,
            config,
            cell.base.optimiser,
            usage_epochs,
            _counts(cell.dataset, cell.settings),
            table["all"].bytes,
            table["all"].trainable,
            base.trainable + base.frozen,
            *map(config_of, (model.base, model.documents.name, model.questions.name)),
        )

    def of(self, stage: Stage) -> tuple[int, float]:
        """Bytes of memory that a stage takes, and operations."""
        if stage.kind == "prepare":
            return self._preparation(stage.subject)
        if stage.kind == "code-usage":
            return 0, 0.0
        documents, questions = self._stream(stage.kind)
        adapts, answers = self._of_method(stage.subject)
        return self._method_memory(stage.subject), documents * adapts + questions * answers

    def _preparation(self, name: str) -> tuple[int, float]:
        counts, settings = self.counts, self.settings
        match name:
            case "questions":
                own = settings.question_training
                return self._tuning(own.batch_size, QUESTION_TOKENS, own.epochs * counts["base-train"])
            case "reader":
                own = settings.reading_training
                return self._tuning(own.batch_size, QUESTION_TOKENS + DOCUMENT_TOKENS, own.epochs * counts["train"])
            case "camels":
                return self._meta_training()
            case _:  # MBC, or MAC, which is a codebook smaller
                is_usage = name in ("reset", "no-reset")
                return self._memory_training(self.usage_epochs if is_usage else self.config.training.epochs)

    def _memory_training(self, epochs: int) -> tuple[int, float]:
        training, model = self.config.training, self.config.model
        in_half = training.precision == "bf16"
        batch = -(-training.batch_size // training.accumulate)
        learnt = max(1, round(batch * (1 - training.backprop_dropout)))
        answered = training.question_window + training.answer_window
        taken = self.stored + self.trainable * 3 * _SINGLE
        taken += _activations(self.base, batch, answered, in_half) + _logits(self.base, batch, answered)
        operations = float(_BACK_THROUGH * _with_head(self.base) * QUESTION_TOKENS)
        if not model.documents.frozen:
            taken += _activations(self.documents, learnt, model.documents.window, in_half)
            back = _FORWARD + (_BACK - _FORWARD) * (1 - training.backprop_dropout)
            operations += back * _products(self.documents) * DOCUMENT_TOKENS
        if not model.questions.frozen:
            taken += _activations(self.questions, batch, training.question_window, in_half)
            operations += _BACK * _products(self.questions) * QUESTION_TOKENS
        if training.losses.reconstruction:
            operations += _BACK_THROUGH * _with_head(self.base) * training.losses.reconstruction_tokens
        return taken, operations * self.counts["train"] * epochs

    def _meta_training(self) -> tuple[int, float]:
        """An inner step without a graph: weights, their gradient, what becomes of both, and the weight model."""
        own, tokens = self.settings.camels, self.settings.document_window
        learner = 12 * min(_CAMELS_LAYERS, self.base.num_hidden_layers) * self.base.hidden_size**2
        taken = 4 * _SINGLE * (self.base_parameters + learner)
        taken += _activations(self.base, own.inner_documents, tokens) + _logits(self.base, own.inner_documents, tokens)
        seen = own.steps * own.inner_batches * own.inner_documents * DOCUMENT_TOKENS
        return taken, float(seen) * (2 * _BACK * _with_head(self.base) + _BACK * learner)

    def _tuning(self, batch: int, tokens: int, examples: int) -> tuple[int, float]:
        """A base LM that trains: its weights, their gradients and moments, activations and logits."""
        taken = self.base_parameters * (2 * _SINGLE + _MOMENTS[self.optimiser])
        taken += _activations(self.base, batch, tokens) + _logits(self.base, batch, tokens)
        return taken, float(_BACK) * _with_head(self.base) * tokens * examples

    def _of_method(self, method: str) -> tuple[float, float]:
        """Operations to take in a document, and to answer a question."""
        kind, lm = METHODS[method], _with_head(self.base)
        answer = _FORWARD * lm * (QUESTION_TOKENS + ANSWER_TOKENS)
        if kind.weights is not None:
            return _BACK * lm * DOCUMENT_TOKENS, answer
        if "reader" in kind.needs:
            return 0, answer + _FORWARD * lm * DOCUMENT_TOKENS
        if "questions" in kind.needs:
            return 0, answer
        asked = _FORWARD * _products(self.questions) * QUESTION_TOKENS
        return _FORWARD * _products(self.documents) * DOCUMENT_TOKENS, answer + asked

    def _method_memory(self, method: str) -> int:
        kind = METHODS[method]
        if kind.weights is not None:
            return self._tuning(1, self.settings.document_window, 0)[0]
        return self.stored if {"mac", "mbc"} & {*kind.needs} else _SINGLE * self.base_parameters

    def _stream(self, kind: str) -> tuple[float, float]:
        """Documents taken in and questions asked by a protocol, or by the sweep of rates."""
        counts, settings = self.counts, self.settings
        each = counts["questions"] / max(1, counts["documents"])
        if kind == "rate":
            tried = len(settings.rates)
            return tried * counts["swept documents"], tried * counts["swept questions"]
        if kind == "retention":
            own = settings.retention
            asked = (1 + own.further // own.step) * min(own.first, counts["documents"])
            return min(own.first + own.further, counts["documents"]), asked * each
        if kind == "scaling":
            documents = sum(min(step, counts["documents"]) for step in settings.scaling)
            return documents, documents * each
        return counts["documents"], counts["questions"]


def _products(config: Any) -> int:
    """Weights that a token is multiplied with in the layers; every family of transformers calls these alike."""
    weights: int = 12 * config.num_hidden_layers * config.hidden_size**2
    return weights


def _with_head(config: Any) -> int:
    weights: int = _products(config) + config.vocab_size * config.hidden_size
    return weights


def _activations(config: Any, batch: int, tokens: int, in_half: bool = False) -> int:
    """Bytes that are kept to go back through the layers."""
    single: int = batch * tokens * config.num_hidden_layers
    single *= 34 * config.hidden_size + 5 * config.num_attention_heads * tokens
    return single if in_half else 2 * single


def _logits(config: Any, batch: int, tokens: int) -> int:
    """Bytes of logits and their gradient."""
    taken: int = 2 * _SINGLE * batch * tokens * config.vocab_size
    return taken


@cache
def _parameters(config: Config) -> "dict[str, Parameters]":
    from mbc_engine.paper.builder import parameter_table

    return parameter_table(config.model)


def _counts(dataset: DatasetSettings, settings: ExperimentSettings) -> dict[str, int]:
    """Questions trained on, of the two kinds; documents and questions that rates are swept on and that are tested with.

    Counted where the files are here; else as the paper counts the dataset of this name, if it has it.
    """
    test = _documents_and_questions([dataset.test], dataset.name, "test")
    documents = min(settings.documents, test[0])
    asked = round(test[1] * documents / max(1, test[0]))
    train = _documents_and_questions(dataset.train, dataset.name, "train")
    swept = _documents_and_questions([dataset.validation] if dataset.validation else [], dataset.name, "validation")
    swept = swept if swept[0] else train
    held = min(dataset.most_validation, swept[0])
    base_train = _documents_and_questions(dataset.questions_train, dataset.name, "base-train")[1] or train[1]
    most = dataset.most_train or max(train[1], base_train)
    return {
        "train": min(train[1], most),
        "base-train": min(base_train, most),
        "swept documents": held,
        "swept questions": round(swept[1] * held / max(1, swept[0])),
        "documents": documents,
        "questions": min(asked, settings.questions or asked),
    }


def _documents_and_questions(sources: Sequence[str], dataset: str, part: str) -> tuple[int, int]:
    """How many documents and questions there are; the paper's count of questions stands for that of documents."""
    counted = published()["questions"].get(dataset)
    documents = asked = 0
    for source in sources:
        path = file_of(source)
        own = (counted[part], counted[part]) if counted else (0, 0)
        if path.exists() if path else not is_of_hub(source):
            own = _counted(source)
        documents, asked = documents + own[0], asked + own[1]
    return documents, asked


@cache
def _counted(source: str) -> tuple[int, int]:
    examples = load_examples(source)
    return len({example.text for example in examples}), len(examples)
