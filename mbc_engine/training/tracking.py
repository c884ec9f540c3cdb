"""A training's figures for TensorBoard, Weights & Biases and other trackers, by way of accelerate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from accelerate import Accelerator
from accelerate.tracking import get_available_trackers

from mbc_engine.config import Config
from mbc_engine.errors import ConfigError
from mbc_engine.events import CodesReset, Event, TrainStep, Validated

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
