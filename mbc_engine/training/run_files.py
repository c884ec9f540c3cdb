"""A run's files during training: its lock, its model, and the snapshot from which it resumes bit-identically."""

import os
import shutil
from ast import literal_eval
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from mbc_engine.config import Config
from mbc_engine.errors import ConfigError, ModelError
from mbc_engine.lm.pretrained import gathered_state, optimiser_tensors, restore, restore_optimiser, write_tensors
from mbc_engine.paper.checkpoint import save_model, trained_state
from mbc_engine.paper.model import MBC
from mbc_engine.runs import MODEL
from mbc_engine.runs.training_runs import EVENTS, SNAPSHOT, hold_folder, withdraw_stop

_LONGEST_NOTE: Final = 1 << 16  # in characters


@contextmanager
def lock_run(run: Path) -> Iterator[None]:
    """Hold a run's folder, without a request to stop. Raises ConfigError as `hold_folder` does."""
    with hold_folder(run, "training", resuming="--resume continues from the last snapshot"):
        withdraw_stop(run)  # made to an earlier training
        try:
            yield
        finally:
            withdraw_stop(run)


def replace_model(model: MBC, config: Config, run: Path, *, writes: bool) -> None:
    """Replace the run's model with the current one, completely or not at all; for `writes` see `save_model`."""
    folder = run / MODEL
    new, old = folder.with_name("model-new"), folder.with_name("model-old")
    if writes:
        shutil.rmtree(new, ignore_errors=True)
    save_model(model, config, new, writes=writes)
    if not writes:
        return
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # left if the process was killed after the last replacement
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover_model(run: Path) -> None:
    """Put the run's model back if its replacement was interrupted."""
    folder = run / MODEL
    old = folder.with_name("model-old")
    if not folder.exists() and old.exists():
        old.rename(folder)


@dataclass
class TrainingState:
    """A training's progress after `step` optimiser steps.

    `best_loss` is the lowest validation loss so far, in nats, and `best_epoch` its epoch, None and -1 before the first;
    `events` is the size in bytes of the event log up to this step, `data` a digest of the questions trained and validated
    on, which older snapshots lack.
    """

    step: int
    best_loss: float | None
    best_epoch: int
    is_quantising: bool
    events: int
    seconds: float
    data: str = ""


def save_snapshot(
    path: Path, model: MBC, optimizer: torch.optim.Optimizer, state: TrainingState, *, writes: bool = True
) -> None:
    """Atomically write everything that changes in training; for `writes` see `save_model`."""
    write_snapshot(path, _changing(model), dict(model.named_parameters()), optimizer, vars(state), writes=writes)


def load_snapshot(path: Path, model: MBC, optimizer: torch.optim.Optimizer) -> TrainingState:
    """Restore model and optimiser, and return the training's progress.

    Raises ModelError if it is of another model, or damaged.
    """
    notes = read_snapshot(path, _changing(model), dict(model.named_parameters()), optimizer)
    with _damage_refused(path):
        state = TypeAdapter(TrainingState).validate_python(notes)
    model.is_quantising = state.is_quantising
    return state


def _changing(model: MBC) -> dict[str, Tensor]:
    lora = {f"lora.{name}": value for name, value in model.base.named_parameters() if value.requires_grad}
    return {f"model.{name}": value for name, value in trained_state(model).items()} | lora


def write_snapshot(
    path: Path,
    tensors: Mapping[str, Tensor],
    parameters: Mapping[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    notes: Mapping[str, Any],
    *,
    writes: bool = True,
) -> None:
    """Atomically write tensors, the optimiser's state for named parameters, and notes, literals by name.

    All processes that train together call this; the one with `writes` writes.
    """
    whole = gathered_state({**tensors, **optimiser_tensors(parameters, optimizer)}, keep=writes)
    if writes:
        write_tensors(path, whole, {name: repr(value) for name, value in notes.items()})


def read_snapshot(
    path: Path, tensors: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Restore tensors and optimiser from a snapshot, and return its notes. Raises ModelError if it does not fit."""
    with _damage_refused(path):
        with safe_open(path, framework="pt") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            notes = file.metadata() or {}
        restore(tensors, {name: value for name, value in stored.items() if not name.startswith("optimiser.")}, path)
        restore_optimiser(stored, parameters, optimizer)
        return {name: literal_eval(value[:_LONGEST_NOTE]) for name, value in notes.items()}


@contextmanager
def _damage_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except (SafetensorError, ValueError, LookupError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        hint = "Train again, into another folder; with --from, from the run's model."
        raise ModelError(f"The snapshot {path} is damaged.", hint=hint) from error


def require_no_run(folder: Path) -> None:
    """Raise ConfigError if a folder holds a run, or could not be made."""
    if (folder / EVENTS).exists() or (folder / SNAPSHOT).exists():
        raise ConfigError(f"{folder} already holds a run.", hint="Continue it with --resume, or choose another --run.")
    nearest = next(place for place in (folder, *folder.absolute().parents) if os.path.exists(place))
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise ConfigError(f"{folder} cannot be written.", hint="Check the path and its permissions.")
