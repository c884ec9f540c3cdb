"""Every read against its dense reference: attention, or products, over all vectors of all documents."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.errors import MBCError, ModelError
from mbc_engine.model.aggregator import Aggregator
from mbc_engine.model.code_memory import CodeMemory
from mbc_engine.model.codebook import Codebook
from mbc_engine.model.memory import Memory
from mbc_engine.model.projections import Projections
from mbc_engine.model.reads import Reader, Reading, read
from mbc_engine.model.router import Router
from mbc_engine.model.vector_memory import VectorMemory

TOKENS, DIM, CODES = 3, 6, 5


def codebook_of(*, levels: int = 1, per_position: bool = False, seed: int = 0) -> Codebook:
    torch.manual_seed(seed)
    codebook = Codebook(CODES, DIM, TOKENS, levels=levels, per_position=per_position)
    with torch.no_grad():
        codebook.books.normal_()
    return codebook.requires_grad_(False)


def codes_of(documents: int, levels: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, CODES, (documents, TOKENS, levels)).astype(np.uint16)


def reader_of(codebook: Codebook | None = None, *, routed: bool = False, documents: int = 2) -> Reader:
    torch.manual_seed(7)
    aggregator = Aggregator(DIM, blocks=2, heads=2, head_dim=4, hidden=8).requires_grad_(False)
    router = Router(DIM).requires_grad_(False)
    torch.nn.init.normal_(router.weight)
    projections = Projections(aggregator, codebook or codebook_of())
    return Reader(aggregator, projections, router if routed else None, documents, 4)


def sources(reading: Reading) -> list[list[tuple[int, float]]]:
    return [[(own.chunk, own.share) for own in ranked] for ranked in reading.sources]


def all_scores(memory: Memory, router: Router, question: torch.Tensor) -> np.ndarray:
    return np.concatenate([masses.values for masses in memory.scores(router, question)], axis=-1)


def dense(codebook: Codebook, codes: np.ndarray) -> torch.Tensor:
    """All documents' vectors by one look-up each, [N, T, D]."""
    result = torch.zeros(len(codes), TOKENS, DIM)
    for document, token, level in np.ndindex(*codes.shape):
        position = token if codebook.per_position else 0
        result[document, token] += codebook.books[level, position, int(codes[document, token, level])]
    return result


