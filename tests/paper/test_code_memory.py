"""Codes in a bank against the same codes in memory, whole and in part, however the bank is cut into blocks."""

import math
from datetime import date, timedelta

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import Selection
from mbc_engine.errors import ModelError
from mbc_engine.paper.memories import BankMemory, CodeMemory
from mbc_engine.paper.reads import read
from tests.paper.conftest import MODES, modes_of

pytestmark = pytest.mark.usefixtures("small_blocks")

NAMES = st.sets(st.integers(0, 11), max_size=12)


def assert_same(one, other, number_of=int, other_number_of=int):
    """The same modulation and the same sources, whose chunks are known by these names."""
    torch.testing.assert_close(one.modulation, other.modulation, rtol=1e-4, atol=1e-5)
    for own, others in zip(one.sources, other.sources, strict=True):
        # Equal shares may come in another order, and rounding may make two shares equal.
        shares = {number_of(found.chunk): found.share for found in own}
        assert shares == pytest.approx({other_number_of(found.chunk): found.share for found in others}, rel=1e-3)
        assert len(own) == len(others) == len(shares)


def named(bank):
    """Names of a bank's chunks: their document's first origin and their place in it."""

    def name(chunk):
        (stored,) = bank.chunks_at([chunk])
        return stored.document.origins[0].source, stored.ordinal

    return name


def subset(small, codebook, codes, lengths, kept):
    """A bank that holds just some of the documents."""
    bank = small.bank(codebook, codes, lengths)
    bank.remove([(f"/{number}", "") for number in range(len(lengths)) if number not in kept])
    return bank


@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    removed=NAMES,
    levels=st.integers(1, 2),
    per_position=st.booleans(),
    keeps_origins=st.booleans(),
)
def test_bank_reads_as_its_codes(small, lengths, removed, levels, per_position, keeps_origins):
    codebook = small.codebook(levels=levels, per_position=per_position)
    reader, question = small.reader(codebook, routed=True), small.question()
    codes = small.codes(sum(lengths), levels)
    with small.bank(codebook, codes, np.array(lengths), keeps_origins=keeps_origins) as bank:
        if keeps_origins:
            bank.remove([(f"/{number}", "") for number in removed])
        elif removed:
            digests = [document.digest for document in bank.documents()]
            bank.remove((), [digests[number] for number in removed if number < len(digests)])
        left = [document.codes for document in bank.documents(whole=True)]
        memory = BankMemory(bank, codebook)
        assert len(memory) == sum(map(len, left))
        at_hand = CodeMemory(np.concatenate([codes[:0], *left]), codebook, np.array(list(map(len, left)), np.int64))
        for mode in modes_of(codebook):
            assert_same(*(read(mode, reader, question, each, top=20) for each in (memory, at_hand)))


@given(
    lengths=st.lists(st.integers(1, 3), min_size=2, max_size=12),
    kept=NAMES,
    levels=st.integers(1, 2),
    exclude=st.booleans(),
)
def test_selection_reads_as_a_smaller_bank(small, lengths, kept, levels, exclude):
    codebook = small.codebook(levels=levels)
    reader, question = small.reader(codebook, routed=True), small.question()
    codes, kept = small.codes(sum(lengths), levels), {number for number in kept if number < len(lengths)}
    if exclude:
        selection = Selection(exclude=tuple(f"/{number}" for number in range(len(lengths)) if number not in kept))
    else:
        selection = Selection(only=tuple(f"/{number}" for number in sorted(kept)) or ("/none",))
    with (
        small.bank(codebook, codes, np.array(lengths)) as whole,
        subset(small, codebook, codes, np.array(lengths), sorted(kept)) as part,
    ):
        selected, just_these = BankMemory(whole, codebook, selection), BankMemory(part, codebook)
        assert len(selected) == len(just_these) == sum(lengths[number] for number in kept)
        for mode in modes_of(codebook):
            readings = [read(mode, reader, question, memory, top=20) for memory in (selected, just_these)]
            assert_same(*readings, named(whole), named(part))


DAYS = [date(2024, 1, 1) + timedelta(30 * number) for number in range(10)]


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        (Selection(since=DAYS[4]), range(4, 10)),
        (Selection(as_of=DAYS[4]), range(5)),
        (Selection(since=DAYS[2], as_of=DAYS[7]), range(2, 8)),
        (Selection(since=DAYS[2], only=("/1", "/3", "/9")), [3, 9]),
        (Selection(as_of=DAYS[7], exclude=("/1", "/3", "/9")), [0, 2, 4, 5, 6, 7]),
        (Selection(since=DAYS[1], only=("/[1-5]",), exclude=("/3",)), [1, 2, 4, 5]),
        (Selection(since=DAYS[9] + timedelta(1)), []),
        (Selection(as_of=DAYS[9], half_life=1e12), range(10)),
    ],
)
def test_dates_and_names_read_as_a_smaller_bank(small, selection, kept):
    codebook, lengths = small.codebook(per_position=True), np.array([1, 2] * 5 + [2])
    reader, question, codes = small.reader(codebook, routed=True), small.question(), small.codes(17)
    dates = [*(day.isoformat() for day in DAYS), None]  # the last bears none
    with (
        small.bank(codebook, codes, lengths, dates=dates) as whole,
        subset(small, codebook, codes, lengths, list(kept)) as part,
    ):
        for mode in MODES:
            readings = [
                read(mode, reader, question, memory, top=20)
                for memory in (BankMemory(whole, codebook, selection), BankMemory(part, codebook))
            ]
            assert_same(*readings, named(whole), named(part))


# The last: half-lives of a day, a year after the last document. What matters is how much older one is than another.
@pytest.mark.parametrize("mode", ["flat", "routed"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_diverged_model(small, mode, value):
    codebook = small.codebook()
    with torch.no_grad():
        codebook.books[0, 0, 2, 1] = value
    with (
        small.bank(codebook, small.codes(9), np.ones(9, np.int64)) as bank,
        pytest.raises(ModelError, match="diverged"),
    ):
        assert read(mode, small.reader(codebook, routed=True), small.question(), BankMemory(bank, codebook)).sources
