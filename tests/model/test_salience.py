"""Which words are remembered, on odds written out by hand."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mbc_engine.model.salience import Salience, chosen
from mbc_engine.model.word_pieces import Pieces

ODDS = torch.tensor([[0.1, 2.0, -1.0, 0.5], [3.0, 1.0, 9.0, 9.0]])
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def pieces_of(mask: Tensor) -> Pieces:
    none = torch.zeros(mask.shape, dtype=torch.int64)
    return Pieces(none, mask, none, none, none.unsqueeze(-1).expand(-1, -1, 2))


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, [[1], [0]]),
        (3, [[0, 1, 3], [0, 1, -1]]),
        (4, [[0, 1, 2, 3], [0, 1, -1, -1]]),
        (6, [[0, 1, 2, 3, -1, -1], [0, 1, -1, -1, -1, -1]]),
    ],
)
def test_the_likeliest_stay_in_the_order_of_the_text(count: int, expected: list[list[int]]) -> None:
    assert chosen(pieces_of(MASK), ODDS, count).tolist() == expected


def test_a_text_without_pieces_has_no_words() -> None:
    assert chosen(pieces_of(torch.zeros(1, 1, dtype=torch.bool)), torch.ones(1, 1), 2).tolist() == [[-1, -1]]


def test_what_others_are_padded_with_changes_no_choice() -> None:
    wider = functional.pad(ODDS, (0, 3), value=50.0), functional.pad(MASK, (0, 3))
    assert torch.equal(chosen(pieces_of(wider[1]), wider[0], 3), chosen(pieces_of(MASK), ODDS, 3))


def test_odds_are_told_by_the_state_and_the_piece() -> None:
    torch.manual_seed(0)
    salience, vocabulary = Salience(5, 4, hidden=6), torch.randn(7, 4)
    states, pieces = torch.randn(2, 3, 5), torch.tensor([[0, 6, 2], [2, 2, 1]])
    odds = salience(states, pieces, vocabulary)
    assert odds.shape == (2, 3)
    for row, place in [(0, 1), (1, 0)]:
        vector = functional.layer_norm(vocabulary[pieces[row, place]], (4,))
        alone = salience.network(torch.cat([states[row, place], vector]))
        torch.testing.assert_close(odds[row, place], alone[0])


def test_learning_what_is_salient_leaves_the_vocabulary_as_it_is() -> None:
    salience, vocabulary = Salience(5, 4), torch.randn(7, 4, requires_grad=True)
    salience(torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.int64), vocabulary).sum().backward()
    assert vocabulary.grad is None
    assert all(parameter.grad is not None for parameter in salience.parameters())
