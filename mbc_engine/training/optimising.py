"""One optimiser step on a batch: forward passes over its parts, resets of dead codes, Adam (paper, algorithm 1)."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch

from mbc_engine.config import TrainingSettings
from mbc_engine.model.mbc import MBC
from mbc_engine.training.clipping import clip_gradients
from mbc_engine.training.data import Batch
from mbc_engine.training.objective import Losses, Objective


@dataclass(frozen=True)
class Stepped:
    """What a step came to.

    Attributes:
        parts: the losses of each forward pass, and how many questions it asked.
        resets: how many codes were reset.
    """

    parts: list[tuple[Losses, int]]
    resets: int


def adam(model: MBC, rate: float) -> torch.optim.Optimizer:
    """Adam for whatever trains; the codebook is a group of its own, since it is never held in parts."""
    codebook = model.codebook
    books = None if codebook is None else codebook.books
    others = [value for value in model.parameters() if value.requires_grad and value is not books]
    groups = [{"params": others}, *([] if books is None else [{"params": [books]}])]
    return torch.optim.Adam(groups, lr=rate)


def learning_rate(step: int, total: int, settings: TrainingSettings) -> float:
    """Linear warm-up over the first share of the steps, then constant (paper, section 4.3.1)."""
    warmup = max(1, round(total * settings.warmup))
    return settings.learning_rate * min(1.0, (step + 1) / warmup)


def optimiser_step(
    objective: Objective, optimizer: torch.optim.Optimizer, batch: Batch, chance: torch.Generator, *, rate: float
) -> Stepped:
    """Learn from a batch.

    Args:
        objective: what is minimised, over `accumulate` parts of the batch, each with its own bank.
        optimizer: of its model.
        batch: all of it, whichever part of it falls to this process.
        chance: for draws that all processes have to make alike.
        rate: the learning rate.
    """
    model, settings, processes = objective.model, objective.settings, objective.processes
    for group in optimizer.param_groups:
        group["lr"] = rate
    model.train()
    stepped, resets, passes = [], 0, _parts(batch.examples, settings.accumulate)
    for number, part in enumerate(passes, 1):
        with nullcontext() if number == len(passes) else processes.without_exchange():
            with torch.autocast(processes.device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
                losses = processes.inside(objective, objective.data.batch(part), chance)
            if losses.codes is not None and losses.residuals is not None:
                codebook = model.require_codebook()
                codebook.update_usage(losses.codes)
                resets += codebook.reset_dead(losses.residuals, chance) if settings.reset_codes else 0
            # Gradients become the mean over the processes, whose losses add up.
            processes.accelerator.backward(losses.total * (processes.count * len(part) / len(batch.examples)))
        stepped.append((losses, len(part)))
    clip_gradients(model.parameters(), settings.clip)
    optimizer.step()
    optimizer.zero_grad()
    return Stepped(stepped, resets)


def _parts(examples: list[int], count: int) -> list[list[int]]:
    size = -(-len(examples) // count)
    return [examples[start : start + size] for start in range(0, len(examples), size)]
