"""Addresses, with codebooks and vectors written out by hand."""

import math
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mbc_engine.lm.encoders import mean_pooled
from mbc_engine.mini.retrieval import LENGTH_SHARE, ORDINARY_CHUNKS, WHITENING, Address

# Two positions of one dimension, three codes each.
BOOKS = torch.tensor([[[0.0], [1.0], [-2.0]], [[0.5], [3.0], [3.0]]])


def address_of(books: Tensor = BOOKS, *, scale: float = 1.0) -> Address:
    tokens, num_codes, dim = books.shape
    address = Address(tokens * dim, tokens=tokens, dim=dim, num_codes=num_codes)
    with torch.no_grad():
        address.basis.copy_(torch.eye(tokens * dim))
        address.books.copy_(books)
        address.log_scale.fill_(math.log(scale))
    return address


def test_vectors_are_centred_and_rotated_unit_means() -> None:
    address = address_of()
    with torch.no_grad():
        address.basis.copy_(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
        address.document_mean.copy_(torch.tensor([0.1, 0.3]))
        address.question_mean.copy_(torch.tensor([0.6, 0.0]))
    # The mean of (2, 4) and (4, 4) is (3, 4), of length 5; the third state is masked.
    states, mask = torch.tensor([[[2.0, 4.0], [4.0, 4.0], [90.0, 0.0]]]), torch.tensor([[1, 1, 0]])
    vectors = mean_pooled(states, mask)
    documents = address.of_documents(vectors)
    torch.testing.assert_close(documents, torch.tensor([[[0.5], [1.0]]]))
    questions = address.of_questions(vectors)
    torch.testing.assert_close(questions, torch.tensor([[[0.8], [0.0]]]))


def test_nearest_code_of_every_position() -> None:
    vectors = torch.tensor([[[0.6], [1.0]], [[-1.2], [9.0]], [[0.5], [1.75]]])
    assert address_of().encode(vectors).tolist() == [[1, 0], [2, 1], [0, 0]]


def test_codes_do_not_depend_on_autocast() -> None:
    address = address_of(torch.tensor([[[1.0], [1.001]]]))
    with torch.autocast("cpu", torch.bfloat16):
        assert address.encode(torch.tensor([[[1.0009]]])).tolist() == [[1]]


def test_tables() -> None:
    # The question (3, 4) is (0.6, 0.8) at unit length.
    (table,) = address_of(scale=10.0).tables(torch.tensor([[[3.0], [4.0]]]))
    first = [0.0, 0.6 - LENGTH_SHARE, -1.2 - 4 * LENGTH_SHARE]
    second = [0.4 - 0.25 * LENGTH_SHARE, 2.4 - 9 * LENGTH_SHARE, 2.4 - 9 * LENGTH_SHARE]
    torch.testing.assert_close(table, 10 * torch.tensor([first, second]))


def test_table_sums_score_like_vectors() -> None:
    torch.manual_seed(0)
    address = address_of(torch.randn(3, 7, 2), scale=4.0)
    codes, questions = torch.randint(7, (5, 3)), torch.randn(2, 3, 2)
    tables = address.tables(questions).detach()
    scores = [[sum(float(table[place, row[place]]) for place in range(3)) for row in codes] for table in tables]
    vectors = address.lookup(codes).detach().flatten(1)
    unit = functional.normalize(questions.flatten(1), dim=-1)
    expected = 4 * (unit @ vectors.T - LENGTH_SHARE * vectors.square().sum(-1))
    torch.testing.assert_close(torch.tensor(scores), expected)


def test_whitening() -> None:
    address = address_of()
    address.spread.copy_(torch.tensor([1.0, 4.0]))
    # Vectors (0, 3) and (-2, 3): squares of (1, 0) and (-1, 0) away from their mean.
    whitening = address.whitening(torch.tensor([[0, 1], [2, 1]]))
    covariance = [(2 + ORDINARY_CHUNKS) / (2 + ORDINARY_CHUNKS), 4 * ORDINARY_CHUNKS / (2 + ORDINARY_CHUNKS)]
    torch.testing.assert_close(whitening, torch.diag(torch.tensor(covariance) ** -WHITENING))
    ordinary = address.whitening(torch.zeros(0, 2, dtype=torch.int64))  # of an empty bank
    torch.testing.assert_close(ordinary, torch.diag(torch.tensor([1.0, 4.0]) ** -WHITENING))


def test_questions_are_whitened_before_they_are_normalised() -> None:
    address, question = address_of(), torch.tensor([[[3.0], [2.0]]])
    whitened = address.tables(question, torch.diag(torch.tensor([1.0, 2.0])))
    torch.testing.assert_close(whitened, address.tables(torch.tensor([[[3.0], [4.0]]])))


def fit(*given: Any) -> None:
    path = Path(__file__).parents[2] / "recipes" / "mini" / "product_quantisation.py"
    runpy.run_path(str(path))["fit"](*given)


def test_fitting_centres_and_spreads_variance_evenly() -> None:
    torch.manual_seed(0)
    spreads = torch.tensor([8.0, 4.0, 2.0, 1.0])
    documents, questions = torch.randn(4000, 4) * spreads + 5, torch.randn(50, 4) - 3
    address = Address(4, tokens=2, dim=2, num_codes=16)
    fit(address, documents, questions)
    torch.testing.assert_close(address.document_mean.data, documents.mean(0))
    torch.testing.assert_close(address.question_mean.data, questions.mean(0))
    torch.testing.assert_close(address.basis @ address.basis.T, torch.eye(4), atol=1e-5, rtol=0)
    # The widest direction goes with the narrowest.
    assert address.basis.abs().argmax(1).tolist() == [0, 3, 1, 2]
    torch.testing.assert_close(address.spread.sqrt(), torch.tensor([8.0, 1.0, 4.0, 2.0]), rtol=0.1, atol=0)


def test_fitted_books_leave_less_than_half_of_the_variance() -> None:
    torch.manual_seed(0)
    documents = torch.randn(300, 6)
    address = Address(6, tokens=3, dim=2, num_codes=16)
    fit(address, documents, documents)
    vectors = address.of_documents(documents)
    left = (vectors - address.lookup(address.encode(vectors))).square().sum() / vectors.square().sum()
    assert left < 0.5


def test_fitting_needs_a_document_for_each_code() -> None:
    with pytest.raises(ValueError, match="16 clusters need at least as many points, not 10"):
        fit(Address(4, tokens=2, dim=2, num_codes=16), torch.randn(10, 4), torch.randn(3, 4))
