"""The aggregation network against loops, and that the order of a bank does not matter."""

import math

import pytest
import torch
from torch.nn import functional

from mbc_engine.paper.aggregator import Aggregator


def small(*, pass_through=False):
    torch.manual_seed(0)
    made = Aggregator(6, blocks=3, heads=2, head_dim=5, hidden=7, pass_through=pass_through).requires_grad_(False)
    for weights in made.parameters():
        weights.normal_()
    return made


def naive_attention(layer, query, rows):
    """One query [D] over rows [D] by loops: what is added to it, and the mean weight of each row."""
    normed = layer.norm(query)
    size, reads, shares = layer.head_dim, [], [0.0] * len(rows)
    for head in range(layer.heads):
        part = slice(head * size, (head + 1) * size)
        q = layer.query.weight[part] @ normed
        keys = [layer.key.weight[part] @ layer.bank_norm(row) for row in rows]
        values = [layer.value.weight[part] @ layer.bank_norm(row) for row in rows]
        exponents = [math.exp(float(q @ key) / math.sqrt(size)) for key in keys]
        weights = [exponent / sum(exponents) for exponent in exponents]
        reads.append(sum(weight * value for weight, value in zip(weights, values, strict=True)))
        shares = [share + weight / layer.heads for share, weight in zip(shares, weights, strict=True)]
    return layer.output.weight @ torch.cat(reads) + layer.output.bias, shares


def naive_aggregate(aggregator, question, bank):
    """One question [T, D] over one bank [N, D]: its modulation and each row's attention."""
    queries, attention = list(question), torch.zeros(len(bank))
    for block in aggregator.blocks:
        for index, query in enumerate(queries):
            added, shares = naive_attention(block.attention, query, list(bank))
            attention += torch.tensor(shares) / len(queries) / len(aggregator.blocks)
            x = query + added
            norm, up, _, down = block.feed_forward
            queries[index] = x + down(functional.gelu(up(norm(x))))
    return torch.stack(queries), attention


@pytest.mark.parametrize("pass_through", [False, True])
def test_aggregator_equals_loops(pass_through):
    aggregator = small(pass_through=pass_through)
    question, bank = torch.randn(3, 4, 6), torch.randn(3, 5, 6)
    alone = torch.zeros_like(question) if pass_through else question
    assert torch.equal(aggregator.empty_modulation(question), alone)
    read = aggregator(question, bank)
    for index in range(3):
        with_question, attention = naive_aggregate(aggregator, question[index], bank[index])
        torch.testing.assert_close(read.modulation[index], with_question - question[index] + alone[index])
        torch.testing.assert_close(read.attention[index], attention)


@pytest.mark.parametrize("head_dim", [64, 48, 80])
def test_initial_pass_through(head_dim):
    torch.manual_seed(0)
    aggregator = Aggregator(256, blocks=2, heads=4, head_dim=head_dim, hidden=7, pass_through=True)
    rows, other = torch.randn(5, 256), torch.randn(256)
    modulation = aggregator((0.8 * rows[3] + 0.6 * other)[None, None], rows[None]).modulation[0, 0]
    # Narrow heads hold less than a row, wide ones more.
    width = min(256, 4 * head_dim)
    likeness = functional.cosine_similarity(modulation[:width], rows[:, :width])
    assert likeness[3] > 0.95
    assert likeness[[0, 1, 2, 4]].abs().max() < 0.3
    assert not modulation[width:].any()


def test_row_of_weight_n():
    aggregator = small()
    question, rows = torch.randn(2, 4, 6), torch.randn(2, 3, 6)
    counts = torch.tensor([4, 1, 3])
    weighted = aggregator(question, rows, counts.log().expand(2, -1))
    repeated = aggregator(question, rows.repeat_interleave(counts, 1))
    torch.testing.assert_close(weighted.modulation, repeated.modulation)
    grouped = torch.stack([part.sum(-1) for part in repeated.attention.split(counts.tolist(), dim=1)], dim=1)
    torch.testing.assert_close(weighted.attention, grouped)
