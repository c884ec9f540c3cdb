"""Which codes a read took, against loops over attention to all vectors."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.paper.memories import BankMemory, CodeMemory, VectorMemory
from mbc_engine.paper.reads import read

LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def gathered(codebook, codes, attention):
    """The attention of one question to vectors [n, T], added to their codes [n, T, levels] one by one."""
    shape = codebook.shape
    result = np.zeros((shape.levels, shape.positions, shape.num_codes))
    for chunk, token, level in np.ndindex(*codes.shape):
        position = token if codebook.per_position else 0
        result[level, position, codes[chunk, token, level]] += attention[chunk, token]
    return result


@given(lengths=LENGTHS, per_position=st.booleans(), seed=st.integers(0, 100))
def test_flat_codes_equal_dense_attention(small, lengths, per_position, seed):
    codebook = small.codebook(per_position=per_position, seed=seed)
    reader, question, codes = small.reader(codebook), small.question(seed=seed), small.codes(sum(lengths), seed=seed)
    dense = reader.aggregator(question, small.dense(codebook, codes).flatten(0, 1).expand(2, -1, -1))
    with small.bank(codebook, codes, np.array(lengths)) as bank:
        for memory in (CodeMemory(codes, codebook, np.array(lengths)), BankMemory(bank, codebook)):
            found = read("flat", reader, question, memory).codes
            assert found.dtype == np.float32
            for own, attention in zip(found, dense.attention.numpy(), strict=True):
                expected = gathered(codebook, codes, attention.reshape(-1, 3))
                np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-6)
                assert own.sum() == pytest.approx(1, abs=1e-5)


@given(lengths=LENGTHS, levels=st.integers(1, 3), per_position=st.booleans(), count=st.integers(1, 5))
def test_routed_codes_equal_a_loop(small, lengths, levels, per_position, count):
    codebook = small.codebook(levels=levels, per_position=per_position)
    reader, question = small.reader(codebook, routed=True, documents=count), small.question(3)
    codes = small.codes(sum(lengths), levels)
    vectors = small.dense(codebook, codes)
    found = read("routed", reader, question, CodeMemory(codes, codebook, np.array(lengths))).codes
    scores = reader.router.scores(question, vectors)
    for index, own in enumerate(found):
        # Chunks of the same codes score the same, and which of them is chosen makes no difference.
        best = sorted(range(len(codes)), key=lambda chunk: -float(scores[index, chunk]))[:count]
        dense = reader.aggregator(question[index : index + 1], vectors[best].flatten(0, 1).unsqueeze(0))
        expected = gathered(codebook, codes[best], dense.attention[0].numpy().reshape(-1, 3))
        np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-6)
        assert own.sum((1, 2)) == pytest.approx([1] * levels, abs=1e-5)


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical:2"])
def test_no_codes(small, mode):
    codebook, question = small.codebook(), small.question()
    reader = small.reader(codebook, routed=True)
    assert read(mode, reader, question, CodeMemory(small.codes(0), codebook)).codes is None
    assert read(mode, reader, question, VectorMemory(torch.randn(4, 3, 6))).codes is None