@given(documents=st.integers(1, 12), per_position=st.booleans(), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_the_flat_read_by_counts_equals_attention_over_all_vectors(
    documents: int, per_position: bool, seed: int
) -> None:
    codebook = codebook_of(per_position=per_position, seed=seed)
    reader = reader_of(codebook)
    codes = codes_of(documents, seed=seed)
    question = torch.randn(2, TOKENS, DIM)
    by_counts = read("flat", reader, question, CodeMemory(codes, codebook), top=documents)
    vectors = dense(codebook, codes)
    expected = reader.aggregator(question, vectors.flatten(0, 1).expand(2, -1, -1))
    torch.testing.assert_close(by_counts.modulation, expected.modulation, rtol=1e-4, atol=1e-5)

    shares = expected.attention.unflatten(-1, (documents, TOKENS)).sum(-1)
    for own, found in zip(shares.tolist(), sources(by_counts), strict=True):
        assert [share for _, share in found] == pytest.approx(sorted(own, reverse=True), rel=1e-4)
        assert [own[chunk] for chunk, _ in found] == pytest.approx(sorted(own, reverse=True), rel=1e-4)
        assert sorted(chunk for chunk, _ in found) == list(range(documents))
        assert sum(share for _, share in found) == pytest.approx(1)


def test_codes_that_do_not_occur_weigh_nothing() -> None:
    codes = np.array([[[1], [1], [4]], [[1], [4], [4]]], dtype=np.uint16)
    rows = CodeMemory(codes, codebook := codebook_of()).rows()
    assert torch.equal(rows.vectors, codebook.books[0, 0])
    assert rows.log_weights is not None
    assert rows.log_weights.exp().tolist() == pytest.approx([0, 3, 0, 0, 3])


def test_continuous_vectors_read_like_codes_of_the_same_values() -> None:
    codebook, codes = codebook_of(), codes_of(6)
    reader = reader_of(codebook, routed=True)
    question = torch.randn(2, TOKENS, DIM)
    memories = CodeMemory(codes, codebook), VectorMemory(dense(codebook, codes))
    for mode in ("flat", "routed", "hierarchical:4"):
        by_codes, by_vectors = (read(mode, reader, question, memory, top=3) for memory in memories)
        torch.testing.assert_close(by_codes.modulation, by_vectors.modulation, rtol=1e-4, atol=1e-5)
        for one, other in zip(sources(by_codes), sources(by_vectors), strict=True):
            assert [chunk for chunk, _ in one] == [chunk for chunk, _ in other]
            assert [share for _, share in one] == pytest.approx([share for _, share in other], rel=1e-4)


def test_residual_codes_cannot_be_read_flat() -> None:
    memory = CodeMemory(codes_of(2, levels=2), codebook_of(levels=2))
    with pytest.raises(MBCError, match="cannot be read flat"):
        read("flat", reader_of(), torch.randn(1, TOKENS, DIM), memory)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("per_position", [False, True])
def test_routing_scores_by_tables_equal_the_dense_products(levels: int, per_position: bool) -> None:
    codebook, router = codebook_of(levels=levels, per_position=per_position), reader_of(routed=True).router
    assert router is not None
    codes, question = codes_of(7, levels), torch.randn(2, TOKENS, DIM)
    vectors = dense(codebook, codes)
    by_hand = torch.zeros(2, 7)
    for asked, document, token in np.ndindex(2, 7, TOKENS):
        by_hand[asked, document] += question[asked, token] @ router.weight @ vectors[document, token]
    by_hand *= 10 / (TOKENS * DIM)  # the first temperature
    np.testing.assert_allclose(all_scores(CodeMemory(codes, codebook), router, question), by_hand, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(all_scores(VectorMemory(vectors), router, question), by_hand, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("levels", [1, 2])
def test_the_routed_read_aggregates_the_best_documents(levels: int) -> None:
    codebook, reader = codebook_of(levels=levels, per_position=True), reader_of(routed=True, documents=2)
    assert reader.router is not None
    codes, question = codes_of(8, levels), torch.randn(3, TOKENS, DIM)
    reading = read("routed", reader, question, CodeMemory(codes, codebook), top=4)
    vectors = dense(codebook, codes)
    scores = reader.router.scores(question, vectors)
    for index, found in enumerate(sources(reading)):
        best = sorted(range(8), key=lambda document: -scores[index, document].item())
        assert [chunk for chunk, _ in found] == best[:4]
        bank = vectors[best[:2]].flatten(0, 1)
        expected = reader.aggregator(question[index : index + 1], bank.unsqueeze(0)).modulation[0]
        torch.testing.assert_close(reading.modulation[index], expected)
        assert [share for _, share in found] == pytest.approx(scores[index].softmax(-1)[best[:4]].tolist(), rel=1e-4)


def test_the_routed_read_aggregates_as_many_as_set_however_few_are_named() -> None:
    codebook, question = codebook_of(), torch.randn(1, TOKENS, DIM)
    memory, reader = CodeMemory(codes_of(8), codebook), reader_of(routed=True, documents=3)
    one, many = (read("routed", reader, question, memory, top=top) for top in (1, 6))
    assert [len(one.sources[0]), len(many.sources[0])] == [1, 6]
    torch.testing.assert_close(one.modulation, many.modulation)
    same = read("routed:3", reader_of(routed=True, documents=1), question, memory)
    torch.testing.assert_close(one.modulation, same.modulation)


def test_a_memory_smaller_than_asked_for_names_what_there_is() -> None:
    memory, question = CodeMemory(codes_of(2), codebook_of()), torch.randn(1, TOKENS, DIM)
    for mode in ("flat", "routed", "hierarchical"):
        reading = read(mode, reader_of(routed=True, documents=5), question, memory, top=9)
        assert sorted(chunk for chunk, _ in sources(reading)[0]) == [0, 1]
        assert sum(share for _, share in sources(reading)[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("mode", ["flat", "routed", "hierarchical"])
def test_an_empty_memory_leaves_the_question_as_it_is(mode: str) -> None:
    question = torch.randn(2, TOKENS, DIM)
    reading = read(mode, reader_of(routed=True), question, CodeMemory(codes_of(0), codebook_of()))
    assert torch.equal(reading.modulation, question)
    assert reading.sources == [[], []]


def test_a_model_without_router_cannot_read_routed() -> None:
    with pytest.raises(ModelError, match="without a router"):
        read("routed", reader_of(), torch.randn(1, TOKENS, DIM), CodeMemory(codes_of(2), codebook_of()))
