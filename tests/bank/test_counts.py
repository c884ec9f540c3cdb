"""Counts per codebook, against the obvious loop."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import CodeShape, count, perplexity


def test_codebook_per_position() -> None:
    codes = np.array([[[0], [2]], [[2], [2]]])
    assert count(codes, CodeShape(2, 1, 3, True)).tolist() == [[[1, 0, 1], [0, 0, 2]]]


@pytest.mark.parametrize("per_position", [False, True])
@given(data=st.data())
def test_counts_equal_the_obvious_loop(data: st.DataObject, per_position: bool) -> None:
    shape = CodeShape(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3)), 7, per_position)
    chunks = data.draw(st.integers(0, 6))
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    codes = random.integers(0, 7, (chunks, shape.tokens, shape.levels)).astype(np.uint16)
    expected = np.zeros((shape.levels, shape.positions, 7), np.int64)
    for chunk_codes in codes:
        for token in range(shape.tokens):
            for level in range(shape.levels):
                expected[level, token if per_position else 0, chunk_codes[token, level]] += 1
    result = count(codes, shape)
    assert result.dtype == np.int64
    assert np.array_equal(result, expected)


@pytest.mark.parametrize(("counts", "expected"), [([0, 0, 0], 1), ([5, 0, 0], 1), ([2, 2, 0], 2), ([7, 7, 7], 3)])
def test_perplexity_of_even_use(counts: list[int], expected: float) -> None:
    assert perplexity(np.array([counts])).tolist() == [pytest.approx(expected)]


def test_perplexity_is_exp_entropy() -> None:
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert perplexity(np.array([10**15 * 3, 10**15])) == pytest.approx(math.exp(entropy))
