"""The codebook of words: its numbers have an inverse, and what is read is what was trained on."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mbc_engine.model.address import Address
from mbc_engine.model.code_memory import shape_of
from mbc_engine.model.word_codebook import Roles, WordCodebook


@cache
def codebook_of(vocabulary: int = 20, num_codes: int = 8, words: int = 3) -> WordCodebook:
    """Some words and an address of two codes; 20 pieces in three times 8, so that there are two roles."""
    torch.manual_seed(0)
    address = Address(6, tokens=2, dim=4, num_codes=num_codes)
    return WordCodebook(nn.Embedding(vocabulary, 8), address, words=words, role_dim=4, heads=2, num_codes=num_codes)


def numbers(below: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(seed))


def some_roles(codebook: WordCodebook, *shape: int, seed: int = 0) -> Roles:
    return Roles(numbers(codebook.roles, *shape, seed=seed), numbers(codebook.num_codes, *shape, seed=seed + 1))


@given(
    vocabulary=st.integers(1, 64),
    num_codes=st.integers(8, 20),
    words=st.integers(1, 4),
    seed=st.integers(0, 50),
)
@settings(max_examples=50)
def test_split_is_the_inverse_of_join(vocabulary: int, num_codes: int, words: int, seed: int) -> None:
    codebook = codebook_of(vocabulary, num_codes, words)
    pieces, roles = numbers(vocabulary, 5, words, seed=seed), some_roles(codebook, 5, words, seed=seed)
    address = numbers(num_codes, 5, 2, seed=seed)
    codes = codebook.join(pieces, roles, address)
    assert codes.shape == (5, codebook.tokens, 1)
    assert 0 <= codes.min() <= codes.max() < num_codes
    found, told, places = codebook.split(codes)
    assert torch.equal(found, pieces)
    assert torch.equal(told.role, roles.role)
    assert torch.equal(told.shade, roles.shade)
    assert torch.equal(places, address)


@given(vocabulary=st.integers(1, 64), num_codes=st.integers(8, 20), seed=st.integers(0, 50))
@settings(max_examples=50)
def test_any_codes_name_some_piece_and_some_role(vocabulary: int, num_codes: int, seed: int) -> None:
    codebook = codebook_of(vocabulary, num_codes)
    pieces, roles, _ = codebook.split(numbers(num_codes, 5, codebook.tokens, 1, seed=seed))
    assert 0 <= pieces.min() <= pieces.max() < vocabulary
    assert 0 <= roles.role.min() <= roles.role.max() < codebook.roles
    assert 0 <= roles.shade.min() <= roles.shade.max() < num_codes


def test_codes_by_hand() -> None:
    codebook = codebook_of()
    assert codebook.roles == 2
    # 13 is 8 + 5: its low code is 5, and its high code 1 * 2 with role 1.
    roles = Roles(torch.tensor([[1, 0, 0]]), torch.tensor([[7, 2, 5]]))
    codes = codebook.join(torch.tensor([[13, 0, 19]]), roles, torch.tensor([[7, 6]]))
    assert codes.flatten().tolist() == [7, 6, 5, 3, 7, 0, 0, 2, 3, 4, 5]


def test_as_many_roles_as_two_codes_leave_room_for() -> None:
    roles = [codebook_of(vocabulary, 8).roles for vocabulary in (1, 8, 9, 32, 33, 64)]
    assert roles == [8, 8, 4, 2, 1, 1]


def test_what_is_read_of_codes_is_what_was_trained_on() -> None:
    codebook = codebook_of()
    pieces, contexts = numbers(20, 4, 3), torch.randn(4, 3, 4)
    quantized = codebook.quantize(pieces, contexts)
    codes = codebook.join(pieces, quantized.roles, numbers(8, 4, 2))
    torch.testing.assert_close(codebook.lookup(codes), quantized.rows)
    pairs = torch.stack([codes[:2], codes[2:]])  # documents of some questions
    torch.testing.assert_close(codebook.lookup(pairs), torch.stack([quantized.rows[:2], quantized.rows[2:]]))


def test_an_address_changes_nothing_of_what_is_read() -> None:
    codebook = codebook_of()
    words = numbers(20, 4, 3), some_roles(codebook, 4, 3)
    one, other = (codebook.join(*words, numbers(8, 4, 2, seed=seed)) for seed in (1, 2))
    assert not torch.equal(one, other)
    assert torch.equal(codebook.lookup(one), codebook.lookup(other))


def test_words_are_read_with_each_other_and_their_place() -> None:
    codebook = codebook_of()
    none = torch.zeros(1, 3, dtype=torch.int64)
    address, roles = torch.zeros(1, 2, dtype=torch.int64), Roles(none, none)
    rows = [
        codebook.lookup(codebook.join(torch.tensor([pieces]), roles, address))[0, 0]
        for pieces in ([1, 2, 3], [1, 2, 4], [1, 3, 2])
    ]
    assert not any(torch.allclose(rows[one], rows[other]) for one, other in [(0, 1), (0, 2), (1, 2)])


def test_roles_learn_from_what_is_read_straight_through() -> None:
    codebook, weights = codebook_of(), torch.randn(2, 3, 8)
    codebook.zero_grad()
    pieces, contexts = numbers(20, 2, 3), torch.randn(2, 3, 4, requires_grad=True)
    quantized = codebook.quantize(pieces, contexts)
    (quantized.rows * weights).sum().backward()
    assert codebook.role_book.grad is None
    assert contexts.grad is not None
    read = codebook.lookup(codebook.join(pieces, quantized.roles, numbers(8, 2, 2)))
    (read * weights).sum().backward()
    for book, codes in ((codebook.role_book, quantized.roles.role), (codebook.shade_book, quantized.roles.shade)):
        assert book.grad is not None
        learnt = torch.zeros_like(book).index_add(0, codes.flatten(), contexts.grad.flatten(0, 1))
        torch.testing.assert_close(book.grad, learnt)


def test_the_nearest_role_and_its_losses_by_hand() -> None:
    codebook = WordCodebook(
        nn.Embedding(9, 4),
        Address(6, tokens=2, dim=4, num_codes=4),
        words=2,
        role_dim=2,
        heads=1,
        num_codes=4,
        commitment=0.25,
    )
    assert codebook.roles == 1
    codebook.role_book = nn.Parameter(torch.tensor([[0.0, 0.0], [2.0, 0.0]]))
    codebook.shade_book = nn.Parameter(torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    contexts = torch.tensor([[[0.5, 0.0], [1.5, 1.5]]], requires_grad=True)
    quantized = codebook.quantize(torch.tensor([[0, 1]]), contexts)
    assert quantized.roles.role.tolist() == [[0, 1]]
    # What the roles leave over is (0.5, 0) and (-0.5, 1.5).
    assert quantized.roles.shade.tolist() == [[0, 1]]
    of_roles, of_shades = (0.25 + 0.25 + 2.25) / 4, (0.25 + 0.25 + 0.25) / 4
    assert quantized.loss.item() == pytest.approx(of_roles + of_shades + 0.25 * of_shades)
    quantized.loss.backward()
    # Means over four numbers: 2 / 4 of a difference to the books, a quarter of that to the contexts.
    assert codebook.shade_book.grad is not None
    assert codebook.shade_book.grad.tolist() == [[-0.25, 0.0], [0.25, 0.25]]
    assert contexts.grad is not None
    assert contexts.grad.tolist() == [[[0.0625, 0.0], [-0.0625, -0.0625]]]


def test_a_words_share_is_that_of_all_its_codes() -> None:
    shares = np.array([[[0.5, 0.3, 0.2]]], np.float32)
    spread = codebook_of().code_shares(shares)
    assert spread.dtype == np.float32
    assert spread.tolist() == [[np.float32([0, 0, 0.5, 0.5, 0.5, 0.3, 0.3, 0.3, 0.2, 0.2, 0.2]).tolist()]]


def test_a_bank_keeps_the_vectors_of_addresses() -> None:
    codebook = codebook_of()
    shape = shape_of(codebook)
    assert (shape.tokens, shape.levels, shape.num_codes, shape.per_position) == (11, 1, 8, True)
    assert codebook.books.shape == (1, shape.positions, shape.num_codes, 4)
    assert torch.equal(codebook.books[0, :2], codebook.address.books)
    assert not codebook.books[0, 2:].any()


def test_the_vocabulary_belongs_to_the_base_lm() -> None:
    codebook = codebook_of()
    assert not any("vocabulary" in name for name in codebook.state_dict())
    assert all(parameter is not codebook.vocabulary for parameter in codebook.parameters())
