"""The best documents against sorting all of them at once."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mbc_engine.ranking import Ranking

NOTHING = -math.inf
# Documents by the scores of their chunks; no two kinds weigh the same, some weigh nothing, one outweighs all others.
KINDS = ([0.0], [0.0, 0.0], [1.0], [-3.0, 1.0], [NOTHING], [NOTHING, 2.0], [NOTHING] * 2, [-400.0], [-401.0, -401.0])
GREAT = ([300.0], [300.0, 298.0], [305.0])


def log_sum(scores):
    peak = max(scores)
    return peak + math.log(math.fsum(math.exp(score - peak) for score in scores)) if peak > NOTHING else NOTHING


def slow_ranking(documents, top):
    """Best chunk, share and ties of the best documents, in one go over all of them."""
    peak = max(max(scores) for scores in documents)
    if peak == NOTHING:
        return []
    weights = [math.fsum(math.exp(score - peak) for score in scores) for scores in documents]
    # Shares are too small for the far ones to differ, or to exist; logarithms order them.
    logs = [log_sum(scores) for scores in documents]
    found, first = [], 0
    for scores, weight, log in zip(documents, weights, logs, strict=True):
        ties = sum(math.isclose(other, log, abs_tol=1e-9) for other in logs) - 1
        found.append((log, first + scores.index(max(scores)), weight / math.fsum(weights), ties))
        first += len(scores)
    found.sort(key=lambda each: -each[0])
    return [(chunk, share, ties) for log, chunk, share, ties in found[:top] if log > NOTHING]


def in_blocks(documents, cuts, top, *, plain=False):
    """The ranking of documents that come in blocks cut at these documents."""
    ranking = Ranking(top)
    ends = [*sorted({cut for cut in cuts if 0 < cut < len(documents)}), len(documents)]
    for start, end in zip([0, *ends], ends, strict=False):
        block = documents[start:end]
        scores = np.array([score for own in block for score in own], np.float32)
        ranking.add(scores, None if plain else np.array(list(map(len, block)), np.int64))
    return ranking.result()


def is_like(found, expected):
    return [(own.chunk, own.ties) for own in found] == [(chunk, ties) for chunk, _, ties in expected] and [
        own.share for own in found
    ] == pytest.approx([share for _, share, _ in expected], rel=1e-4, abs=1e-30)


@given(
    documents=st.lists(st.sampled_from([*KINDS, *GREAT]), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 29), max_size=6),
    top=st.integers(1, 40),
)
@example([[1.0], [0.0], [1.0], [2.0], [1.0], [1.0]], [3], 2)  # each block leaves out what ties with the last
@example([[0.0]] * 3 + [[1.0]] * 3, [3, 5], 2)  # ties that were left out no longer count
@example([[NOTHING], [NOTHING, NOTHING]], [1], 3)
def test_blocks_rank_like_one_sort(documents, cuts, top):
    assert is_like(in_blocks(documents, cuts, top), slow_ranking(documents, top))


SCORES = st.lists(st.sampled_from([NOTHING, -500.0, -1.0, 0.0, 0.5, 0.7, 200.0]), min_size=1, max_size=40)
CUTS = st.lists(st.integers(1, 39), max_size=6)


@given(scores=SCORES, cuts=CUTS, top=st.integers(1, 12))
def test_chunks_without_lengths_are_documents(scores, cuts, top):
    documents = [[score] for score in scores]
    plain, given_lengths = (in_blocks(documents, cuts, top, plain=plain) for plain in (True, False))
    assert plain == given_lengths
    assert is_like(plain, slow_ranking(documents, top))


@given(scores=SCORES, cuts=CUTS, top=st.integers(1, 12))
def test_rankings_of_parts_join_to_that_of_all(scores, cuts, top):
    whole, parts = Ranking(top), []
    for part in np.split(np.array(scores, np.float32), sorted({cut for cut in cuts if cut < len(scores)})):
        parts.append(Ranking(top))
        for block in np.array_split(part, 2):
            whole.add(block)
            parts[-1].add(block)
    assert Ranking(top).join(parts).result() == whole.result()
