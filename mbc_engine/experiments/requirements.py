"""What an experiment needs, cell by cell: datasets and models, their availability, minimum memory, and hours.

Nothing is downloaded and no model is loaded. Memory is that of weights, gradients and moments; activations come on top.
Hours are floating-point operations divided by an assumed speed of the device: 2 per parameter and token forward, 6 in
training (Kaplan et al. 2020), for texts of an assumed length. They can be off by a factor of two. Questions in local
files are counted; otherwise the paper's counts are used for its datasets (section 4.1).
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_engine.config import Config, ModelSettings
from mbc_engine.datasets.by_name import HUB_ID, file_of, is_of_hub
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.experiments.cells import Cell, Stage, cells
from mbc_engine.experiments.registry import METHODS, published
from mbc_engine.experiments.settings import ExperimentSettings
from mbc_engine.machine import memory, usable_cores
from mbc_engine.methods.method import QuestionSettings

if TYPE_CHECKING:
    from mbc_engine.paper.builder import Parameters

_SINGLE: Final = 4  # bytes of a float
_MOMENTS: Final = {"adam": 2 * _SINGLE, "adafactor": 0}
# Operations per second of a core, measured when answering with SmolLM2-135M, and of a large GPU, assumed.
_CORE, _GPU = 1e11, 1e14
_BF16: Final = 5.0  # times as many on cores with bf16 instructions: training SmolLM2-135M reached 4.5 to 5.5e11
_DOCUMENT, _QUESTION = 256, 48  # tokens; a question includes its answer
ASSUMED: Final = f"{_DOCUMENT} tokens a document and {_QUESTION} a question with its answer; half or twice is possible"
_UNKNOWN_MEMORY: Final = 1 << 62
_WEIGHTS: Final = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Availability:
    """A required file, hub dataset or pretrained model; `status` is worded to follow "is", `can_be_had` says whether it
    is here or can be downloaded."""

    name: str
    is_here: bool
    status: str
    can_be_had: bool


@dataclass(frozen=True)
class Machine:
    """Hardware to compute on: a torch device, bytes of memory, and assumed operations per second, `bf16_gain` times as
    many in bf16."""

    device: str
    description: str
    memory: int
    speed: float
    has_hub: bool
    bf16_gain: float = 1.0


@dataclass(frozen=True)
class CellRequirements:
    """What a cell needs: data, pretrained models, stages. `unknown` says why there are no estimates, if so."""

    cell: str
    data: tuple[Availability, ...]
    models: tuple[Availability, ...]
    stages: tuple[Stage, ...]
    unknown: str | None

    @property
    def memory(self) -> int | None:
        return max((stage.memory for stage in self.stages if stage.memory is not None), default=None)

    @property
    def hours(self) -> float | None:
        known = [stage.hours for stage in self.stages if stage.hours is not None]
        return sum(known) if known else None

    @property
    def possible(self) -> int:
        return sum(1 for stage in self.stages if stage.obstacle is None)


def this_machine(device: str, *, has_hub: bool) -> Machine:
    """The machine this process runs on; `device` is a torch device usable here."""
    if device.startswith("cuda"):
        import torch

        return Machine(device, torch.cuda.get_device_name(device), torch.cuda.mem_get_info(device)[1], _GPU, has_hub)
    from mbc_engine.mini.span_reader import is_fast_in_bf16

    cores, gain = usable_cores(), _BF16 if device == "cpu" and is_fast_in_bf16() else 1.0
    return Machine(device, f"{cores} cores", memory() or _UNKNOWN_MEMORY, cores * _CORE, has_hub, gain)


def requirements(settings: ExperimentSettings, machine: Machine, *, max_hours: float = 100.0) -> list[CellRequirements]:
    """What each cell needs, in order; a stage estimated to take more than `max_hours` has that obstacle."""
    read: dict[str, Cell] = {}  # by dataset; a cell caches the questions it has read
    return [_of_cell(cell, read.setdefault(cell.dataset.name, cell), machine, max_hours) for cell in cells(settings)]


def obstacles(needed: Iterable[CellRequirements]) -> dict[tuple[str, str], str]:
    """Why stages cannot be done here, by cell and stage, leaving out those that only follow from others."""
    return {
        (cell.cell, stage.name): stage.obstacle
        for cell in needed
        for stage in cell.stages
        if stage.obstacle and stage.follows is None
    }


def _of_cell(cell: Cell, read: Cell, machine: Machine, max_hours: float) -> CellRequirements:
    dataset = cell.dataset
    sources = [*dataset.train, *dataset.questions_train, dataset.validation or dataset.test, dataset.test]
    data = tuple(_source(source, machine.has_hub) for source in dict.fromkeys(sources))
    models: tuple[Availability, ...] = ()
    config, counts, unknown = None, None, None
    try:
        if cell.is_of_retriever_reader:
            raise ConfigError(f"{cell.base.title} is a retriever-reader.")
        config = cell.config()
        names = dict.fromkeys([config.model.base, config.model.documents.name, config.model.questions.name])
        models = tuple(_model(name, machine.has_hub) for name in names)
        _parameters(config.model)
        counts = _counts(read, data)
    except MBCError as error:
        config, unknown = None, error.message
    missing = next((one for one in (*data, *models) if not one.can_be_had), None)
    judged: dict[str, Stage] = {}
    for stage in cell.stages():
        taken = None if config is None else _memory(stage, cell, config)
        hours = None
        if config and counts:
            speed = machine.speed * (machine.bf16_gain if _is_in_bf16(stage, cell, config) else 1)
            hours = _operations(stage, cell, config, counts) / speed / 3600
        obstacle, follows = f"{missing.name} is {missing.status}" if missing else None, None
        if obstacle is None and taken is not None and taken > machine.memory:
            room = f"only {machine.memory / 1e9:.0f} GB available ({machine.description})"
            obstacle = f"it needs at least {taken / 1e9:.0f} GB of memory; {room}"
        if obstacle is None and hours is not None and hours > max_hours:
            allowed = f"more than the {max_hours:g} allowed"
            obstacle = f"it takes about {hours:,.0f} hours on {machine.description}, {allowed}"
        if obstacle is None:
            follows = next((need for need in stage.needs if judged[need].obstacle), None)
            obstacle = f"{follows} cannot be done" if follows else None
        judged[stage.name] = replace(stage, memory=taken, hours=hours, obstacle=obstacle, follows=follows)
    return CellRequirements(cell.name, data, models, tuple(judged.values()), unknown)


def _memory(stage: Stage, cell: Cell, config: Config) -> int:
    """The minimum bytes of memory a stage takes: float32, except weights that the preset packs or that answer in bf16."""
    table = _parameters(config.model)
    stored, base_parameters = table["all"].bytes, table["base LM"].trainable + table["base LM"].frozen
    tuned = base_parameters * (2 * _SINGLE + _MOMENTS[cell.base.optimiser])
    match stage.kind, stage.subject:
        case "code-usage", _:
            return 0
        case "prepare", "questions" | "reader":
            return tuned
        case "prepare", "camels":  # weights and gradients, before and after an inner step
            return 4 * _SINGLE * base_parameters
        case "prepare", _:
            return stored + table["all"].trainable * 3 * _SINGLE
    kind = METHODS[stage.subject]
    if kind.is_fine_tuned:
        return tuned
    answering = base_parameters * (_SINGLE // 2 if _is_in_bf16(stage, cell, config) else _SINGLE)
    return stored if {"mac", "mbc", "mbc-unquantised"} & {*kind.needs} else answering


def _operations(stage: Stage, cell: Cell, config: Config, counts: dict[str, int]) -> float:
    settings, table = cell.settings, _parameters(config.model)
    encoder, base = table["amortizer"], table["base LM"].trainable + table["base LM"].frozen
    documents, questions = _stream(stage.kind, settings, counts)
    match stage.kind, stage.subject:
        case "code-usage", _:
            forward = 0
        case "prepare", "questions":
            forward = 3 * base * _QUESTION * _seen(settings.question_training, counts["base-train"])
        case "prepare", "reader":
            forward = 3 * base * (_DOCUMENT + _QUESTION) * _seen(settings.reading_training, counts["train"])
        case "prepare", "camels":  # an inner step in every step
            own = settings.camels
            forward = 6 * base * _DOCUMENT * own.steps * own.inner_batches * own.inner_documents
        case "prepare", name:  # states of frozen encoders are cached
            step = 3 * (encoder.trainable * (_DOCUMENT + _QUESTION) + base * _QUESTION)
            forward = cell.config_of(name).training.epochs * counts["train"] * step
        case _, name:
            kind, passed = METHODS[name], encoder.trainable + encoder.frozen
            forward = questions * base * _QUESTION
            if kind.is_fine_tuned:
                forward += documents * 3 * base * _DOCUMENT
            elif "reader" in kind.needs:
                forward += questions * base * _DOCUMENT
            elif "questions" not in kind.needs:
                forward += passed * (documents * _DOCUMENT + questions * _QUESTION)
    return 2 * forward


def _is_in_bf16(stage: Stage, cell: Cell, config: Config) -> bool:
    tuning = {"questions": cell.settings.question_training, "reader": cell.settings.reading_training}
    if stage.kind == "prepare":
        return stage.subject != "camels" and tuning.get(stage.subject, config.training).precision == "bf16"
    kind = METHODS.get(stage.subject)
    if kind is None or kind.is_fine_tuned:
        return False
    return any(tuning[need].precision == "bf16" for need in kind.needs if need in tuning)  # answers as it was tuned


def _seen(settings: QuestionSettings, questions: int) -> int:
    return settings.epochs * min(questions, settings.most_train or questions)


def _stream(kind: str, settings: ExperimentSettings, counts: dict[str, int]) -> tuple[int, int]:
    documents, questions, own = counts["documents"], counts["questions"], settings.retention
    if kind == "rate":
        return len(settings.rates) * counts["swept documents"], len(settings.rates) * counts["swept questions"]
    if kind == "scaling":
        asked = min(settings.bank_documents or documents, documents)  # already measured by the online stage
        sizes = sum(size <= documents and size != asked for size in settings.scaling)
        return sizes * documents, sizes * questions
    retained = range(own.first, min(own.first + own.further, documents) + 1, own.step)
    if kind != "retention" or not retained:
        return documents, questions
    return retained[-1], len(retained) * questions * own.first // documents


def _counts(cell: Cell, data: Iterable[Availability]) -> dict[str, int] | None:
    """Training questions, and documents and questions of a sweep and of the stream; None if they cannot be counted."""
    if all(one.is_here and not is_of_hub(one.name) for one in data):
        documents = len(cell.test.documents)
        return {
            "train": len(cell.train),
            "base-train": len(cell.question_train),
            "swept documents": len({example.text for example in cell.validation}),
            "swept questions": len(cell.validation),
            "documents": documents,
            "questions": len(cell.test.asked_about(documents)),
        }
    dataset, paper = cell.dataset, published()["questions"].get(cell.dataset.name)
    if paper is None:
        return None
    documents, swept = min(cell.settings.documents, paper["test"]), min(dataset.most_validation, paper["validation"])
    return {
        **{part: min(paper[part], dataset.most_train or paper[part]) for part in ("train", "base-train")},
        "swept documents": swept,
        "swept questions": swept,
        "documents": documents,
        "questions": min(documents, cell.settings.questions or documents),
    }


@cache
def _parameters(model: ModelSettings) -> "dict[str, Parameters]":
    from mbc_engine.paper.builder import parameter_table

    return parameter_table(model)


def _source(source: str, has_hub: bool) -> Availability:
    path = file_of(source)
    if path is not None:
        is_here = path.exists()
        return Availability(source, is_here, "available" if is_here else "not available", can_be_had=is_here)
    if not is_of_hub(source):
        return Availability(source, True, "generated", can_be_had=True)
    from huggingface_hub import constants

    place = Path(os.environ.get("HF_DATASETS_CACHE") or Path(constants.HF_HOME) / "datasets")
    return _of_hub(source, (place / HUB_ID.replace("/", "___")).is_dir(), has_hub)


def _model(name: str, has_hub: bool) -> Availability:
    from mbc_engine.lm.packaged import is_local, local_folder

    if is_local(name):
        return Availability(name, True, "in a folder", can_be_had=True)
    place = local_folder(name)
    is_here = place is not None and any((place / file).is_file() for file in _WEIGHTS)
    return _of_hub(name, is_here, has_hub)


def _of_hub(name: str, is_here: bool, has_hub: bool) -> Availability:
    if is_here:
        return Availability(name, True, "in the hub cache", can_be_had=True)
    status = "available from the hub" if has_hub else "not in the hub cache, and the hub cannot be reached from here"
    return Availability(name, False, status, can_be_had=has_hub)
