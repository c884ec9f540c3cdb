"""Every read against its dense reference: attention, or products, over all vectors of all documents."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.errors import MBCError, ModelError
from mbc_engine.paper.memories import CodeMemory, VectorMemory
from mbc_engine.paper.read_modes import read


def sources(reading):
    return [[(own.chunk, own.share) for own in ranked] for ranked in reading.sources]


def all_scores(memory, router, question):
    return np.concatenate([scores for scores, _ in memory.scores(router, question)], axis=-1)


def by_document(chunks, lengths):
    """Sums over the chunks of each document, [B, N] -> [B, documents]."""
    return torch.stack([own.sum(-1) for own in chunks.split(lengths, dim=-1)], dim=-1)


def gathered(codebook, codes, attention):
    """The attention of each question to vectors [n, T], added to their codes [n, T, levels] one by one."""
    shape = codebook.shape
    result = np.zeros((len(codes), shape.levels, shape.positions, shape.num_codes))
    for question, own in enumerate(codes):
        for chunk, token, level in np.ndindex(*own.shape):
            position = token if codebook.per_position else 0
            result[question, level, position, own[chunk, token, level]] += attention[question, chunk, token]
    return result


LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=10)


@given(lengths=LENGTHS, per_position=st.booleans(), seed=st.integers(0, 100))
def test_flat_read_equals_dense_attention(small, lengths, per_position, seed):
    codebook = small.codebook(per_position=per_position, seed=seed)
    reader, question = small.reader(codebook), small.question(seed=seed)
    codes = small.codes(sum(lengths), seed=seed)
    by_counts = read("flat", reader, question, CodeMemory(codes, codebook, np.array(lengths)), top=len(lengths))
    expected = reader.aggregator(question, small.dense(codebook, codes).flatten(0, 1).expand(2, -1, -1))
    scale = float(expected.modulation.abs().max())
    torch.testing.assert_close(by_counts.modulation, expected.modulation, rtol=0, atol=1e-4 * scale)

    attention = expected.attention.numpy().reshape(2, -1, 3)
    np.testing.assert_allclose(by_counts.codes, gathered(codebook, [codes] * 2, attention), rtol=1e-4, atol=1e-6)

    document_of = small.documents(np.array(lengths))
    chunks = expected.attention.unflatten(-1, (len(codes), 3)).sum(-1)
    for own, parts, found in zip(
        by_document(chunks, lengths).tolist(), chunks.tolist(), by_counts.sources, strict=True
    ):
        assert [each.share for each in found] == pytest.approx(sorted(own, reverse=True), rel=1e-4)
        assert sorted(document_of[each.chunk] for each in found) == list(range(len(lengths)))
        assert sum(each.share for each in found) == pytest.approx(1, abs=1e-5)
        for each in found:
            number = document_of[each.chunk]
            assert each.share == pytest.approx(own[number], rel=1e-4)
            best = max(share for chunk, share in enumerate(parts) if document_of[chunk] == number)
            assert parts[each.chunk] == pytest.approx(best, rel=1e-4)


class Counted(CodeMemory):
    """Some codes out of a memory that has each so many times."""

    def __init__(self, codes, codebook, counts):
        super().__init__(codes, codebook)
        self._given = counts

    def _counts(self):
        return self._given


@given(
    exponents=st.lists(st.floats(0, 15), min_size=5, max_size=5),
    unused=st.sets(st.integers(0, 4), max_size=4),
    per_position=st.booleans(),
)
def test_huge_counts_equal_double_precision(small, exponents, unused, per_position):
    codebook = small.codebook(per_position=per_position)
    each = np.array([0 if code in unused else int(10**exponent) for code, exponent in enumerate(exponents)])
    used = [code for code in range(5) if code not in unused]
    codes = np.array([[[code]] * 3 for code in used], np.uint16)
    # Positions differ as well: the second has the codes half as often, and at least once.
    counts = np.stack([each, np.maximum(each // 2, np.minimum(each, 1)), each]) if per_position else each[None]
    memory, question = Counted(codes, codebook, counts[None]), small.question()
    reader = small.reader(codebook)
    exact = copy.deepcopy(reader.aggregator).double()
    with np.errstate(divide="ignore"):
        logs = torch.from_numpy(np.log(counts.astype(np.float64))).reshape(1, -1)
    expected = exact(question.double(), codebook.books[0].flatten(0, 1).double().expand(2, -1, -1), logs)

    reading = read("flat", reader, question, memory, top=5)
    scale = float(expected.modulation.abs().max())
    torch.testing.assert_close(reading.modulation.double(), expected.modulation, rtol=0, atol=1e-4 * scale)
    # A document of this memory is one of the many that have the same codes.
    parts = (expected.attention / torch.from_numpy(np.maximum(counts, 1)).reshape(1, -1)).reshape(2, -1, 5)
    shares = parts.expand(2, 3, 5).sum(1)[:, used]
    shares = shares / shares.sum(-1, keepdim=True)
    for own, found in zip(shares.tolist(), sources(reading), strict=True):
        assert [share for _, share in found] == pytest.approx(sorted(own, reverse=True), rel=2e-4)
        assert [own[chunk] for chunk, _ in found] == pytest.approx(sorted(own, reverse=True), rel=2e-4)


def test_equal_documents_tie(small):
    codebook = small.codebook()
    one, other = small.codes(1), small.codes(1, seed=5)
    memory = CodeMemory(np.concatenate([one, other, one, one]), codebook)
    for mode in ("flat", "routed"):
        found = read(mode, small.reader(codebook, routed=True), small.question(), memory, top=4).sources
        for own in found:
            assert {each.chunk: each.ties for each in own} == {0: 2, 1: 0, 2: 2, 3: 2}
            assert [each.chunk for each in own if each.ties] == [0, 2, 3]


def test_residual_codes_are_not_read_flat(small):
    memory = CodeMemory(small.codes(2, levels=2), small.codebook(levels=2))
    with pytest.raises(MBCError, match="cannot be read flat"):
        read("flat", small.reader(), small.question(1), memory)


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("per_position", [False, True])
def test_table_scores_equal_dense_products(small, levels, per_position):
    codebook, router = small.codebook(levels=levels, per_position=per_position), small.reader(routed=True).router
    codes, question = small.codes(7, levels), small.question(2)
    vectors = small.dense(codebook, codes)
    by_hand = torch.zeros(2, 7)
    for asked, document, token in np.ndindex(2, 7, 3):
        by_hand[asked, document] += question[asked, token] @ router.weight @ vectors[document, token]
    by_hand *= 10 / (3 * 6)  # the first temperature
    np.testing.assert_allclose(all_scores(CodeMemory(codes, codebook), router, question), by_hand, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(all_scores(VectorMemory(vectors), router, question), by_hand, rtol=1e-4, atol=1e-5)


@given(lengths=LENGTHS, levels=st.integers(1, 3), per_position=st.booleans(), count=st.integers(1, 5))
def test_routed_read_equals_a_loop(small, lengths, levels, per_position, count):
    codebook = small.codebook(levels=levels, per_position=per_position)
    reader, question = small.reader(codebook, routed=True, documents=count), small.question(3)
    codes, own = small.codes(sum(lengths), levels), np.array(lengths)
    reading = read("routed", reader, question, CodeMemory(codes, codebook, own), top=4)
    vectors, document_of = small.dense(codebook, codes), small.documents(own)
    asked = reader.router.project(question)
    for index, found in enumerate(reading.sources):
        scores = torch.stack([sum(asked[index, token] @ chunk[token] for token in range(3)) for chunk in vectors])
        probabilities = scores.double().softmax(-1)
        shares = by_document(probabilities, lengths).tolist()
        # Chunks of the same codes have the same score, and come in their order.
        assert [each.share for each in found] == pytest.approx(sorted(shares, reverse=True)[:4], rel=1e-4)
        for each in found:
            number = document_of[each.chunk]
            assert each.share == pytest.approx(shares[number], rel=1e-4)
            best = max(float(scores[chunk]) for chunk in range(len(codes)) if document_of[chunk] == number)
            assert float(scores[each.chunk]) == pytest.approx(best, abs=1e-5)
        assert len({document_of[each.chunk] for each in found}) == min(4, len(lengths))

        best_chunks = sorted(range(len(codes)), key=lambda chunk: -float(scores[chunk]))[:count]
        bank = vectors[best_chunks].flatten(0, 1)
        expected = reader.aggregator(question[index : index + 1], bank.unsqueeze(0))
        torch.testing.assert_close(reading.modulation[index], expected.modulation[0], rtol=1e-4, atol=1e-5)
        attention = expected.attention.numpy().reshape(1, -1, 3)
        by_code = gathered(codebook, [codes[best_chunks]], attention)[0]
        np.testing.assert_allclose(reading.codes[index], by_code, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical"])
def test_empty_memory(small, mode):
    question = small.question(2)
    reading = read(mode, small.reader(routed=True), question, CodeMemory(small.codes(0), small.codebook()))
    assert torch.equal(reading.modulation, question)
    assert reading.sources == [[], []]
    assert reading.codes is None
    reader = small.reader(small.codebook(), routed=True)
    assert read(mode, reader, question, VectorMemory(torch.randn(4, 3, 6))).codes is None


def test_routed_needs_a_router(small):
    with pytest.raises(ModelError, match="without a router") as refused:
        read("routed", small.reader(), small.question(1), CodeMemory(small.codes(2), small.codebook()))
    # Residual codes are not read flat.
    assert refused.value.hint == "Ask with --read flat, or --read hierarchical."
