"""A tuning's state in one file, replaced atomically: weights, their optimiser's state, and notes on where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor, nn

from mbc_engine.model.tensor_file import write_tensors


@dataclass(frozen=True)
class Noted:
    """What a snapshot notes beside its tensors.

    Attributes:
        step: optimiser steps done.
        best_loss: the best validated loss so far; infinite before the first.
        settings: what the tuning was begun with; another cannot go on from here.
    """

    step: int
    best_loss: float
    settings: str


def save_tuning(
    path: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer, noted: Noted
) -> None:
    """Write everything that changes in a tuning.

    Args:
        path: where.
        parameters: what learns, by name, in the optimiser's order.
        optimiser: theirs.
        noted: where the tuning stands.
    """
    names = list(parameters)
    tensors = {f"model.{name}": value.detach() for name, value in parameters.items()}
    for place, state in optimiser.state_dict()["state"].items():
        # Adafactor counts its steps in a plain number.
        tensors |= {f"optimiser.{names[place]}.{key}": torch.as_tensor(value) for key, value in state.items()}
    on_host = {name: value.cpu().contiguous() for name, value in tensors.items()}
    told = {"step": str(noted.step), "best_loss": repr(noted.best_loss), "settings": noted.settings}
    write_tensors(path, on_host, told)


def noted_in(path: Path) -> Noted:
    """What a snapshot notes."""
    with safe_open(path, framework="pt") as file:
        told = file.metadata()
    return Noted(int(told["step"]), float(told["best_loss"]), told["settings"])


@torch.no_grad()
def load_tuning(path: Path, parameters: Mapping[str, nn.Parameter], optimiser: torch.optim.Optimizer) -> None:
    """Restore weights and optimiser."""
    places = {name: place for place, name in enumerate(parameters)}
    state: dict[int, dict[str, Tensor | int]] = {}
    with safe_open(path, framework="pt") as file:
        for told in file.keys():  # noqa: SIM118
            kind, name = told.split(".", 1)
            value = file.get_tensor(told)
            if kind == "model":
                parameters[name].copy_(value)
            else:
                name, key = name.rsplit(".", 1)
                is_count = not value.is_floating_point()
                state.setdefault(places[name], {})[key] = int(value) if is_count else value
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
