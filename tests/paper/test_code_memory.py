"""Codes in a bank against the same codes in memory, whole and in part, however the bank is cut into blocks."""

import math
import tracemalloc
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import MemoryBank, Selection
from mbc_engine.errors import ModelError
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import BankMemory, CodeMemory, ReadableMemory
from mbc_engine.paper.reads import Reading, read
from tests.paper.conftest import MODES, modes_of

pytestmark = pytest.mark.usefixtures("small_blocks")

NAMES = st.sets(st.integers(0, 11), max_size=12)


def assert_same(one: Reading, other: Reading, number_of: Any = int, other_number_of: Any = int) -> None:
    """The same modulation and the same sources, whose chunks are known by these names."""
    torch.testing.assert_close(one.modulation, other.modulation, rtol=1e-4, atol=1e-5)
    for own, others in zip(one.sources, other.sources, strict=True):
        # Equal shares may come in another order, and rounding may make two shares equal.
        shares = {number_of(found.chunk): found.share for found in own}
        assert shares == pytest.approx({other_number_of(found.chunk): found.share for found in others}, rel=1e-3)
        assert len(own) == len(others) == len(shares)


def named(bank: MemoryBank) -> Any:
    """Names of a bank's chunks: their document's first origin and their place in it."""

    def name(chunk: int) -> tuple[str, int]:
        (stored,) = bank.chunks_at([chunk])
        return stored.document.origins[0].source, stored.ordinal

    return name


def subset(small: Any, codebook: Codebook, codes: Any, lengths: Any, kept: Sequence[int]) -> MemoryBank:
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
def test_bank_reads_as_its_codes(
    small: Any, lengths: list[int], removed: set[int], levels: int, per_position: bool, keeps_origins: bool
) -> None:
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


def test_ties_across_blocks(small: Any) -> None:
    codebook = small.codebook()
    codes = np.tile(small.codes(2), (6, 1, 1))  # six documents of the same two chunks, two and a half a block
    reader = small.reader(codebook, routed=True)
    with small.bank(codebook, codes, np.full(6, 2)) as bank:
        for mode in ("flat", "routed"):
            found = read(mode, reader, small.question(), BankMemory(bank, codebook), top=4).sources
            for own in found:
                assert [each.ties for each in own] == [5] * 4
                assert [each.share for each in own] == pytest.approx([1 / 6] * 4, rel=1e-5)


@given(
    lengths=st.lists(st.integers(1, 3), min_size=2, max_size=12),
    kept=NAMES,
    levels=st.integers(1, 2),
    exclude=st.booleans(),
)
def test_selection_reads_as_a_smaller_bank(
    small: Any, lengths: list[int], kept: set[int], levels: int, exclude: bool
) -> None:
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
def test_dates_and_names_read_as_a_smaller_bank(small: Any, selection: Selection, kept: Any) -> None:
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


def weighted(small: Any, half_life: float, as_of: date) -> tuple[Any, MemoryBank, ReadableMemory, torch.Tensor]:
    """Ten documents 30 days apart, four of them with two chunks: the bank, half-lived, and log weights by hand."""
    codebook, lengths = small.codebook(), np.array([1, 2, 1, 2, 1, 2, 1, 2, 1, 1])
    codes = small.codes(14)
    bank = small.bank(codebook, codes, lengths, dates=[day.isoformat() for day in DAYS])
    memory = BankMemory(bank, codebook, Selection(as_of=as_of, half_life=half_life))
    logs = [math.log(0.5) * (as_of - DAYS[number]).days / half_life for number in small.documents(lengths)]
    return codebook, bank, memory, torch.tensor(logs) - max(logs)


# The last: half-lives of a day, a year after the last document. What matters is how much older one is than another.
AGES = [(60.0, DAYS[9]), (10.0, DAYS[9]), (1.0, DAYS[9] + timedelta(365)), (0.01, DAYS[9] + timedelta(365))]


