"""A training's figures for TensorBoard, Weights & Biases and other trackers, by way of accelerate.

The usage of codes as training goes, in the run's folder for whoever watches.

What is told of a training step: the losses of its forward passes and of all processes, as one event.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from accelerate import Accelerator
from accelerate.tracking import get_available_trackers

from mbc_engine.config import Config
from mbc_engine.errors import ConfigError
from mbc_engine.events import CodesReset, Event, TrainStep, Validated
from mbc_engine.machine import SlowDown
from mbc_engine.paper.mbc import MBC
from mbc_engine.runs.training_runs import write_usage
from mbc_engine.training.objective import Losses
from mbc_engine.training.processes import Processes

_GROUPS: Final = {TrainStep: "train", CodesReset: "resets", Validated: "validation"}
_NO_FIGURES: Final = ("step", "epoch")


def require_trackers(names: Sequence[str]) -> None:
    """Make sure that trackers can be used here.

    Raises:
        ConfigError: one is not installed, or not known at all.
    """
    available = sorted(str(name) for name in get_available_trackers())
    for name in names:
        if name not in available:
            raise ConfigError(
                f"There is no tracker {name!r} here.",
                hint=f"Installed: {', '.join(available) or 'none'}; `pip install tensorboardX` adds tensorboard, "
                "`pip install wandb` adds wandb.",
            )


@contextmanager
def tracked(accelerator: Accelerator, config: Config, run: Path) -> Iterator[None]:
    """Inside, a run is tracked under its folder's name, with its settings."""
    accelerator.init_trackers(run.name, config=_flat(config.model_dump()), init_kwargs={"wandb": {"dir": str(run)}})
    try:
        yield
    finally:
        accelerator.end_training()


def track(accelerator: Accelerator, event: Event) -> None:
    """Hand on the figures of an event, if it has any."""
    group = _GROUPS.get(type(event))
    if group is not None:
        figures = {name: value for name, value in vars(event).items() if isinstance(value, int | float)}
        step = int(figures["step"])
        accelerator.log({f"{group}/{name}": v for name, v in figures.items() if name not in _NO_FIGURES}, step=step)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their dotted names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


_EVERY: Final = 1.0
# Of the time, at most. Writing waits for the disk, and how long that takes depends on the disk.
_SHARE: Final = 0.01


class UsageReport:
    """Writes now and then, once a second at most.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._rest = run, SlowDown(_SHARE, _EVERY)

    def show(self, model: MBC, step: int, *, at_once: bool = False) -> None:
        """Write the usage after `step` steps if that is due; there is none before documents are codes."""
        began, codebook = time.monotonic(), model.codebook
        if codebook is not None and model.is_quantising and (at_once or self._rest.is_due(began)):
            write_usage(self._run, codebook.usage.cpu().numpy(), step)
            self._rest.took(began, time.monotonic())


def report(
    parts: Sequence[tuple[Losses, int]],
    processes: Processes,
    *,
    step: int,
    epoch: int,
    model: MBC,
    rate: float,
    speed: float,
) -> TrainStep:
    """A step's event.

    Args:
        parts: the losses of each forward pass, and how many questions it asked.
        processes: those whose shares the losses are.
        step: its number, from 1.
        epoch: its epoch's, from 0.
        model: as it is after the step.
        rate: the learning rate.
        speed: questions a second, of all processes.
    """
    total = sum(size for _, size in parts)
    has_router = parts[0][0].route_accuracy is not None
    shares = [
        sum(part * size for part, size in weighted) / total
        for weighted in (
            [(losses.total.item(), size) for losses, size in parts],
            [(losses.question, size) for losses, size in parts],
            [(losses.vq, size) for losses, size in parts],
            [(losses.routing, size) for losses, size in parts],
            [(losses.reconstruction, size) for losses, size in parts],
            [(losses.route_accuracy or 0.0, size) for losses, size in parts],
        )
    ]
    loss, question, vq, routing, reconstruction, accuracy = map(_shown, processes.summed(shares))
    codebook = model.codebook
    return TrainStep(
        step=step,
        epoch=epoch,
        loss=loss,
        question_loss=question,
        vq_loss=vq,
        route_loss=routing,
        reconstruction_loss=reconstruction,
        route_accuracy=accuracy if has_router else None,
        perplexity=_shown(codebook.perplexity()) if codebook is not None else 0.0,
        dead_codes=codebook.dead_codes() if codebook is not None else 0,
        document_variance=_shown(sum(losses.document_variance * size for losses, size in parts) / total),
        learning_rate=_shown(rate),
        examples_per_second=float(f"{speed:.4g}"),
    )


def _shown(value: float) -> float:
    return float(f"{value:.6g}")
