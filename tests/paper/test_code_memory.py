"""Codes in a bank against the same codes in memory, whole and in part, however the bank is cut into blocks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import Selection
from mbc_engine.errors import ModelError
from mbc_engine.paper.memories import BankMemory, CodeMemory
from mbc_engine.paper.read_modes import read
from tests.paper.conftest import assert_same, modes_of

pytestmark = pytest.mark.usefixtures("small_blocks")

NAMES = st.sets(st.integers(0, 11), max_size=12)


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
