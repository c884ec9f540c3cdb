"""Gradient checkpointing (Chen et al., 2016): a transformer layer keeps its input alone and computes the rest again.

It trades a second forward pass for the memory of the activations. transformers' own switch would take the prefix away
from a base LM's layers, which it knows as a cache that grows; a prefix here does not (`KVPrefix.fixed`).

Batches of texts of about one length, so that little of a padded batch is padding.

Work on a CPU text by text, on as many at once as torch has threads.

Cross-entropy through an output head, a few rows at a time: the logits of a whole batch never exist at once.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


def checkpoint_layers(model: nn.Module) -> None:
    """From here on the layers of every pretrained part of a model are checkpointed where gradients are wanted."""
    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.forward = _checkpointed(module.forward)


def _checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def run(*arguments: Any, **named: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*arguments, **named)
        return checkpoint(forward, *arguments, use_reentrant=False, **named)

    return run


def padded_batches(lengths: Sequence[int], *, size: int, longest: float) -> Iterator[list[int]]:
    """Places of texts, shortest first, batch by batch.

    Args:
        lengths: of the texts, in characters or whatever else is padded to the longest.
        size: most texts of a batch.
        longest: most of these of a batch, padding included; a text that has more stands alone.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) == size or (len(batch) + 1) * lengths[place] > longest):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def one_by_one(work: Callable[[Sequence[str]], Tensor], texts: Sequence[str]) -> Generator[Tensor, None, None]:
    """What `work`, without gradients, makes of each text alone, in their order. Closed, it leaves the rest undone.

    Processes that hold parameters in parts have to ask for them in one order: there it is one text after the other.
    """
    is_cast, kind = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def alone(text: str) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=kind, enabled=is_cast):  # a thread begins with neither
            return work([text])

    is_shared = distributed.is_available() and distributed.is_initialized()
    with _single_threaded() as threads:
        # The first finds tokenizers and caches unprepared, which are not to be prepared twice at once.
        yield from map(alone, texts[:1])
        if threads == 1 or is_shared:
            yield from map(alone, texts[1:])
            return
        # A thread begins with what was set last anywhere, which may be another's that encodes at the same time.
        pool = ThreadPoolExecutor(threads, "text", initializer=torch.set_num_threads, initargs=(1,))
        try:
            yield from pool.map(alone, texts[1:])
        finally:
            pool.shutdown(cancel_futures=True)


def codes_stepwise(
    encode: Callable[[Sequence[str]], Tensor], texts: Sequence[str], batches: Iterator[list[int]] | None
) -> Generator[tuple[Sequence[int], NDArray[np.uint16]], None, None]:
    """Codes of texts for callers that follow it or may stop it: close the iterator to leave the rest undone.

    Args:
        encode: codes of a batch of texts, [B, ...], without gradients.
        texts: any number.
        batches: places of texts that are encoded together, as on a GPU; None for one by one, in order.

    Yields:
        The places of a few texts, and their codes [n, ...].
    """
    if batches is None:
        with closing(one_by_one(encode, texts)) as encoded:
            for place, own in enumerate(encoded):
                yield [place], own.numpy().astype(np.uint16)
        return
    for chosen in batches:
        with torch.no_grad():
            codes = encode([texts[index] for index in chosen])
        yield chosen, codes.cpu().numpy().astype(np.uint16)


@contextmanager
def _single_threaded() -> Iterator[int]:
    """Inside, torch computes with one thread for each of ours; gives how many it had."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)


ROWS = 512


class _BlockwiseLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
        total, gradients = states.new_zeros((), dtype=torch.float32), []
        for block, target in zip(states.detach().split(ROWS), targets.split(ROWS), strict=True):
            with torch.enable_grad():
                block.requires_grad_()
                loss = functional.cross_entropy(head(block).float(), target, reduction="sum")
                gradients.append(torch.autograd.grad(loss, block)[0])
            total += loss.detach()
        ctx.save_for_backward(torch.cat(gradients) / len(targets))
        return total / len(targets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (saved,) = ctx.saved_tensors
        return saved * gradients[0], None, None


def token_loss(states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean negative log-likelihood of tokens, a scalar in nats.

    Args:
        states: the LM's last hidden states, [N, D].
        targets: the tokens to predict, [N].
        head: states to logits, [n, D] -> [n, V]; gets no gradient.
    """
    loss: Tensor = _BlockwiseLoss.apply(states, targets, head)  # type: ignore[no-untyped-call]
    return loss


def token_losses(states: Tensor, targets: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
    """Negative log-likelihood of each token, [N] in nats; otherwise as `token_loss`, but the head may learn too."""

    def block(some: Tensor, ids: Tensor) -> Tensor:
        return functional.cross_entropy(head(some).float(), ids, reduction="none")

    blocks = zip(states.split(ROWS), targets.split(ROWS), strict=True)
    if len(targets) <= ROWS or not torch.is_grad_enabled():
        return torch.cat([block(some, ids) for some, ids in blocks])
    return torch.cat([checkpoint(block, some, ids, use_reentrant=False) for some, ids in blocks])
