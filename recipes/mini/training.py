"""What the trainings of the stages share: a learning rate's course, and checkpoints to go on from."""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from mbc_engine.lm.pretrained import write_tensors


def warm_cosine(step: int, steps: int, *, warmup: int, least: float) -> float:
    """The share of the peak at a step: linear warm-up, then half a cosine down to `least`."""
    if step < warmup:
        return (step + 1) / warmup
    return least + (1 - least) / 2 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


class Checkpoint:
    """What is trained, Adam's moments and the step in one safetensors file, replaced at once.

    Args:
        path: the file.
        trained: the tensors that change, which loading writes to.
        optimizer: of these.
    """

    def __init__(self, path: Path, trained: Mapping[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
        self.path, self.trained, self.optimizer = path, trained, optimizer

    def save(self, step: int) -> None:
        """Keep everything as it is after so many steps."""
        tensors = {f"model.{name}": value for name, value in self.trained.items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
        write_tensors(
            self.path, {name: value.detach().contiguous() for name, value in tensors.items()}, {"step": str(step)}
        )

    def load(self) -> int | None:
        """Put back what was kept, if anything was; returns the step to go on from."""
        if not self.path.exists():
            return None
        state: dict[int, dict[str, Tensor]] = {}
        with safe_open(self.path, framework="pt") as file, torch.no_grad():
            step = int(file.metadata()["step"])
            for name in file.keys():  # noqa: SIM118  # no dict
                if name.startswith("model."):
                    self.trained[name.removeprefix("model.")].copy_(file.get_tensor(name))
                else:
                    _, number, key = name.split(".")
                    state.setdefault(int(number), {})[key] = file.get_tensor(name)
        self.optimizer.load_state_dict({"state": state, "param_groups": self.optimizer.state_dict()["param_groups"]})
        return step
