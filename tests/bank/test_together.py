"""Several banks as one: numbering, sums, weights and refusals."""

import math
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbc_engine.bank import BankHeader, Banks, BankTotals, MemoryBank, Selection
from mbc_engine.errors import ConfigError, ModelMismatch


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
        yield


@pytest.fixture
def files(made, tmp_path):
    """Two banks of two documents each, of 2 + 3 and 1 + 2 chunks."""
    paths = [tmp_path / "team.mbc", tmp_path / "mine.mbc"]
    for path, contents in zip(paths, [(1, 2), (3, 4)], strict=True):
        with made.bank(path) as bank:
            bank.put([made.item(f"/{content}", content) for content in contents])
    return paths


def test_iteration_sees_one_state(made, files):
    def going_on(banks):
        tables = np.zeros((1, 3, 2, 5), np.float32)
        yield (len(codes) for codes, _ in banks.blocks())
        yield (sums.shape[1] for sums, _ in banks.scan(tables))
        yield (len(logs) for logs in banks.log_weights(Selection(exclude=("/0",))))

    with Banks.open(files) as banks, MemoryBank.open(files[1]) as writer:
        for number, sizes in enumerate(going_on(banks)):
            before, first = banks.totals().chunks, next(sizes)
            writer.put([made.item(f"/new{number}", 10 + number)])
            assert first + sum(sizes) == before


@given(
    st.lists(st.tuples(st.sets(st.integers(0, 9), max_size=6), st.booleans()), min_size=1, max_size=3),
    st.lists(st.integers(0, 999), max_size=20),
)
def test_chunks_are_numbered_across_banks(made, kinds, drawn):
    with ExitStack() as stack:
        banks = [stack.enter_context(made.bank(keeps_text=keeps_text)) for _, keeps_text in kinds]
        texts: list[Any] = []
        for bank, (contents, keeps_text) in zip(banks, kinds, strict=True):
            bank.put([made.item(f"/{content}", content) for content in sorted(contents)])
            for chunks in map(made.chunks, sorted(contents)):
                texts += chunks if keeps_text else [None] * len(chunks)
        together = Banks(banks)
        codes = np.concatenate([made.codes(0)[:0], *(codes for bank in banks for codes, _ in bank.blocks())])
        chunks = [chunk for bank in banks for chunk in bank.chunks_at(range(bank.totals().chunks))]
        assert together.totals().chunks == len(codes) == len(chunks) == len(texts)
        assert np.array_equal(np.concatenate([codes[:0], *(part for part, _ in together.blocks())]), codes)
        wanted = np.array([number % len(codes) for number in drawn] if len(codes) else [], np.int64)
        assert np.array_equal(together.codes_at(wanted), codes[wanted])
        assert together.chunks_at(wanted) == [chunks[number] for number in wanted]
        assert together.texts_at(wanted) == [texts[number] for number in wanted]
        for beyond in (-1, len(codes)):
            for look in (together.codes_at, together.chunks_at, together.texts_at):
                with pytest.raises(IndexError, match="chunk indices must be in"):
                    look([beyond])


def test_sums_are_weighted(made, files):
    with Banks.open(files) as banks:
        assert banks.totals() == BankTotals(4, 4, 8)
        assert np.array_equal(banks.counts(), made.counts([1, 2, 3, 4]))
        one, other = (bank.sizes() for bank in banks.banks)
        sizes = banks.sizes()
    assert (sizes.codes, sizes.file) == (one.codes + other.codes, one.file + other.file)
    assert sizes.codebook == one.codebook  # that of the model
    with made.bank() as empty, MemoryBank.open(files[0]) as one, MemoryBank.open(files[1]) as other:
        for banks in (Banks([one, other], [1, 4]), Banks([one, empty, other], [1e-300, 1e300, 4e-300])):
            assert banks.is_weighted
            assert banks.counts() == pytest.approx(made.counts([1, 2]) / 4 + made.counts([3, 4]))
            logs = np.concatenate(list(banks.log_weights(Selection())))
            assert np.exp(logs).tolist() == pytest.approx([0.25] * 5 + [1] * 3)
            logs = np.concatenate(list(banks.log_weights(Selection(exclude=("/1", "/3")))))
            assert np.exp(logs).tolist() == pytest.approx([0, 0, 0.25, 0.25, 0.25, 0, 1, 1])
        with made.bank() as nothing:
            assert not Banks([empty, nothing], [1e-300, 1e300]).counts().any()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        *((weights, "does not match the number of banks .2.") for weights in ([1.0], [1.0, 2.0, 3.0], [])),
        ([1.0, 0.0], "0 is not a valid weight"),
        ([-1.0, 1.0], "-1 is not a valid weight"),
        ([1.0, math.nan], "nan is not a valid weight"),
        ([math.inf, 1.0], "inf is not a valid weight"),
    ],
)
def test_invalid_weights_are_refused(files, weights, message):
    with pytest.raises(ConfigError, match=message) as refused:
        Banks.open(files, weights)
    assert refused.value.hint


def test_one_file_cannot_be_read_twice(files, tmp_path):
    link = tmp_path / "link.mbc"
    link.symlink_to(files[0])
    with pytest.raises(ConfigError, match=r"team.mbc is named twice"):
        Banks.open([files[0], files[1], files[0]])
    with pytest.raises(ConfigError, match=r"team.mbc and .*link.mbc are the same file"):
        Banks.open([files[0], link])


@pytest.mark.parametrize("changed", ["amortizer", "codebook"])
def test_banks_of_two_models_are_refused(made, changed):
    signature = replace(made.signature, **{changed: "cc" * 8})
    with made.bank() as one, MemoryBank.create(None, signature, made.shape, made.dim) as other:
        message = f"model mini .aaaaaaaa-bbbbbbbb., .* by model mini .{signature.fingerprint}."
        with pytest.raises(ModelMismatch, match=message) as refused:
            Banks([one, other])
        assert "mbc bank reencode" in str(refused.value.hint)
