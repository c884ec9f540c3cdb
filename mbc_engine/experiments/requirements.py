"""What an experiment needs, cell by cell: datasets and models, which of them are available, and the least memory.

No hub is asked for anything and no model loaded. Memory is that of weights, gradients and moments; activations come on
top.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_engine.config import Config, ModelSettings
from mbc_engine.datasets import squad
from mbc_engine.datasets.by_name import file_of, is_of_hub
from mbc_engine.errors import ConfigError, MBCError
from mbc_engine.experiments.cells import Cell, Stage, cells
from mbc_engine.experiments.registry import METHODS
from mbc_engine.experiments.settings import ExperimentSettings
from mbc_engine.machine import memory, usable_cores

if TYPE_CHECKING:
    from mbc_engine.paper.builder import Parameters

_SINGLE: Final = 4  # bytes of a float
_MOMENTS: Final = {"adam": 2 * _SINGLE, "adafactor": 0}
_UNKNOWN_MEMORY: Final = 1 << 62
_WEIGHTS: Final = ("model.safetensors", "model.safetensors.index.json")


@dataclass(frozen=True)
class Availability:
    """A file, a dataset of the hub or a pretrained model that is needed; `status` follows "is", and `can_be_had` says
    whether it is here or can be downloaded."""

    name: str
    is_here: bool
    status: str
    can_be_had: bool


@dataclass(frozen=True)
class Machine:
    """What there is to compute on: a torch device, and bytes of memory."""

    device: str
    description: str
    memory: int
    has_hub: bool


@dataclass(frozen=True)
class CellRequirements:
    """A cell: data, pretrained models, stages. `unknown` says why the memory is not known, if so."""

    cell: str
    data: tuple[Availability, ...]
    models: tuple[Availability, ...]
    stages: tuple[Stage, ...]
    unknown: str | None

    @property
    def memory(self) -> int | None:
        return max((stage.memory for stage in self.stages if stage.memory is not None), default=None)

    @property
    def possible(self) -> int:
        return sum(1 for stage in self.stages if stage.obstacle is None)


def this_machine(device: str, *, has_hub: bool) -> Machine:
    """The machine that this process runs on, with a torch device that can be used here."""
    if device.startswith("cuda"):
        import torch

        return Machine(device, torch.cuda.get_device_name(device), torch.cuda.mem_get_info(device)[1], has_hub)
    return Machine(device, f"{usable_cores()} cores", memory() or _UNKNOWN_MEMORY, has_hub)


def requirements(settings: ExperimentSettings, machine: Machine) -> list[CellRequirements]:
    """What each cell needs, in order."""
    return [_of_cell(cell, machine) for cell in cells(settings)]


def obstacles(needed: Iterable[CellRequirements]) -> dict[tuple[str, str], str]:
    """Why stages cannot be done here, by cell and stage; not those that only follow from others."""
    return {
        (cell.cell, stage.name): stage.obstacle
        for cell in needed
        for stage in cell.stages
        if stage.obstacle and stage.follows is None
    }


def _of_cell(cell: Cell, machine: Machine) -> CellRequirements:
    dataset = cell.dataset
    sources = [*dataset.train, *dataset.questions_train, dataset.validation or dataset.test, dataset.test]
    data = tuple(_source(source, machine.has_hub) for source in dict.fromkeys(sources))
    models: tuple[Availability, ...] = ()
    config, unknown = None, None
    try:
        if cell.is_of_retriever_reader:
            raise ConfigError(f"{cell.base.title} is a retriever-reader.")
        config = cell.config()
        names = dict.fromkeys([config.model.base, config.model.documents.name, config.model.questions.name])
        models = tuple(_model(name, machine.has_hub) for name in names)
        _parameters(config.model)
    except MBCError as error:
        config, unknown = None, error.message
    missing = next((one for one in (*data, *models) if not one.can_be_had), None)
    judged: dict[str, Stage] = {}
    for stage in cell.stages():
        taken = None if config is None else _memory(stage, config, cell.base.optimiser)
        obstacle, follows = f"{missing.name} is {missing.status}" if missing else None, None
        if obstacle is None and taken is not None and taken > machine.memory:
            room = f"there are {machine.memory / 1e9:.0f} GB on {machine.description}"
            obstacle = f"it takes at least {taken / 1e9:.0f} GB of memory; {room}"
        if obstacle is None:
            follows = next((need for need in stage.needs if judged[need].obstacle), None)
            obstacle = f"{follows} cannot be done" if follows else None
        judged[stage.name] = replace(stage, memory=taken, obstacle=obstacle, follows=follows)
    return CellRequirements(cell.name, data, models, tuple(judged.values()), unknown)


def _memory(stage: Stage, config: Config, optimiser: str) -> int:
    """The least bytes of memory that a stage takes: everything in float32, but for what a preset packs."""
    table = _parameters(config.model)
    stored, base_parameters = table["all"].bytes, table["base LM"].trainable + table["base LM"].frozen
    tuned = base_parameters * (2 * _SINGLE + _MOMENTS[optimiser])
    match stage.kind, stage.subject:
        case "code-usage", _:
            return 0
        case "prepare", "questions" | "reader":
            return tuned
        case "prepare", "camels":  # weights, their gradient, and what becomes of both in an inner step
            return 4 * _SINGLE * base_parameters
        case "prepare", _:
            return stored + table["all"].trainable * 3 * _SINGLE
    kind = METHODS[stage.subject]
    if kind.is_fine_tuned:
        return tuned
    return stored if {"mac", "mbc"} & {*kind.needs} else _SINGLE * base_parameters


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
    return _of_hub(source, (place / squad.HUB_ID.replace("/", "___")).is_dir(), has_hub)


def _model(name: str, has_hub: bool) -> Availability:
    from mbc_engine.lm.encoders import is_local
    from mbc_engine.lm.pretrained import local_place

    if is_local(name):
        return Availability(name, True, "in a folder", can_be_had=True)
    place = local_place(name)
    is_here = place is not None and any((place / file).is_file() for file in _WEIGHTS)
    return _of_hub(name, is_here, has_hub)


def _of_hub(name: str, is_here: bool, has_hub: bool) -> Availability:
    if is_here:
        return Availability(name, True, "in the hub cache", can_be_had=True)
    status = "available from the hub" if has_hub else "not in the hub cache, and the hub cannot be reached from here"
    return Availability(name, False, status, can_be_had=has_hub)
