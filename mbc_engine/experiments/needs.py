"""What an experiment needs, cell by cell, and what of it is here; no hub is asked for anything.

Whatever is missing is a finding, not an error. A new thing that can be missing is one entry more in `CellNeeds`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from mbc_engine.config import Config
from mbc_engine.datasets.by_name import file_of, is_of_hub, load_examples
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.experiments.cells import Cell, cells
from mbc_engine.experiments.estimates import Counts, Estimate, Estimates, Shape, Sizes
from mbc_engine.experiments.presence import Thing, presence_of_model, presence_of_source
from mbc_engine.experiments.published import questions as published_questions
from mbc_engine.experiments.settings import DatasetSettings, ExperimentSettings
from mbc_engine.experiments.stages import Stage, stages
from mbc_engine.machine import memory, usable_cores

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
    from mbc_engine.model.skeleton import parameter_table

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
    from mbc_engine.model.skeleton import config_of

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
