"""CaMeLS: the inner step by hand and against the backward pass of a backward pass, the weight model, its meta-training,
and that what it learns helps on unseen documents."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from mbc_engine.errors import DataError, ModelError
from mbc_engine.evaluation.camels import (
    WEIGHTS,
    divergence,
    inner_step,
    load_weights,
    meta_train,
    parameters_of,
    token_losses,
    weight_model_for,
)
from mbc_engine.evaluation.suite import Camels
from mbc_engine.lm.base import BaseLM, Targets, load_base
from tests.evaluation.conftest import assert_resumes


@pytest.mark.parametrize("family", ["gemma3_text", "gpt2"])
def test_body_of_a_deep_base_lm_is_cut(family, tiny):
    tokenizer = load_base(str(tiny.bases["llama"])).tokenizer
    config = AutoConfig.for_model(
        family,
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=8,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        max_position_embeddings=64,
        pad_token_id=1,
    )
    base = BaseLM(AutoModelForCausalLM.from_config(config), tokenizer)

    model = weight_model_for(base)

    assert model.body.config.num_hidden_layers == 6
    texts = base.prompt_tokenizer.text_targets(["Adabo moved."], window=32)
    torch.testing.assert_close(model(texts), torch.ones(len(texts.targets)))


def test_trained_weights_open_as_they_were_left(base, examples, tmp_path):
    before = {name: value.clone() for name, value in base.model.state_dict().items()}
    attention = base.model.config._attn_implementation
    settings = Camels(steps=6, inner_batches=1, learning_rate=0.01, inner_rate=0.05, locality=0)
    steps = [*meta_train(base, examples(6), tmp_path, settings, window=32)]
    assert steps[-1].loss < steps[0].loss  # the weights learned make a step on the same documents teach more

    weights = load_weights(tmp_path)

    (piece,) = base.prompt_tokenizer.pieces("Adabo moved to Aalen.", 32)
    assert weights(piece).shape == (len(piece.ids),)
    assert not torch.equal(weights(piece), torch.ones(len(piece.ids)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "weights.safetensors"]
    assert all(torch.equal(before[name], value) for name, value in base.model.state_dict().items())
    assert base.model.config._attn_implementation == attention


@pytest.mark.slow
@pytest.mark.parametrize("stops_after", [1, 3])
def test_resumed_meta_training_is_identical(base, examples, tmp_path, stops_after):
    settings = Camels(steps=4, inner_documents=3, inner_batches=2, learning_rate=0.01, inner_rate=0.05)

    def training(folder):
        return meta_train(base, examples(8), folder, settings, window=32, seed=3, snapshot_seconds=0)

    assert_resumes(training, tmp_path, stops_after, WEIGHTS)


def test_what_cannot_be_used_is_reported(base, examples, tmp_path):
    with pytest.raises(ModelError, match="could not be opened"):
        load_weights(tmp_path)
    with pytest.raises(DataError, match="no questions"):
        list(meta_train(base, [], tmp_path, Camels(steps=1)))


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
    base.model.set_attn_implementation("eager")
    return (
        base.prompt_tokenizer.text_targets(DOCUMENTS, window=32),
        base.prompt_tokenizer.question_answer_targets(QUESTIONS, ANSWERS, question_window=16, answer_window=8),
        base.prompt_tokenizer.text_targets(["Irene moved to Izmir."], window=32),
    )


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
