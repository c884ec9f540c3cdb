"""Intervals and tests by hand, by full enumeration, and by simulation."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.evaluation.statistics import Interval, adjusted, compare_pairs, interval, ratio

answered = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=1, max_size=20)


def by_document(values, documents):
    return [
        [value for value, own in zip(values, documents, strict=True) if own == document]
        for document in dict.fromkeys(documents)
    ]


def all_flips(first, second, documents):
    """The share of all 2^documents exchanges of the methods that leave as large a difference, in exact numbers."""
    differences = [Fraction(one) - Fraction(other) for one, other in zip(first, second, strict=True)]
    sums = [sum(group) for group in by_document(differences, documents)]
    signs = list(itertools.product((1, -1), repeat=len(sums)))
    totals = [abs(sum(sign * own for sign, own in zip(row, sums, strict=True))) for row in signs]
    return Fraction(sum(total >= abs(sum(sums)) for total in totals), len(signs))


def compared(first, second, documents, **draws):
    (found,) = compare_pairs([(first, second)], documents, **draws)
    return found


def test_two_documents_by_hand():
    """A draw has both from one, both from the other, or one of each: 1/4, 1/4, 1/2."""
    assert interval([1, 0, 0], ["long", "long", "short"]) == Interval(1 / 3, 0.0, 0.5)


@given(answered, st.integers(0, 3))
def test_interval_depends_on_seed_not_order(questions, seed):
    def of(rows):
        return interval([value for _, value in rows], [document for document, _ in rows], resamples=50, seed=seed)

    found, values = of(questions), [value for _, value in questions]
    assert of(sorted(questions)) == found == of(questions)
    assert found.value == pytest.approx(np.mean(values))
    assert min(values) <= found.low <= found.high <= max(values)


def test_several_pairs_are_each_what_it_is_alone():
    """One with few differing documents, whose flips are all enumerated, among others whose flips are drawn."""
    rng = np.random.default_rng(4)
    documents, second = rng.integers(0, 30, 90), rng.integers(0, 2, 90)
    few = np.where(documents < 4, 1, second)
    pairs = [(rng.integers(0, 2, 90), second), (few, second), (rng.random(90), second)]
    found = compare_pairs(pairs, documents, resamples=500, seed=3)
    for one, pair in zip(found, pairs, strict=True):
        alone = compared(*pair, documents, resamples=500, seed=3)
        assert one.p == alone.p
        values = (one.difference.value, one.difference.low, one.difference.high)
        assert values == pytest.approx((alone.difference.value, alone.difference.low, alone.difference.high))
    assert compare_pairs([], documents) == []


@given(st.lists(st.tuples(st.integers(0, 6), *[st.sampled_from([0.0, 1 / 3, 0.4, 2 / 3, 1.0])] * 2), min_size=1))
def test_few_documents_are_flipped_in_all_ways(questions):
    documents, first, second = zip(*questions, strict=True)
    found = compared(first, second, documents, resamples=200)
    # Thirds are no exact floats: ties are of sixtieths.
    first, second = ([Fraction(round(value * 15), 15) for value in each] for each in (first, second))
    assert found.p == all_flips(first, second, documents)
    assert compared(second, first, documents, resamples=200).p == found.p


def test_many_documents_are_flipped_at_random():
    """14 differing documents have more flips than are drawn, but the result is close to that of all flips, of which
    every eighth is exactly as large as the observed difference."""
    first, second = [1] * 10 + [0] * 4, [0] * 10 + [1] * 4
    exact = compared(first, second, range(14), resamples=1 << 14).p
    assert exact == 2 * (1001 + 364 + 91 + 14 + 1) / 2**14
    drawn = [compared(first, second, range(14), resamples=5000, seed=seed).p for seed in range(3)]
    assert exact not in drawn
    assert drawn == pytest.approx([exact] * 3, abs=0.025)
    assert compared([1.0] * 50, [0.0] * 50, range(50), resamples=999).p == 1 / 1000  # never 0


def test_a_ratio_by_hand():
    """Draws have both from one article (1 of 2), both from the other (3 of 2) or one of each (4 of 4): 1/4, 1/4, 1/2."""
    assert ratio([1, 0, 3], [1, 1, 2], ["long", "long", "short"]) == Interval(100.0, 50.0, 150.0)
    assert ratio([1, 0], [0, 0], [0, 1]) is None


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([], []),
        ([0.04], [0.04]),
        ([0.01, 0.04, 0.03, 0.5], [0.04, 0.16 / 3, 0.16 / 3, 0.5]),  # 4/1, 4/3, min(4/2, 4/3), 4/4 times as large
    ],
)
def test_p_values_are_adjusted_for_their_number(p_values, expected):
    assert adjusted(p_values) == pytest.approx(expected)
