"""Rough memory and time of an experiment's stages, from sizes alone: what fits, and hours from days, before anything
is loaded.

Counted are the products with a model's matrices, 2 operations a weight and token, twice as many again to go back
(Kaplan et al. 2020); weights, gradients and moments of what trains; and the activations that are kept to go back (after
Korthikanti et al. 2022). Not counted is everything else: expect half of it, or twice.

Whether the files, datasets and pretrained models that an experiment needs are here; no hub is asked.

What an experiment needs, cell by cell, and what of it is here; no hub is asked for anything.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mbc_engine.config import Config
from mbc_engine.datasets.by_name import file_of, is_of_hub, load_examples
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.experiments.cells import Cell, DatasetSettings, ExperimentSettings, cells
from mbc_engine.experiments.reporting import Stage, stages
from mbc_engine.experiments.reporting import questions as published_questions
from mbc_engine.machine import memory, usable_cores
from mbc_engine.model_folder import EMBEDDED, packaged_model

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


@dataclass(frozen=True)
class Shape:
    """A pretrained part: its layers, their width and heads, its vocabulary, and all of its parameters."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    parameters: int

    @property
    def products(self) -> int:
        """Weights that a token is multiplied with in the layers."""
        return 12 * self.layers * self.width**2

    def with_head(self) -> int:
        """The same with the head of an LM."""
        return self.products + self.vocabulary * self.width

    def activations(self, batch: int, tokens: int, *, in_half: bool) -> int:
        """Bytes that are kept to go back through the layers."""
        single = batch * tokens * self.layers * (34 * self.width + 5 * self.heads * tokens)
        return single if in_half else 2 * single

    def logits(self, batch: int, tokens: int) -> int:
        """Bytes of logits and their gradient."""
        return 2 * _SINGLE * batch * tokens * self.vocabulary


@dataclass(frozen=True)
class Counts:
    """How much a cell reads: questions trained on, of the two kinds; documents and questions that rates are swept on,
    and that are tested with."""

    train: int
    base_train: int
    swept_documents: int
    swept_questions: int
    documents: int
    questions: int


@dataclass(frozen=True)
class Sizes:
    """What is known of a cell's models before they are loaded."""

    config: "Config"
    table: "Mapping[str, Parameters]"
    base: Shape
    documents: Shape
    questions: Shape


@dataclass(frozen=True)
class Estimate:
    """What a stage takes: bytes of memory, and operations."""

    memory: int
    operations: float


