"""Addresses, with codebooks and vectors written out by hand."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from mbc_engine.errors import ModelError
from mbc_engine.mini.retrieval import LENGTH_SHARE, PRIOR_CHUNKS, WHITENING, Address

# Two positions of one dimension, three codes each.
BOOKS = np.array([[[0.0], [1.0], [-2.0]], [[0.5], [3.0], [3.0]]], np.float32)


def address_of(books=BOOKS, *, scale=1.0):
    tokens, num_codes, dim = books.shape
    address = Address(tokens * dim, tokens=tokens, dim=dim, num_codes=num_codes)
    address.basis[...] = np.eye(tokens * dim)
    address.books[...] = books
    address.log_scale[...] = math.log(scale)
    return address


def test_vectors_are_centred_and_rotated():
    address, vectors = address_of(), np.array([[0.6, 0.8]], np.float32)
    address.basis[...] = [[0.0, 1.0], [2.0, 0.0]]
    address.document_mean[...] = [0.1, 0.3]
    address.question_mean[...] = [0.6, 0.0]
    assert_allclose(address.of_documents(vectors), [[[0.5], [1.0]]], rtol=1e-6)
    assert_allclose(address.of_questions(vectors), [[[0.8], [0.0]]], rtol=1e-6)


def test_nearest_code_of_every_position():
    vectors = np.array([[[0.6], [1.0]], [[-1.2], [9.0]], [[0.5], [1.75]]])
    assert address_of().encode(vectors).tolist() == [[1, 0], [2, 1], [0, 0]]


def test_tables_that_are_no_numbers():
    address, question = address_of(), np.array([[[3.0], [4.0]]], np.float32)
    address.log_scale[...] = 1000
    with pytest.raises(ModelError, match="out of range"):
        address.tables(question)


def test_tables():
    # The question (3, 4) is (0.6, 0.8) at unit length.
    (table,) = address_of(scale=10.0).tables(np.array([[[3.0], [4.0]]], np.float32))
    first = [0.0, 0.6 - LENGTH_SHARE, -1.2 - 4 * LENGTH_SHARE]
    second = [0.4 - 0.25 * LENGTH_SHARE, 2.4 - 9 * LENGTH_SHARE, 2.4 - 9 * LENGTH_SHARE]
    assert_allclose(table, 10 * np.array([first, second]), rtol=1e-6)
    assert table.dtype == np.float32


def test_table_sums_score_like_vectors():
    rng = np.random.default_rng(0)
    address = address_of(rng.standard_normal((3, 7, 2)), scale=4.0)
    codes, questions = rng.integers(7, size=(5, 3)), rng.standard_normal((2, 3, 2), np.float32)
    scores = [
        [sum(table[place, row[place]] for place in range(3)) for row in codes] for table in address.tables(questions)
    ]
    vectors, flat = address.lookup(codes).reshape(5, 6), questions.reshape(2, 6)
    unit = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    assert_allclose(scores, 4 * (unit @ vectors.T - LENGTH_SHARE * (vectors**2).sum(-1)), rtol=1e-4)


def test_whitening():
    address = address_of()
    address.spread[...] = [1.0, 4.0]
    # Vectors (0, 3) and (-2, 3): squares of (1, 0) and (-1, 0) away from their mean.
    whitening = address.whitening(np.array([[0, 1], [2, 1]]))
    covariance = [(2 + PRIOR_CHUNKS) / (2 + PRIOR_CHUNKS), 4 * PRIOR_CHUNKS / (2 + PRIOR_CHUNKS)]
    assert_allclose(whitening, np.diag(np.array(covariance) ** -WHITENING), rtol=1e-6)
    ordinary = address.whitening(np.zeros((0, 2), np.int64))  # of an empty bank
    assert_allclose(ordinary, np.diag(np.array([1.0, 4.0]) ** -WHITENING), rtol=1e-6)


def test_questions_are_whitened_before_they_are_normalised():
    address, question = address_of(), np.array([[[3.0], [2.0]]])
    whitened = address.tables(question, np.diag([1.0, 2.0]))
    assert_allclose(whitened, address.tables(np.array([[[3.0], [4.0]]])))


def fit(*given):
    path = Path(__file__).parents[2] / "recipes" / "mini" / "product_quantisation.py"
    runpy.run_path(str(path))["fit"](*given)


def test_fitting_centres_and_spreads_variance_evenly():
    torch.manual_seed(0)
    spreads = torch.tensor([8.0, 4.0, 2.0, 1.0])
    documents, questions = torch.randn(4000, 4) * spreads + 5, torch.randn(50, 4) - 3
    address = Address(4, tokens=2, dim=2, num_codes=16)
    fit(address, documents, questions)
    assert_allclose(address.document_mean, documents.mean(0), rtol=1e-5)
    assert_allclose(address.question_mean, questions.mean(0), rtol=1e-5)
    assert_allclose(address.basis @ address.basis.T, np.eye(4), atol=1e-5)
    # The widest direction goes with the narrowest.
    assert np.abs(address.basis).argmax(1).tolist() == [0, 3, 1, 2]
    assert_allclose(np.sqrt(address.spread), [8.0, 1.0, 4.0, 2.0], rtol=0.1)


def test_fitted_books_leave_less_than_half_of_the_variance():
    torch.manual_seed(0)
    documents = torch.randn(300, 6)
    address = Address(6, tokens=3, dim=2, num_codes=16)
    fit(address, documents, documents)
    vectors = address.of_documents(documents.numpy())
    left = vectors - address.lookup(address.encode(vectors))
    assert (left**2).sum() / (vectors**2).sum() < 0.5


def test_fitting_needs_a_document_for_each_code():
    with pytest.raises(ValueError, match="16 clusters need at least as many points, not 10"):
        fit(Address(4, tokens=2, dim=2, num_codes=16), torch.randn(10, 4), torch.randn(3, 4))
