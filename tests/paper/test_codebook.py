"""The codebook on books written out by hand, and against a slow reference."""

import pytest
import torch

from mbc_engine.paper.codebook import Codebook

SQUARE = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


def book_of(codes, tokens=1, **options):
    codebook = Codebook(len(codes), len(codes[0]), tokens, **options)
    with torch.no_grad():
        codebook.books[0, 0] = torch.tensor(codes)
    return codebook


def vectors_of(*documents):
    return torch.tensor(documents)


def naive_quantize(codebook, vectors):
    """Codes, vectors and loss by one loop a document, a position and a level."""
    books = codebook.books.detach()
    codes = torch.zeros(*vectors.shape[:2], codebook.levels, dtype=torch.int64)
    sums, error = torch.zeros_like(vectors), [0.0] * codebook.levels
    for document, token in [(d, t) for d in range(vectors.shape[0]) for t in range(vectors.shape[1])]:
        rest = vectors[document, token].clone()
        for level in range(codebook.levels):
            book = books[level, token if codebook.per_position else 0]
            distances = [float((rest - code).square().sum()) for code in book]
            best = distances.index(min(distances))
            codes[document, token, level] = best
            error[level] += distances[best] / vectors.numel()
            sums[document, token] += book[best]
            rest = rest - book[best]
    return codes, sums, sum(error) * (1 + codebook.commitment)


def test_straight_through_gradient():
    codebook = book_of(SQUARE)
    vectors = vectors_of([[0.75, 0.25]]).requires_grad_()
    out = codebook.quantize(vectors).vectors
    assert out.tolist() == [[[1.0, 0.0]]]
    direction = vectors_of([[3.0, -7.0]])
    gradient, book_gradient = torch.autograd.grad((out * direction).sum(), [vectors, codebook.books], allow_unused=True)
    assert torch.equal(gradient, direction)
    assert book_gradient is None


def test_loss_and_gradients_by_hand():
    # Code [1, 0] for [0.75, 0.25]: squared error (0.0625 + 0.0625) over two elements is 0.0625.
    codebook = book_of(SQUARE, commitment=0.5)
    vectors = vectors_of([[0.75, 0.25]]).requires_grad_()
    loss = codebook.quantize(vectors).loss
    assert loss.item() == pytest.approx(1.5 * 0.0625)
    loss.backward()
    # d/dE mean((E - v)^2) = (E - v); d/dv beta mean((v - E)^2) = beta (v - E).
    assert codebook.books.grad[0, 0].tolist() == [[0.0, 0.0], [0.25, -0.25], [0.0, 0.0]]
    assert vectors.grad.tolist() == [[[-0.125, 0.125]]]


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("per_position", [False, True])
def test_quantize_equals_loops(levels, per_position):
    torch.manual_seed(levels)
    codebook = Codebook(5, 3, 4, levels=levels, per_position=per_position)
    with torch.no_grad():
        codebook.books.normal_()
    vectors = torch.randn(6, 4, 3)
    codes, sums, loss = naive_quantize(codebook, vectors)
    quantized = codebook.quantize(vectors)
    assert torch.equal(quantized.codes, codes)
    assert torch.equal(codebook.encode(vectors), codes)
    torch.testing.assert_close(quantized.vectors, sums)
    torch.testing.assert_close(codebook.lookup(quantized.codes), sums)
    assert quantized.loss.item() == pytest.approx(loss, rel=1e-5)
    torch.testing.assert_close(quantized.residuals[0], vectors)
    for level in range(1, levels):
        before = codebook.lookup_level(codes[..., level - 1], level - 1)
        torch.testing.assert_close(quantized.residuals[level], quantized.residuals[level - 1] - before)


def test_usage_is_a_moving_average():
    codebook = book_of(SQUARE, tokens=2, decay=0.75)
    codebook.update_usage(torch.tensor([[[0], [2]], [[2], [2]]]))
    assert codebook.usage.tolist() == [[[0.25, 0.0, 0.75]]]
    codebook.update_usage(torch.tensor([[[1], [1]], [[1], [0]]]))
    assert codebook.usage.tolist() == [[[0.4375, 0.75, 0.5625]]]


def test_reset_of_codes_below_the_threshold():
    codebook = book_of([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0], [8.0, 8.0]], dead_threshold=0.1)
    codebook.usage[0, 0] = torch.tensor([0.05, 0.1, 1.0, 0.09])
    batch = vectors_of([[1.0, 0.0]], [[2.0, 0.0]], [[3.0, 0.0]])
    assert codebook.reset_dead(batch.unsqueeze(0)) == 2
    book = codebook.books[0, 0].tolist()
    assert book[1:3] == [[6.0, 6.0], [7.0, 7.0]]
    taken = [tuple(book[0]), tuple(book[3])]
    assert set(taken) <= {(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)}
    assert len(set(taken)) == 2
    mean = (0.05 + 0.1 + 1.0 + 0.09) / 4
    assert codebook.usage[0, 0].tolist() == pytest.approx([mean, 0.1, 1.0, mean])


def test_reset_by_level_and_position():
    codebook = Codebook(2, 2, 2, levels=2, per_position=True)
    codebook.usage.fill_(1.0)
    codebook.usage[0, 1, 0] = codebook.usage[1, 0, 1] = 0.0
    before = codebook.books.detach().clone()
    residuals = torch.arange(8.0).view(2, 1, 2, 2) + 100  # [levels, B, T, D]
    assert codebook.reset_dead(residuals) == 2
    assert codebook.books[0, 1, 0].tolist() == residuals[0, 0, 1].tolist()
    assert codebook.books[1, 0, 1].tolist() == residuals[1, 0, 0].tolist()
    codebook.books.data[0, 1, 0], codebook.books.data[1, 0, 1] = before[0, 1, 0], before[1, 0, 1]
    assert torch.equal(codebook.books, before)


def test_perplexity_and_dead_codes():
    codebook = Codebook(2, 1, 2, per_position=True)
    codebook.usage[0] = torch.tensor([[1.0, 1.0], [5.0, 0.0]])
    assert codebook.perplexity() == pytest.approx(1.5)
    assert codebook.dead_codes() == 1


@pytest.mark.parametrize("per_position", [False, True])
@pytest.mark.parametrize("levels", [1, 2])
def test_fit_reduces_the_error_of_every_level(levels, per_position):
    torch.manual_seed(0)
    vectors = torch.randn(40, 2, 3)
    codebook = Codebook(8, 3, 2, levels=levels, per_position=per_position)
    before = codebook.quantize(vectors).loss.item()
    codebook.fit(vectors)
    after = codebook.quantize(vectors)
    assert after.loss.item() < 0.7 * before
    norms = after.residuals.square().mean((1, 2, 3)).tolist()
    assert norms == sorted(norms, reverse=True)
    assert codebook.usage.sum(-1).flatten().tolist() == pytest.approx(
        [1.0 if per_position else 2.0] * len(norms) * codebook.books.shape[1]
    )
    counts = codebook.count(after.codes)
    torch.testing.assert_close(codebook.usage[0] * len(vectors), counts[0], atol=6, rtol=0)


def test_fit_needs_a_vector_a_code():
    with pytest.raises(ValueError, match="8 clusters need at least as many points, not 6"):
        Codebook(8, 3, 2).fit(torch.randn(3, 2, 3))
