"""Several banks read as one, against one bank that holds the same, as often as they count."""

from contextlib import ExitStack, contextmanager
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import Banks
from mbc_engine.bank.exchange import merge
from mbc_engine.paper.memories import BankMemory, CodeMemory
from mbc_engine.paper.read_modes import read
from tests.paper.conftest import assert_same, modes_of

pytestmark = pytest.mark.usefixtures("small_blocks")

# Each bank by the chunks of its documents; any may be empty.
CONTENTS = st.lists(st.lists(st.integers(1, 3), max_size=5), min_size=1, max_size=4)


@contextmanager
def banks_of(small, codebook, contents, **making):
    """Banks of these documents, numbered through all of them, and the codes of each bank."""
    with ExitStack() as stack:
        banks, codes = [], []
        for number, lengths in enumerate(contents):
            codes.append(small.codes(sum(lengths), codebook.levels, seed=number))
            first = sum(map(len, contents[:number]))
            bank = small.bank(codebook, codes[-1], np.array(lengths, np.int64), first=first, **making)
            banks.append(stack.enter_context(bank))
        yield banks, codes


def read_all(small, codebook, memory, mode, *, documents=2):
    reader = small.reader(codebook, routed=True, documents=documents)
    return read(mode, reader, small.question(), memory, top=1000)


@given(CONTENTS, st.integers(1, 2), st.booleans(), st.sampled_from([None, 1.0, 0.3]))
@settings(max_examples=8)
def test_banks_read_as_their_merger(small, contents, levels, keeps_origins, weight):
    codebook = small.codebook(levels=levels)
    weights = None if weight is None else [weight] * len(contents)
    with (
        banks_of(small, codebook, contents, keeps_origins=keeps_origins) as (banks, codes),
        small.bank(codebook, codes[0][:0], np.array([], np.int64), keeps_origins=keeps_origins) as merged,
    ):
        for bank in banks:
            list(merge(merged, bank))
        together = Banks(banks, weights)
        assert not together.is_weighted
        assert together.totals() == merged.totals()
        assert np.array_equal(together.counts(), merged.counts())
        assert together.counts().dtype == np.int64
        one, whole = BankMemory(together, codebook), BankMemory(merged, codebook)
        numbers = small.documents(np.array([length for lengths in contents for length in lengths], np.int64))
        assert len(one) == len(whole) == len(numbers)
        for mode in modes_of(codebook):
            assert_same(
                *(read_all(small, codebook, memory, mode) for memory in (one, whole)),
                numbers.__getitem__,
                numbers.__getitem__,
            )


@given(CONTENTS, st.lists(st.integers(1, 4), min_size=4, max_size=4), st.integers(1, 2))
@settings(max_examples=6)
def test_weight_n_reads_as_n_copies(small, contents, weights, levels):
    codebook, weights = small.codebook(levels=levels), weights[: len(contents)]
    lengths = [np.array(several, np.int64) for several in contents]
    firsts = accumulate(map(len, contents), initial=0)
    numbers = [np.array(small.documents(own), np.int64) + first for own, first in zip(lengths, firsts, strict=False)]
    with banks_of(small, codebook, contents) as (banks, codes):
        together = BankMemory(Banks(banks, weights), codebook)

        def as_often(parts):
            return np.concatenate([part for part, weight in zip(parts, weights, strict=True) for _ in range(weight)])

        copies = CodeMemory(as_often(codes), codebook, as_often(lengths))
        each = np.repeat(np.array(weights, np.float32), [len(own) for own in codes])
        weighed = CodeMemory(np.concatenate(codes), codebook, np.concatenate(lengths), each)
        # Copies are cut into other groups, and take other places among the best: where all are read, it is the same.
        all_at_once = ("flat", "routed:1000", "hierarchical:1000")[levels - 1 :]
        for other, modes, others in (
            (copies, all_at_once, as_often(numbers)),
            (weighed, modes_of(codebook), np.concatenate(numbers)),
        ):
            for mode in modes:
                readings = (read_all(small, codebook, memory, mode) for memory in (together, other))
                assert_same(*readings, np.concatenate(numbers).__getitem__, others.__getitem__)
