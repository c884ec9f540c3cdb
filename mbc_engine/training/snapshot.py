"""A training's state in one file, replaced atomically: enough to go on exactly where it was.

Random numbers need no state: each step seeds its own from the run's seed and its number.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from mbc_engine.model.checkpoint import load_trained_state, trained_state
from mbc_engine.model.mbc import MBC
from mbc_engine.model.sharding import laid_out_like, whole_state
from mbc_engine.model.tensor_file import write_tensors


@dataclass(frozen=True)
class Progress:
    """Where a training stands.

    Attributes:
        step: optimiser steps done.
        best_f1: best validated F1 so far, in percent; -1 before the first.
        is_quantising: whether documents are codes already.
        events: bytes of the event log that belong to these steps.
        seconds: time spent so far.
    """

    step: int
    best_f1: float
    is_quantising: bool
    events: int
    seconds: float


def save_snapshot(
    path: Path, model: MBC, optimizer: torch.optim.Optimizer, progress: Progress, *, writes: bool = True
) -> None:
    """Write everything that changes in training; the file is complete or not there.

    Args:
        path: where.
        model, optimizer: those of this process; several that hold them in parts all call this.
        progress: where training stands.
        writes: False only gives the parts of this process to the one that writes.
    """
    tensors = {f"model.{name}": value for name, value in trained_state(model).items()}
    tensors |= {f"lora.{name}": value for name, value in _lora(model).items()}
    names = _names(model, optimizer)
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{names[index]}.{key}": value for key, value in state.items()}
    whole = whole_state(tensors, keeps=writes)
    if not writes:
        return
    write_tensors(path, whole, {name: repr(value) for name, value in vars(progress).items()})


def load_snapshot(path: Path, model: MBC, optimizer: torch.optim.Optimizer) -> Progress:
    """Restore model and optimiser, and say where training stood.

    Raises:
        ModelError: it is of another model.
    """
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        noted = file.metadata()
    load_trained_state(model, _section(tensors, "model."), path)
    with torch.no_grad():
        for name, value in _section(tensors, "lora.").items():
            own = _lora(model)[name]
            own.copy_(laid_out_like(value, own))
    parameters = {name: value for name, value in model.named_parameters() if value.requires_grad}
    numbers = {name: number for number, name in enumerate(_names(model, optimizer))}
    earlier = list(parameters)  # snapshots once told a parameter by its place in the model
    state: dict[int, dict[str, Tensor]] = {}
    for told, value in _section(tensors, "optimizer.").items():
        name, key = told.rsplit(".", 1)
        name = earlier[int(name)] if name.isdigit() else name
        is_alike = value.shape == parameters[name].shape  # a count of steps is not
        state.setdefault(numbers[name], {})[key] = laid_out_like(value, parameters[name]) if is_alike else value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    progress = Progress(
        step=int(noted["step"]),
        best_f1=float(noted["best_f1"]),
        is_quantising=noted["is_quantising"] == "True",
        events=int(noted["events"]),
        seconds=float(noted["seconds"]),
    )
    model.is_quantising = progress.is_quantising
    return progress


def _names(model: MBC, optimizer: torch.optim.Optimizer) -> list[str]:
    """What the model calls an optimiser's parameters, in the optimiser's order."""
    names = {id(value): name for name, value in model.named_parameters()}
    return [names[id(value)] for group in optimizer.param_groups for value in group["params"]]


def _lora(model: MBC) -> dict[str, Tensor]:
    return {name: value for name, value in model.base.named_parameters() if value.requires_grad}


def _section(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
