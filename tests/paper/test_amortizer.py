"""Amortizers: padding does not leak, queries see each other, an encoder's readout starts as its mean; centring by hand."""

import math

import pytest
import torch

from mbc_engine.lm.encoders import load_encoder
from mbc_engine.paper.amortizer import Centring, EncoderAmortizer, T5Amortizer, document_variance

SHORT, LONG = "Ada moved.", "Where did the old painter move to in the spring, and who left the town in the winter?"


@pytest.mark.parametrize("encoder", ["bert", "t5"])
@pytest.mark.parametrize("centring", ["true", "false"])
def test_padding_is_ignored(tiny, encoder, centring):
    documents = tiny.model("gpt2", encoder, f"model.centring={centring}").documents
    with torch.no_grad():
        alone, together = documents([SHORT]), documents([SHORT, LONG])
    assert together.shape == (2, 4, 32)
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)
    assert (together[1] - together[0]).abs().max() > 1e-2


def test_t5_decoder_is_not_causal(tiny):
    encoder = load_encoder(str(tiny.encoders["t5"]))
    torch.manual_seed(0)
    amortizer = T5Amortizer(encoder.model, 4, 8).eval().requires_grad_(False)
    states, mask = torch.randn(1, 5, 16), torch.ones(1, 5, dtype=torch.int64)
    before = amortizer.readout(states, mask)
    for changed in (0, 3):
        saved = amortizer.queries[changed].clone()
        amortizer.queries[changed] += 3 * torch.randn(16)
        difference = (amortizer.readout(states, mask) - before).abs().amax((0, 2))
        amortizer.queries[changed] = saved
        assert (difference > 1e-3).all()


@pytest.fixture
def pooling(tiny):
    encoder = load_encoder(str(tiny.encoders["bert"]))
    torch.manual_seed(0)
    return EncoderAmortizer(encoder.model, 4, 8).eval().requires_grad_(False)


def masked_states():
    torch.manual_seed(1)
    states, mask = torch.randn(2, 5, 24), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    return states, mask, torch.stack([states[0].mean(0), states[1, :2].mean(0)])


def test_initial_encoder_amortizer(pooling):
    states, mask, means = masked_states()
    pooled = pooling.pooled(states, mask)
    torch.testing.assert_close(pooled, means[:, None].expand(-1, 4, -1), rtol=0, atol=0.05)
    expected = torch.stack([pooled[:, token] @ pooling.head_weight[token] for token in range(4)], dim=1)
    torch.testing.assert_close(pooling.readout(states, mask), expected)


def test_queries_equal_a_loop(pooling):
    states, mask, _ = masked_states()
    pooling.queries.normal_()
    pooled, size = pooling.pooled(states, mask), 12  # two heads of twelve
    for text, token, head in [(t, q, h) for t in range(2) for q in range(4) for h in range(2)]:
        part = slice(head * size, (head + 1) * size)
        length = int(mask[text].sum())
        keys = (states[text, :length] @ pooling.key.weight.T)[:, part]
        weights = (keys @ pooling.queries[token, part] / size**0.5).softmax(0)
        torch.testing.assert_close(pooled[text, token, part], weights @ states[text, :length, part])


def test_window(tiny):
    for encoder, special in (("bert", 2), ("t5", 1)):
        documents = tiny.model("gpt2", encoder, "model.documents.window=6").documents
        ids, mask = documents.tokenize([SHORT, LONG])
        assert ids.shape == (2, 6)
        assert mask.sum(1).tolist() == [min(6, 3 + special), 6]
        assert documents.chunker.token_counts([SHORT, LONG]) == [3, 20]
        assert documents.chunker.capacity == 6 - special


# Two documents, two positions, two dimensions. Position 0 differs by (2, 0), position 1 by (0, 6).
VECTORS = torch.tensor([[[1.0, 5.0], [0.0, 0.0]], [[3.0, 5.0], [0.0, 6.0]]])
# Means (2, 5) and (0, 3); what is left has squares (1, 0) and (0, 9) a document: scales sqrt(1/2) and sqrt(9/2).
CENTRED = torch.tensor([[[-1.0, 0.0], [0.0, -3.0]], [[1.0, 0.0], [0.0, 3.0]]])
SCALE = torch.tensor([[math.sqrt(0.5)], [math.sqrt(4.5)]])


def test_training_centres_by_the_batch():
    positions = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    centring = Centring(positions)
    centred = centring(VECTORS)
    torch.testing.assert_close(centred, CENTRED / SCALE + positions)
    centred.sum().backward()
    assert centring.positions.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert torch.equal(centring(VECTORS[:1]), centring.eval()(VECTORS[:1]))


def test_fit():
    centring = Centring(torch.zeros(2, 2))
    centring.fit(VECTORS)
    torch.testing.assert_close(centring.mean, torch.tensor([[2.0, 5.0], [0.0, 3.0]]))
    torch.testing.assert_close(centring.eval()(VECTORS), CENTRED / SCALE)


def test_batch_statistics_carry_gradients():
    torch.manual_seed(0)
    weights, ours = torch.randn(3, 2, 2), torch.randn(3, 2, 2, requires_grad=True)
    (Centring(torch.zeros(2, 2))(ours) * weights).sum().backward()
    by_hand = ours.detach().clone().requires_grad_()
    mean = by_hand.sum(0) / 3
    scale = ((by_hand - mean).square().sum((0, 2)) / 6).sqrt()
    ((by_hand - mean) / scale[None, :, None] * weights).sum().backward()
    torch.testing.assert_close(ours.grad, by_hand.grad)


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[[1.0]], [[-1.0]]], 1.0),  # nothing shared
        ([[[2.0]], [[2.0]]], 0.0),  # collapsed
        ([[[3.0]], [[1.0]]], 0.2),  # energy (9 + 1) / 2 = 5, varying 1
        ([[[3.0, 0.0], [2.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]]], 2 / 18),  # positions apart: 2 of 9 + 4 + 1 + 4
    ],
)
def test_document_variance_by_hand(vectors, expected):
    assert document_variance(torch.tensor(vectors)) == pytest.approx(expected)
