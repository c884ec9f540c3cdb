"""The inner step of CaMeLS: by hand, and against the backward pass of a backward pass."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mbc_engine.evaluation.camels import divergence, inner_step, parameters_of, token_losses
from mbc_engine.lm.base import Targets

DOCUMENTS = ["Adabo moved to Aalen in the spring.", "The river rose, the bridge held, and nobody was hurt.", "Hugo"]
QUESTIONS = ["Where did Adabo move?", "What rose?", "Who?"]
ANSWERS = ["Aalen", "the river", "Hugo"]


class Bigrams(nn.Module):
    """Predicts each token from the one before, by a table of logits."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(2, 2))

    def forward(self, input_ids, **_):
        return SimpleNamespace(logits=self.table[input_ids])


def bigram(first, second):
    return Targets(torch.tensor([[first, second]]), torch.ones(1, 2), torch.tensor([[False, True]]))


def batch_for(base):
    return (
        base.prompt_tokenizer.text_targets(DOCUMENTS, window=32),
        base.prompt_tokenizer.question_answer_targets(QUESTIONS, ANSWERS, question_window=16, answer_window=8),
        base.prompt_tokenizer.text_targets(["Irene moved to Izmir."], window=32),
    )


@pytest.fixture
def base(base):
    base.model.set_attn_implementation("eager")
    return base


def by_backward_of_backward(base, batch, weights, *, rate, locality):
    """The gradient of the outer loss with respect to weights, through the graph of the inner gradient."""
    weights = weights.clone().requires_grad_()
    own = {name: value.detach().requires_grad_() for name, value in base.model.named_parameters()}
    losses = token_losses(base.model, own, batch[0])
    start, inner = 0, torch.zeros(())
    for length in batch[0].target_mask.sum(1).tolist():
        inner = inner + (weights[start : start + length] * losses[start : start + length]).mean()
        start += length
    steps = torch.autograd.grad(inner, list(own.values()), create_graph=True)
    updated = {name: value - rate * step for (name, value), step in zip(own.items(), steps, strict=True)}
    answers = token_losses(base.model, updated, batch[1]).mean()
    outer = answers + locality * divergence(base.model, updated, batch[2])
    return torch.autograd.grad(outer, weights)[0]


def test_one_parameter_case_by_hand():
    """The table's row moves by ±α w / 2, so that the answer's loss is log(1 + exp(-α w))."""
    model, batch = Bigrams(), (bigram(0, 1), bigram(0, 1), bigram(1, 1))

    outcome = inner_step(model, parameters_of(model), batch, torch.tensor([1.5]), rate=2.0, locality=0.0)

    assert outcome[0]["table"].tolist() == [[-1.5, 1.5], [0.0, 0.0]]
    assert outcome[1] == pytest.approx(math.log(1 + math.exp(-3)))
    assert outcome[2].tolist() == pytest.approx([-2 / (1 + math.exp(3))])
    assert model.table.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(("base", "locality"), [("gpt2", 0.0), ("gpt2", 5.0), ("llama", 5.0)], indirect=["base"])
def test_gradient_is_that_of_backward_of_backward(base, locality):
    batch = batch_for(base)
    weights = torch.rand(len(batch[0].targets), generator=torch.Generator().manual_seed(0)) * 2

    outcome = inner_step(base.model, parameters_of(base.model), batch, weights, rate=0.05, locality=locality)

    expected = by_backward_of_backward(base, batch, weights, rate=0.05, locality=locality)
    torch.testing.assert_close(outcome[2], expected, rtol=1e-3, atol=1e-6)


def test_divergence_needs_an_update(base):
    batch, own = batch_for(base), parameters_of(base.model)
    nothing, something = torch.zeros(len(batch[0].targets)), torch.ones(len(batch[0].targets))
    still = inner_step(base.model, own, batch, nothing, rate=0.1, locality=1.0)
    moved = inner_step(base.model, own, batch, something, rate=0.1, locality=1.0)

    assert float(divergence(base.model, still[0], batch[2])) == pytest.approx(0, abs=1e-6)
    assert float(divergence(base.model, moved[0], batch[2])) > 0.001
    assert still[1] == pytest.approx(float(token_losses(base.model, own, batch[1]).mean()))
