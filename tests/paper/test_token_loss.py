"""The blockwise loss against cross-entropy over all logits at once."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from mbc_engine.lm import base as module
from mbc_engine.lm.base import token_losses


@pytest.mark.parametrize("count", [1, 3, 4, 11])
def test_blocks_give_the_loss_and_gradient_of_the_whole(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(module, "_HEAD_ROWS", 4)
    torch.manual_seed(0)
    head = nn.Linear(5, 7).requires_grad_(False)
    states, targets = torch.randn(count, 5, requires_grad=True), torch.randint(7, (count,))
    loss = token_losses(states, targets, head).mean()
    (3 * loss).backward()
    whole = states.detach().clone().requires_grad_()
    expected = functional.cross_entropy(head(whole), targets)
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(states.grad, whole.grad)


def test_without_gradients_there_is_still_a_loss() -> None:
    head, states = nn.Linear(5, 7).requires_grad_(False), torch.randn(3, 5)
    with torch.no_grad():
        loss = token_losses(states, torch.tensor([0, 6, 2]), head).mean()
    assert loss.item() == pytest.approx(functional.cross_entropy(head(states), torch.tensor([0, 6, 2])).item())
    assert not loss.requires_grad
