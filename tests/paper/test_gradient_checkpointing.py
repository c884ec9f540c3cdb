"""Layers that are computed twice give the same losses and gradients, and keep less."""

import pytest
import torch

from mbc_engine.lm.pretrained import checkpoint_layers

TEXTS = ["Mara Quist won the regatta", "Ivo Lenn lost it in the rain"]


def loss_of(model):
    """Of answers under prefixes made from texts, by way of everything that is pretrained."""
    prefix = model.prefix(model.documents(TEXTS))
    asked = model.base.prompt_tokenizer.question_answer_targets(
        ["Who won?", "Who lost?"], ["Mara", "Ivo"], question_window=16, answer_window=8
    )
    return model.base.loss(prefix, asked)


def outcome(model):
    """The loss, every gradient, and how many numbers the forward pass kept for the backward pass."""
    kept = {}

    def keep(value):
        kept[value.data_ptr()] = value.numel()
        return value

    torch.manual_seed(0)  # of dropout
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        loss = loss_of(model)
    loss.backward()
    return loss.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}, sum(kept.values())


@pytest.mark.parametrize("base", ["gpt2", "llama"])
@pytest.mark.parametrize("encoder", ["bert", "t5"])
def test_checkpointed_layers_give_the_same_gradients_and_keep_less(tiny, base, encoder):
    plain, checkpointed = (tiny.model(base, encoder, "model.lora.dropout=0.2").train() for _ in range(2))
    checkpoint_layers(checkpointed)
    (loss, gradients, kept), (same, alike, fewer) = outcome(plain), outcome(checkpointed)
    assert torch.equal(loss, same)
    assert gradients.keys() == alike.keys()
    assert any("lora" in name for name in gradients)
    assert any("documents" in name for name in gradients)
    for name, value in gradients.items():
        torch.testing.assert_close(alike[name], value)
    assert fewer < kept / 2
