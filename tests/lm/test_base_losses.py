"""Losses of the base LM, under a prefix and without one, frozen and tuned, by hand."""

import pytest
import torch

from mbc_engine.lm import base as module
from mbc_engine.lm.base import load_base
from tests.lm.conftest import QUESTIONS, alone, ids_of, plain_logits, prefix_for


def test_log_likelihood_by_hand(every_base, monkeypatch):
    monkeypatch.setattr(module, "_HEAD_ROWS", 4)  # the targets go through the head in several blocks
    monkeypatch.setattr(module, "_CPU_BATCH", 2)
    base, prefix, expected = every_base, prefix_for(every_base, 3), []
    questions, answers = [QUESTIONS[1], "Ada?", ""], ["bergen", "Cadiz in the spring", "élan"]
    for index, target in enumerate([" Bergen", " Cadiz in the spring", " Élan"]):
        given = ids_of(base, questions[index]) or [base.tokenizer.eos_token_id]
        wanted = [*ids_of(base, target), base.tokenizer.eos_token_id]
        chances = plain_logits(base, alone(prefix, index), given + wanted).log_softmax(-1)
        places = range(len(given) - 1, len(given) + len(wanted) - 1)
        expected.append(
            sum(chances[place, token].item() for place, token in zip(places, wanted, strict=True)) / len(wanted)
        )
    likelihood = base.log_likelihood(prefix, questions, answers)
    assert likelihood.tolist() == pytest.approx(expected, rel=1e-4)
    assert not likelihood.requires_grad


@pytest.fixture(params=["gpt2", "llama"])
def tuned(request, tiny):
    base = load_base(str(tiny.bases[request.param]))
    base.tune()
    return base


def gradients(base, loss):
    base.zero_grad()
    loss.backward()
    return {name: value.grad.clone() for name, value in base.named_parameters() if value.grad is not None}


def test_gradients_of_a_tuned_base(tuned, monkeypatch):
    monkeypatch.setattr(module, "_HEAD_ROWS", 4)  # the targets go through the head in several blocks
    question, answer = ids_of(tuned, "Where did Ada move?"), ids_of(tuned, " Bergen in the spring")
    ids = torch.tensor([[*question, *answer, tuned.tokenizer.eos_token_id]])
    labels = ids.clone()
    labels[:, : len(question)] = -100
    expected = gradients(tuned, tuned.model(input_ids=ids, labels=labels).loss)
    texts = tuned.prompt_tokenizer.question_answer_targets(
        ["Where did Ada move?"], ["bergen in the spring"], question_window=40, answer_window=40
    )
    found = gradients(tuned, tuned.loss(tuned.no_prefix(1), texts))
    assert found.keys() == expected.keys() == dict(tuned.named_parameters()).keys()
    for name, value in expected.items():
        assert torch.allclose(found[name], value, atol=1e-5), name


def test_piece_loss_by_hand(tuned):
    (piece,) = tuned.prompt_tokenizer.pieces("Ada moved to Bergen.", 40)
    weights = torch.tensor([0.0, 2.0, 0.5] + [0.0] * (len(piece.ids) - 4) + [1.0])
    logits = tuned.model(input_ids=torch.tensor([[tuned.tokenizer.eos_token_id, *piece.ids]])).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(piece.ids), reduction="none")
    expected = (weights * losses).mean()
    by_hand = gradients(tuned, expected)
    assert tuned.piece_loss(piece, weights).item() == pytest.approx(expected.item(), rel=1e-5)
    found = gradients(tuned, tuned.piece_loss(piece, weights))
    assert all(torch.allclose(found[name], value, atol=1e-5) for name, value in by_hand.items())
