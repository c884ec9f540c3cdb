"""Finding chunks by number, against a list of all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.records import read_across


@given(sizes=st.lists(st.integers(0, 4), max_size=5), data=st.data())
def test_read_across_matches_a_list(sizes: list[int], data: st.DataObject) -> None:
    every = [(holder, place) for holder, size in enumerate(sizes) for place in range(size)]
    wanted = data.draw(st.lists(st.sampled_from(range(len(every))))) if every else []
    found = read_across(
        wanted, np.array(sizes, np.int64), lambda holder, within: [(holder, place) for place in within.tolist()]
    )
    assert found == [every[chunk] for chunk in wanted]


@pytest.mark.parametrize("chunk", [-1, 5])
def test_missing_chunk_is_refused(chunk: int) -> None:
    with pytest.raises(IndexError, match=r"in \[0, 5\), not in"):
        read_across([0, chunk], np.array([2, 0, 3]), lambda _, within: within)
