"""The hierarchical read against the recursion as one would write it down."""

import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.paper import read_modes
from mbc_engine.paper.aggregator import Aggregated
from mbc_engine.paper.memories import CodeMemory, VectorMemory
from mbc_engine.paper.read_modes import GroupResult, read


def combined(aggregator, question, nodes):
    """One result from several: their rows are read, each with its weight, and its share is passed down."""
    logs = torch.tensor([math.log(weight) for _, _, weight in nodes]).repeat_interleave(len(question))
    read = aggregator(question[None], torch.cat([rows for rows, _, _ in nodes])[None], logs[None])
    parts = read.attention[0].reshape(len(nodes), -1).sum(-1).tolist()
    shares = {
        chunk: share * part for (_, own, _), part in zip(nodes, parts, strict=True) for chunk, share in own.items()
    }
    return read.modulation[0], shares, sum(weight for _, _, weight in nodes)


def divide_and_conquer(aggregator, question, nodes, size):
    """Groups of `size`, each becomes one, until one is left; one question [T, D]."""
    while True:
        groups = [nodes[start : start + size] for start in range(0, len(nodes), size)]
        nodes = [combined(aggregator, question, group) for group in groups]
        if len(nodes) == 1:
            return nodes[0]


def leaves(vectors, weights=None):
    """Every chunk is a node that is all of itself."""
    each = weights if weights is not None else [1.0] * len(vectors)
    return [(vectors[chunk], {chunk: 1.0}, weight) for chunk, weight in enumerate(each) if weight]


def check(reader, question, memory, nodes, documents, size):
    """The read's modulation and sources are the recursion's."""
    reading = read(f"hierarchical:{size}", reader, question, memory, top=len(documents))
    for index in range(len(question)):
        modulation, shares, _ = divide_and_conquer(reader.aggregator, question[index], nodes, size)
        torch.testing.assert_close(reading.modulation[index], modulation, rtol=1e-4, atol=1e-5)
        expected = dict.fromkeys((documents[chunk] for chunk in shares), 0.0)
        for chunk, share in shares.items():
            expected[documents[chunk]] += share
        found = reading.sources[index]
        assert {documents[own.chunk]: own.share for own in found} == pytest.approx(expected, rel=1e-3)
        assert [own.share for own in found] == sorted((own.share for own in found), reverse=True)
        assert len(found) == len(expected)
        assert sum(own.share for own in found) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "chunks_of", [lambda m: 1, lambda m: m - 1, lambda m: m, lambda m: m + 1, lambda m: m * m, lambda m: m * m + 1]
)
@pytest.mark.parametrize(("levels", "pass_through"), [(1, False), (2, False), (2, True)])
def test_read_equals_the_recursion(small, size, chunks_of, levels, pass_through):
    chunks, codebook = chunks_of(size), small.codebook(levels=levels, per_position=True)
    codes = small.codes(chunks, levels)
    vectors = small.dense(codebook, codes)
    reader = small.reader(codebook, pass_through=pass_through)
    for memory in (CodeMemory(codes, codebook), VectorMemory(vectors)):
        check(reader, small.question(), memory, leaves(vectors), list(range(chunks)), size)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=9),
    size=st.integers(2, 5),
    levels=st.integers(1, 2),
    data=st.data(),
)
@settings(max_examples=15)
def test_weighted_read_equals_the_recursion(small, lengths, size, levels, data):
    total, own = sum(lengths), np.array(lengths)
    drawn = st.lists(st.sampled_from([0.0, 0.125, 0.5, 1.0]), min_size=total, max_size=total).filter(any)
    weights = data.draw(st.none() | drawn)
    codebook, codes = small.codebook(levels=levels), small.codes(total, levels)
    vectors = small.dense(codebook, codes)
    given_weights = None if weights is None else np.array(weights, np.float32)
    for memory in (CodeMemory(codes, codebook, own, given_weights), VectorMemory(vectors, own, given_weights)):
        reader, documents = small.reader(codebook), small.documents(own)
        check(reader, small.question(), memory, leaves(vectors, weights), documents, size)


def averaged(question, rows, logs):
    """What a tiny aggregator could do: each row gets the same attention."""
    return Aggregated(rows.mean(1, keepdim=True), torch.full(rows.shape[:2], 1 / rows.shape[1]))


def conquered(results, size, aggregator=averaged):
    question = torch.zeros(1, 1, 1)
    return read_modes.divide_and_conquer(
        results, size, lambda group: read_modes.combined(aggregator, question, group, 5)
    )


@pytest.mark.parametrize(("results", "size"), [(1, 2), (4, 4), (255, 4), (256, 4), (257, 4), (300, 7), (1000, 10)])
def test_results_alive_at_once(results, size):
    alive = set()
    most = 0

    def made(question, rows, logs):
        aggregated = averaged(question, rows, logs)
        noted(aggregated.modulation)
        return aggregated

    def noted(modulation):
        nonlocal most
        alive.add(id(modulation))
        weakref.finalize(modulation, alive.discard, id(modulation))
        most = max(most, len(alive))
        return modulation

    every = (
        GroupResult(noted(torch.tensor([[[float(number)]]])), [{number: (1.0, 1.0, number)}], 1.0)
        for number in range(results)
    )
    levels = math.ceil(math.log(max(results, 2), size)) + 1
    last = conquered(every, size, made)
    assert most <= size * levels + 1
    assert len(last.shares[0]) == min(results, 5)


def test_document_is_named_by_its_best_chunk():
    # Document 7 has chunks in four groups; together the first two have more of it than the third alone.
    results = [
        GroupResult(torch.ones(1, 1, 1), [{7: (share, share, chunk)}], 1.0)
        for chunk, share in enumerate([0.4, 0.4, 0.6, 0.1])
    ]
    ((share, _, chunk),) = conquered(results, 2).shares[0].values()
    assert (chunk, share) == (2, pytest.approx(1.5 / 4))


def test_codes_have_the_shares_of_their_chunks(small):
    codebook, codes = small.codebook(), small.codes(4)
    reading = read("hierarchical:2", small.reader(codebook), small.question(), CodeMemory(codes, codebook))
    for own, hits in zip(reading.codes, reading.sources, strict=True):
        expected = np.zeros(codebook.shape.num_codes)
        for hit in hits:
            np.add.at(expected, codes[hit.chunk, :, 0], hit.share / 3)  # of three positions
        np.testing.assert_allclose(own[0, 0], expected / expected.sum(), rtol=1e-4)