@pytest.mark.parametrize(("half_life", "as_of"), AGES)
def test_half_life_flat_equals_weights(small: Any, half_life: float, as_of: date) -> None:
    codebook, bank, memory, logs = weighted(small, half_life, as_of)
    vectors, question = small.dense(codebook, np.concatenate([codes for codes, _ in bank.blocks()])), small.question()
    reader = small.reader(codebook)
    rows = vectors.flatten(0, 1).expand(2, -1, -1)
    expected = reader.aggregator(question, rows, logs.repeat_interleave(3).expand(2, -1))
    reading = read("flat", reader, question, memory, top=20)
    torch.testing.assert_close(reading.modulation, expected.modulation, rtol=1e-4, atol=1e-5)
    documents = torch.tensor(small.documents(np.array([1, 2, 1, 2, 1, 2, 1, 2, 1, 1])))
    shares = torch.zeros(2, 10).index_add_(1, documents, expected.attention.unflatten(1, (14, 3)).sum(-1))
    for own, found in zip(shares.tolist(), reading.sources, strict=True):
        named = {int(documents[each.chunk]): each.share for each in found}
        assert [named.get(number, 0.0) for number in range(10)] == pytest.approx(own, rel=1e-3, abs=1e-30)
    bank.close()


@pytest.mark.parametrize(("half_life", "as_of"), AGES)
def test_half_life_routed_equals_weights(small: Any, half_life: float, as_of: date) -> None:
    codebook, bank, memory, logs = weighted(small, half_life, as_of)
    vectors, question = small.dense(codebook, np.concatenate([codes for codes, _ in bank.blocks()])), small.question()
    reader = small.reader(codebook, routed=True, documents=3)
    assert reader.router is not None
    scores = reader.router.scores(question, vectors).double() + logs.double()
    documents = torch.tensor(small.documents(np.array([1, 2, 1, 2, 1, 2, 1, 2, 1, 1])))
    shares = torch.zeros(2, 10).double().index_add_(1, documents, scores.softmax(-1))
    reading = read("routed", reader, question, memory, top=4)
    for index, found in enumerate(reading.sources):
        own = shares[index].tolist()
        assert [int(documents[each.chunk]) for each in found] == sorted(range(10), key=lambda n: -own[n])[: len(found)]
        assert [each.share for each in found] == pytest.approx(
            sorted(own, reverse=True)[: len(found)], rel=1e-3, abs=1e-30
        )
        best = scores[index].argsort(descending=True)[:3]
        rows, weights = vectors[best].flatten(0, 1)[None], logs[best].repeat_interleave(3)[None]
        expected = reader.aggregator(question[index : index + 1], rows, weights).modulation[0]
        torch.testing.assert_close(reading.modulation[index], expected, rtol=1e-4, atol=1e-5)
    bank.close()


def test_weights_take_four_bytes(small: Any) -> None:
    codebook, lengths = small.codebook(), np.full(50, 4000)
    with small.bank(codebook, small.codes(200_000), lengths) as bank:
        tracemalloc.start()
        memory = BankMemory(bank, codebook, Selection(exclude=("/2",)))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(memory) == 196_000
    assert peak < 6 * 200_000


def test_empty_bank(small: Any) -> None:
    codebook = small.codebook()
    with small.bank(codebook, small.codes(1), np.ones(1, np.int64)) as bank:
        bank.remove([("/0", "")])
        memory = BankMemory(bank, codebook, Selection(exclude=("/2",)))
        assert len(memory) == 0
        assert read("flat", small.reader(codebook), small.question(), memory).sources == [[], []]


def test_weights_cost_one_scan(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    codebook, looks = small.codebook(), []
    with small.bank(codebook, small.codes(9), np.ones(9, np.int64)) as bank:
        blocks = bank.blocks
        monkeypatch.setattr(bank, "blocks", lambda: looks.append(1) or blocks())
        memory = BankMemory(bank, codebook, Selection(exclude=("/2",)))
        assert len(read("flat", small.reader(codebook), small.question(), memory).sources[0]) == 5
    assert looks == [1]


@pytest.mark.parametrize("mode", ["flat", "routed"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_diverged_model(small: Any, mode: str, value: float) -> None:
    codebook = small.codebook()
    with torch.no_grad():
        codebook.books[0, 0, 2, 1] = value
    with (
        small.bank(codebook, small.codes(9), np.ones(9, np.int64)) as bank,
        pytest.raises(ModelError, match="diverged"),
    ):
        assert read(mode, small.reader(codebook, routed=True), small.question(), BankMemory(bank, codebook)).sources