class Estimates:
    """Estimates for the stages of a cell.

    Args:
        sizes: of its models.
        counts: of what it reads.
        settings: of the experiment.
        optimiser: what fine-tunes the base LM.
        usage_epochs: of the two trainings whose code usage is compared.
    """

    def __init__(
        self, sizes: Sizes, counts: Counts, settings: "ExperimentSettings", optimiser: str, usage_epochs: int
    ) -> None:
        self._sizes, self._counts, self._settings = sizes, counts, settings
        self._optimiser, self._usage_epochs = optimiser, usage_epochs

    def of(self, stage: "Stage") -> Estimate:
        """What a stage takes."""
        if stage.kind == "prepare":
            return self._preparations[stage.subject]()
        if stage.kind == "code-usage":
            return Estimate(0, 0.0)
        documents, questions = self._stream(stage.kind)
        if stage.kind == "rate":
            documents, questions = documents * len(self._settings.rates), questions * len(self._settings.rates)
        adapts, answers = self._of_method(stage.subject)
        return Estimate(self._method_memory(stage.subject), documents * adapts + questions * answers)

    @property
    def _preparations(self) -> Mapping[str, Callable[[], Estimate]]:
        usage = partial(self._memory_training, self._usage_epochs)
        memory = partial(self._memory_training, self._sizes.config.training.epochs)
        return {
            "mbc": memory,
            "mac": memory,
            "reset": usage,
            "no-reset": usage,
            "questions": self._question_training,
            "reader": self._reading_training,
            "camels": self._meta_training,
        }

    def _memory_training(self, epochs: int) -> Estimate:
        """MBC or MAC; MAC is a codebook smaller."""
        sizes, training = self._sizes, self._sizes.config.training
        model, in_half = sizes.config.model, training.precision == "bf16"
        batch = -(-training.batch_size // training.accumulate)
        learnt = max(1, round(batch * (1 - training.backprop_dropout)))
        answered = training.question_window + training.answer_window
        memory = sizes.table["all"].bytes + sizes.table["all"].trainable * 3 * _SINGLE
        memory += sizes.base.activations(batch, answered, in_half=in_half) + sizes.base.logits(batch, answered)
        operations = float(_BACK_THROUGH * sizes.base.with_head() * QUESTION_TOKENS)
        if not model.documents.frozen:
            memory += sizes.documents.activations(learnt, model.documents.window, in_half=in_half)
            back = _FORWARD + (_BACK - _FORWARD) * (1 - training.backprop_dropout)
            operations += back * sizes.documents.products * DOCUMENT_TOKENS
        if not model.questions.frozen:
            memory += sizes.questions.activations(batch, training.question_window, in_half=in_half)
            operations += _BACK * sizes.questions.products * QUESTION_TOKENS
        if training.losses.reconstruction:
            operations += _BACK_THROUGH * sizes.base.with_head() * training.losses.reconstruction_tokens
        return Estimate(memory, operations * self._counts.train * epochs)

    def _question_training(self) -> Estimate:
        own = self._settings.question_training
        return self._tuning(own.batch_size, QUESTION_TOKENS, own.epochs * self._counts.base_train)

    def _reading_training(self) -> Estimate:
        own = self._settings.reading_training
        return self._tuning(own.batch_size, QUESTION_TOKENS + DOCUMENT_TOKENS, own.epochs * self._counts.train)

    def _meta_training(self) -> Estimate:
        """An inner step without a graph: weights, their gradient, what becomes of both, and the weight model."""
        own, base = self._settings.camels, self._sizes.base
        tokens = self._settings.document_window
        learner = 12 * min(_CAMELS_LAYERS, base.layers) * base.width**2
        memory = 4 * _SINGLE * base.parameters + 4 * _SINGLE * learner
        memory += base.activations(own.inner_documents, tokens, in_half=False) + base.logits(
            own.inner_documents, tokens
        )
        seen = own.steps * own.inner_batches * own.inner_documents * DOCUMENT_TOKENS
        return Estimate(memory, float(seen) * (2 * _BACK * base.with_head() + _BACK * learner))

    def _tuning(self, batch: int, tokens: int, examples: int) -> Estimate:
        base = self._sizes.base
        memory = self._tuned() + base.activations(batch, tokens, in_half=False) + base.logits(batch, tokens)
        return Estimate(memory, float(_BACK) * base.with_head() * tokens * examples)

    def _tuned(self) -> int:
        """Weights of the base LM, their gradients and moments."""
        return self._sizes.base.parameters * (2 * _SINGLE + _MOMENTS[self._optimiser])

    def _of_method(self, method: str) -> tuple[float, float]:
        """Operations to take in a document, and to answer a question."""
        from mbc_engine.experiments.registry import METHODS

        kind, sizes = METHODS[method], self._sizes
        answer = _FORWARD * sizes.base.with_head() * (QUESTION_TOKENS + ANSWER_TOKENS)
        if kind.weights is not None:
            return _BACK * sizes.base.with_head() * DOCUMENT_TOKENS, answer
        if "reader" in kind.needs:
            return 0, answer + _FORWARD * sizes.base.with_head() * DOCUMENT_TOKENS
        if "questions" in kind.needs:
            return 0, answer
        asked = _FORWARD * sizes.questions.products * QUESTION_TOKENS
        return _FORWARD * sizes.documents.products * DOCUMENT_TOKENS, answer + asked

    def _method_memory(self, method: str) -> int:
        from mbc_engine.experiments.registry import METHODS

        kind, base = METHODS[method], self._sizes.base
        if kind.weights is None:
            remembers = kind.name == "mac" or "mbc" in kind.needs
            return self._sizes.table["all"].bytes if remembers else _SINGLE * base.parameters
        window = self._settings.document_window
        return self._tuned() + base.activations(1, window, in_half=False) + base.logits(1, window)

    def _stream(self, kind: str) -> tuple[float, float]:
        """Documents taken in and questions asked by a protocol, or by a rate of a sweep."""
        counts, settings = self._counts, self._settings
        each = counts.questions / max(1, counts.documents)
        if kind == "rate":
            return counts.swept_documents, counts.swept_questions
        if kind == "retention":
            own = settings.retention
            first = min(own.first, counts.documents)
            steps = 1 + own.further // own.step
            return min(own.first + own.further, counts.documents), steps * first * each
        if kind == "scaling":
            documents = sum(min(step, counts.documents) for step in settings.scaling)
            return documents, documents * each
        return counts.documents, counts.questions


_WEIGHTS: Final = (
    *("model.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model.bin.index.json"),
)


@dataclass(frozen=True)
class Thing:
    """A file, a dataset of the hub or a pretrained model that is needed.

    Attributes:
        name: which.
        is_here: whether it is.
        told: where it is, or would come from, to follow "is".
        can_be_had: whether it is here or can be had while the experiment runs.
    """

    name: str
    is_here: bool
    told: str
    can_be_had: bool


def presence_of_source(source: str, *, has_hub: bool) -> Thing:
    """A dataset: a file, generated, or of the hub."""
    path = file_of(source)
    if path is not None:
        is_here = path.exists()
        return Thing(source, is_here, "there" if is_here else "not there", can_be_had=is_here)
    if not is_of_hub(source):
        return Thing(source, True, "generated", can_be_had=True)
    return _from_hub(source, is_here=_is_cached_dataset(), has_hub=has_hub)


def presence_of_model(name: str, *, has_hub: bool) -> Thing:
    """A pretrained model: in this package, a folder, an installed bundle, or of the hub."""
    from mbc_engine.lm.encoders import locate

    if name.startswith(EMBEDDED):
        is_here = packaged_model(name.removeprefix(EMBEDDED)).is_dir()
        return Thing(name, is_here, "in this package" if is_here else "not in this package", can_be_had=is_here)
    if Path(locate(name)).is_dir():
        return Thing(name, True, "in a folder", can_be_had=True)
    return _from_hub(name, is_here=_is_cached_model(name), has_hub=has_hub)


def _from_hub(name: str, *, is_here: bool, has_hub: bool) -> Thing:
    if is_here:
        return Thing(name, True, "in the hub cache", can_be_had=True)
    told = "to be had from the hub" if has_hub else "not in the hub cache, and the hub cannot be asked from here"
    return Thing(name, False, told, can_be_had=has_hub)


def _is_cached_model(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return any(isinstance(try_to_load_from_cache(name, file), str) for file in _WEIGHTS)
    except ValueError:  # no name that a hub could know
        return False


def _is_cached_dataset() -> bool:
    from huggingface_hub import constants

    from mbc_engine.datasets.squad import HUB_ID

    place = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    return (place / HUB_ID.replace("/", "___")).is_dir()


# Operations a second that are kept up, not those of a data sheet: of a core, and of a large graphics card.
_CORE: Final = 4e10
_CARD: Final = 1e14
_HOUR: Final = 3600
# Hours that nobody means to spend on one stage without saying so.
PATIENCE: Final = 100.0
# The share of memory that a stage may be estimated to take; what it really takes may be more.
_ROOM: Final = 0.9
# Bytes that are taken for granted where the system does not tell.
_UNTOLD: Final = 1 << 62


@dataclass(frozen=True)
class Machine:
    """What there is to compute on.

    Attributes:
        device: as torch calls it.
        told: in words.
        memory: bytes that models can take there.
        speed: operations a second, assumed.
        has_hub: whether models and datasets can be had from the hub.
    """

    device: str
    told: str
    memory: int
    speed: float
    has_hub: bool


@dataclass(frozen=True)
class StageNeeds:
    """A stage: its name, what it takes if that can be told, how long that is here, and why it cannot be done here.

    `follows` is the earlier stage in whose way something stands, if that is all.
    """

    stage: str
    memory: int | None
    hours: float | None
    obstacle: str | None
    follows: str | None = None


@dataclass(frozen=True)
class CellNeeds:
    """A cell: data, pretrained models, stages. `unknown` says why there are no estimates, None if there are."""

    cell: str
    data: tuple[Thing, ...]
    models: tuple[Thing, ...]
    stages: tuple[StageNeeds, ...]
    unknown: str | None

    @property
    def memory(self) -> int | None:
        """Of the stage that takes most."""
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
    """The machine that this process runs on.

    Args:
        device: a torch device that can be used here.
        has_hub: whether the hub can be asked.
    """
    if device.startswith("cuda"):
        import torch

        _, own = torch.cuda.mem_get_info(device)
        return Machine(device, torch.cuda.get_device_name(device), own, _CARD, has_hub)
    cores = usable_cores()
    return Machine(device, f"{cores} cores", memory() or _UNTOLD, cores * _CORE, has_hub)


def needs(settings: ExperimentSettings, machine: Machine, *, most_hours: float = PATIENCE) -> Iterator[CellNeeds]:
    """What each cell needs, in order.

    Args:
        settings: of the experiment.
        machine: where it is to run.
        most_hours: stages that are estimated to take longer are told as obstacles.
    """
    for cell in cells(settings):
        yield _cell_needs(cell, settings, machine, most_hours)


def obstacles(needed: Iterable[CellNeeds]) -> dict[tuple[str, str], str]:
    """Why stages cannot be done here, by cell and stage; not those that only follow from others."""
    return {
        (cell.cell, stage.stage): stage.obstacle
        for cell in needed
        for stage in cell.stages
        if stage.obstacle and stage.follows is None
    }


def _cell_needs(cell: Cell, settings: ExperimentSettings, machine: Machine, most_hours: float) -> CellNeeds:
    data = tuple(presence_of_source(source, has_hub=machine.has_hub) for source in _sources(cell.dataset))
    missing = next((thing for thing in data if not thing.can_be_had), None)
    models: tuple[Thing, ...] = ()
    unknown = None
    found: list[tuple[Stage, Estimate | None]] = [(stage, None) for stage in stages(cell, settings)]
    try:
        config = _estimated_config(cell)
        models = tuple(presence_of_model(name, has_hub=machine.has_hub) for name in _pretrained(config))
        missing = missing or next((thing for thing in models if not thing.can_be_had), None)
        usage = cell.config(settings.code_usage_changes)
        estimates = Estimates(
            _sizes(config), _counts(cell.dataset, settings), settings, cell.base.optimiser, usage.training.epochs
        )
        found = [(stage, estimates.of(stage)) for stage in stages(cell, settings)]
    except MBCError as error:
        unknown = error.message
    lacking = f"{missing.name} is {missing.told}" if missing else None
    judged: dict[str, StageNeeds] = {}
    for stage, estimate in found:
        own = _judged(stage.name, estimate, machine, most_hours, lacking)
        follows = next((need for need in stage.needs if judged[need].obstacle), None)
        if own.obstacle is None and follows is not None:
            own = replace(own, obstacle=f"{follows} cannot be done", follows=follows)
        judged[stage.name] = own
    return CellNeeds(cell.name, data, models, tuple(judged.values()), unknown)


def _estimated_config(cell: Cell) -> Config:
    """The config that is estimated by. Raises MBCError if there is none."""
    if cell.is_of_retriever_reader:
        raise ConfigError(f"{cell.base.title} is a retriever-reader.")
    return cell.config()


def _judged(
    name: str, estimate: Estimate | None, machine: Machine, most_hours: float, lacking: str | None
) -> StageNeeds:
    """A stage with what stands in its way: something missing, too little memory, too much time."""
    if estimate is None:
        return StageNeeds(name, None, None, lacking)
    hours, obstacle = estimate.operations / machine.speed / _HOUR, lacking
    if obstacle is None and estimate.memory > _ROOM * machine.memory:
        there = f"{machine.memory / 1e9:.0f} GB on {machine.told}"
        obstacle = f"it takes about {estimate.memory / 1e9:.0f} GB of memory; there are {there}"
    if obstacle is None and hours > most_hours:
        obstacle = f"it takes about {hours:,.0f} hours on {machine.told}, more than the {most_hours:g} allowed"
    return StageNeeds(name, estimate.memory, hours, obstacle)


def _sources(dataset: DatasetSettings) -> list[str]:
    own = [*dataset.train, *dataset.questions_train, *([dataset.validation] if dataset.validation else [])]
    return list(dict.fromkeys([*own, dataset.test]))


def _pretrained(config: Config) -> list[str]:
    return list(dict.fromkeys([config.model.base, config.model.documents.name, config.model.questions.name]))


@cache
def _sizes(config: Config) -> Sizes:
    """Sizes counted on the meta device.

    Raises:
        ModelError: those of a pretrained part are not known here.
    """
    from mbc_engine.paper.builder import parameter_table

    table = parameter_table(config.model)
    base = table["base LM"]
    return Sizes(
        config,
        table,
        _shape(config.model.base, base.trainable + base.frozen),
        _shape(config.model.documents.name, table["amortizer"].trainable + table["amortizer"].frozen),
        _shape(config.model.questions.name, table["question encoder"].trainable + table["question encoder"].frozen),
    )


def _shape(name: str, parameters: int) -> Shape:
    from mbc_engine.paper.builder import config_of

    config: Any = config_of(name)  # every family calls these four the same
    return Shape(
        config.num_hidden_layers, config.hidden_size, config.num_attention_heads, config.vocab_size, parameters
    )


def _counts(dataset: DatasetSettings, settings: ExperimentSettings) -> Counts:
    """Counted where the files are here; else as the paper counts the dataset of this name, if it has it."""
    tested = _documents_and_questions([dataset.test], dataset.name, "test")
    documents = min(settings.documents, tested[0])
    asked = round(tested[1] * documents / max(1, tested[0]))
    train = _documents_and_questions(dataset.train, dataset.name, "train")
    swept = _documents_and_questions([dataset.validation] if dataset.validation else [], dataset.name, "validation")
    swept = swept if swept[0] else train
    held = min(dataset.most_validation, swept[0])
    base_train = _documents_and_questions(dataset.questions_train, dataset.name, "base_train")[1] or train[1]
    most = dataset.most_train or max(train[1], base_train)
    return Counts(
        train=min(train[1], most),
        base_train=min(base_train, most),
        swept_documents=held,
        swept_questions=round(swept[1] * held / max(1, swept[0])),
        documents=documents,
        questions=min(asked, settings.questions or asked),
    )


def _documents_and_questions(sources: Sequence[str], dataset: str, part: str) -> tuple[int, int]:
    """How many documents and questions there are; the paper's count of questions stands for that of documents."""
    told = published_questions().get(dataset)
    documents = asked = 0
    for source in sources:
        path = file_of(source)
        is_readable = path.exists() if path else not is_of_hub(source)
        if is_readable:
            own = _counted(source)
            documents, asked = documents + own[0], asked + own[1]
        elif told is not None:
            count: int = getattr(told, part)
            documents, asked = documents + count, asked + count
    return documents, asked


@cache
def _counted(source: str) -> tuple[int, int]:
    examples = load_examples(source)
    return len({example.text for example in examples}), len(examples)
