"""The index of keys against a dict of sets."""

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank.block import KeyIndex

KEYS = st.one_of(st.integers(0, 9), st.sampled_from([2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]))
BLOCKS = st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1]))
HOLDINGS = st.lists(st.tuples(BLOCKS, st.lists(KEYS, max_size=5)), max_size=8)


@given(at_first=HOLDINGS, later=st.lists(st.one_of(HOLDINGS, st.booleans()), max_size=5), wanted=st.lists(KEYS))
def test_index_matches_a_dict(at_first, later, wanted):
    index = KeyIndex([(block, np.array(keys, np.uint32)) for block, keys in at_first])
    reference: defaultdict[int, set[int]] = defaultdict(set)
    for step in (at_first, *later):
        if isinstance(step, bool):
            index.blocks_of(np.arange(200 if step else 2, dtype=np.uint32))
            continue
        for block, keys in step:
            if step is not at_first:
                index.add(block, np.array(keys, np.uint32))
            for key in keys:
                reference[key].add(block)
    expected = {key: reference[key] for key in set(wanted) if reference[key]}
    assert index.blocks_of(np.array(wanted, np.uint32)) == expected
