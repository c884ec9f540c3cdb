"""The index of keys against a dict of sets, and blocks whose columns contradict each other."""

import json
import zlib
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, Origin, Outline
from mbc_engine.bank.block import Block, KeyIndex, read_block

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


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("sizes", value) for value in ([1, 2], ["1"], [True])),
        *(("origins", value) for value in ([0], [2], "x")),
        *(("sources", value) for value in ([None], ["\ud800"], [])),
        *(("parts", [1]), ("dates", [5]), ("dates", [])),
    ],
)
def test_inconsistent_columns_are_refused(made, column, value):
    row = Block([bytes(16)], [2], [1], [(Origin("/a", "", None),)], [0], [Outline()], made.codes(1)).row(1)
    columns = json.loads(zlib.decompress(row.described))
    assert column in columns
    changed = row._replace(described=zlib.compress(json.dumps({**columns, column: value}).encode()))
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_block(changed, BankHeader(made.signature, made.shape, 4, True, False, 0, "2025-01-01T00:00:00+00:00"))
