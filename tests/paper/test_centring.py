"""Centring and the share of variance between documents, by hand."""

import math

import pytest
import torch

from mbc_engine.paper.amortizer import Centring, document_variance

# Two documents, two positions, two dimensions. Position 0 differs by (2, 0), position 1 by (0, 6).
VECTORS = torch.tensor([[[1.0, 5.0], [0.0, 0.0]], [[3.0, 5.0], [0.0, 6.0]]])
# Means (2, 5) and (0, 3); what is left has squares (1, 0) and (0, 9) a document: scales sqrt(1/2) and sqrt(9/2).
CENTRED = torch.tensor([[[-1.0, 0.0], [0.0, -3.0]], [[1.0, 0.0], [0.0, 3.0]]])
SCALE = torch.tensor([[math.sqrt(0.5)], [math.sqrt(4.5)]])


def test_training_centres_by_the_batch():
    torch.testing.assert_close(Centring(torch.zeros(2, 2))(VECTORS), CENTRED / SCALE)


def test_position_vectors():
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
