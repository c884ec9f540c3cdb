"""What is told of a training step: the losses of its forward passes and of all processes, as one event."""

from collections.abc import Sequence

from mbc_engine.events import TrainStep
from mbc_engine.model.mbc import MBC
from mbc_engine.training.objective import Losses
from mbc_engine.training.processes import Processes


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
