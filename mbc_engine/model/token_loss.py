"""Cross-entropy through an output head, a few rows at a time: the logits of a whole batch never exist at once.

A vocabulary is wide; its logits and their gradient dwarf everything else a step holds, on a CPU's cache as on a GPU.
A frozen head needs no gradient of its own, so each block's gradient is taken on the way forward and the logits are
dropped; one that learns computes its logits a second time on the way back.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

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
