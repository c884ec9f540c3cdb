"""What changes to a bank do, and what it keeps of documents."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import (
    BankHeader,
    BankTotals,
    CodeShape,
    MemoryBank,
    decode_chunk,
    text_codec,
)
from mbc_engine.errors import BankError
from mbc_engine.text import Chunk


def test_new_bank_is_empty_and_says_what_it_is(made: Any, bank: MemoryBank, path: Path) -> None:
    assert bank.path == path
    assert bank.name == str(path)
    assert bank.header == BankHeader(made.signature, made.shape, 4, True, False, bank.header.created)
    assert bank.header.signature.name == "mini"
    assert bank.totals() == BankTotals(0, 0, 0)
    assert bank.counts().shape == (2, 3, 5)
    assert not bank.counts().any()
    assert [codes for codes, _ in bank.blocks()] == list(bank.documents()) == bank.chunks_at([]) == []
    assert bank.codes_at([]).shape == (0, 3, 2)


def test_large_document_fits_one_block(made: Any, bank: MemoryBank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
    bank.put(
        [made.item(f"/{number}", number, codes=made.uniform(*[number] * size)) for number, size in enumerate((3, 9, 2))]
    )
    assert [len(codes) for codes in (codes for codes, _ in bank.blocks())] == [12, 2]
    assert np.array_equal(made.all_codes(bank), made.uniform(*[0] * 3, *[1] * 9, *[2] * 2))


def test_compact_fills_blocks(made: Any, bank: MemoryBank, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 10))
    bank.put([made.item(f"/{number}", number) for number in range(300)])
    lines = len([codes for codes, _ in bank.blocks()])
    bank.remove([(f"/{number}", "") for number in range(300) if number % 10])
    bank.checkpoint()
    size, before = path.stat().st_size, made.lines(bank)
    bank.compact()
    assert len([codes for codes, _ in bank.blocks()]) == 6 < lines
    assert made.lines(bank) == before
    assert path.stat().st_size <= size
    codes = made.all_codes(bank)
    bank.compact()
    assert np.array_equal(made.all_codes(bank), codes)


def test_removed_document_leaves_no_byte(made: Any, bank: MemoryBank, path: Path) -> None:
    kept = made.item("/kept", 2)
    bank.put([kept])
    bank.checkpoint()
    bank.put([made.item("/secret/plan.txt", 1)])
    bank.remove([("/secret/plan.txt", "")])
    bank.checkpoint()
    removed = path.read_bytes()
    never = path.with_name("never.mbc")
    with made.bank(never) as other:
        other.put([kept])
        other.put([kept])
        other.checkpoint()
        pages = never.read_bytes()
    assert made.digest(1)[:32] not in removed.hex()
    assert len(removed) == len(pages)


def test_a_refused_batch_changes_nothing(made: Any, bank: MemoryBank) -> None:
    record = made.record
    for items in (
        [made.item("/b", 2, codes=made.uniform(9))],
        [made.item("/b", 2, codes=made.uniform(1)[:0])],
        [made.item("/b", 2, codes=made.uniform(1)[0])],
        [made.item("/b", 2, codes=made.uniform(1).astype(float))],
        [made.item("/\ud800", 2, codes=made.uniform(1))],
        [made.item("/b", 2, "\ud800", codes=made.uniform(1))],
        [made.item("/b", 2, date="\ud800", codes=made.uniform(1))],
    ):
        with pytest.raises(
            ValueError, match=r"must be|at least one chunk|surrogates|must match exactly|same number of dim"
        ):
            bank.put([made.item("/a", 1, codes=made.uniform(1)), *items])
        assert bank.totals() == BankTotals(0, 0, 0)
        assert not bank.counts().any()
        assert not bank.knows(record("/a", 1))


def test_unreadably_large_block_is_not_written(
    made: Any, bank: MemoryBank, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mbc_engine.bank.block._MOST_BYTES", 500)
    with pytest.raises(BankError, match="too many sources"):
        bank.put([made.item(f"/{number}", 1) for number in range(100)])
    assert bank.totals() == BankTotals(0, 0, 0)
    bank.put([made.item("/a", 1)])
    assert made.damages(path) == []


def test_changes_are_atomic(made: Any, bank: MemoryBank, path: Path) -> None:
    bank.put([made.item("/a", 1)])
    with MemoryBank.open(path) as other:
        with bank.changing():
            bank.put([made.item("/b", 2)])
            bank.remove([("/a", "")])
            assert bank.knows(made.record("/b", 2))
            assert other.totals() == BankTotals(1, 1, 2)
            assert other.knows(made.record("/a", 1))
        assert other.knows(made.record("/b", 2))
        assert np.array_equal(other.counts(), made.counts([2]))
    with pytest.raises(KeyError, match="stop"), bank.changing():
        bank.put([made.item("/c", 3)])
        bank.remove([("/b", "")])
        raise KeyError("stop")
    assert bank.knows(made.record("/b", 2))
    assert not bank.knows(made.record("/c", 3))
    assert np.array_equal(bank.counts(), made.counts([2]))
    bank.put([made.item("/c", 3)])
    assert np.array_equal(bank.counts(), made.counts([2, 3]))


def test_open_or_create_does_what_is_needed(made: Any, path: Path) -> None:
    for known in (False, True):
        with MemoryBank.open(
            path, create=BankHeader(made.signature, made.shape, made.dim, keeps_origins=False)
        ) as bank:
            assert not bank.header.keeps_origins
            assert bank.knows(made.record("", 1)) is known
            bank.put([made.item("/a", 1)])


def test_a_small_bank_is_small(made: Any, path: Path) -> None:
    shape = CodeShape(tokens=24, levels=1, num_codes=512, per_position=True)
    codes = np.random.default_rng(0).integers(0, 512, (10, 24, 1))
    for keeps_text in (False, True):
        with MemoryBank.create(path, made.signature, shape, 384, keeps_text=keeps_text) as bank:
            bank.put(
                [
                    made.item(f"/{number}", number, codes=codes[[number]], texts=[Chunk("Words.", 0)])
                    for number in range(10)
                ]
            )
        assert path.stat().st_size <= 40_000
        path.unlink()


def test_every_chunk_needs_a_text(made: Any, path: Path) -> None:
    codes, chunks = made.codes(1), made.chunks(1)
    with made.bank(path, keeps_text=True) as bank:
        for texts in (None, chunks[:1], chunks * 2):
            with pytest.raises(ValueError, match="a text for each chunk"):
                bank.put([made.item("/a", 1, codes=codes, texts=texts)])
        with pytest.raises(ValueError, match="cannot start at -1"):
            bank.put([made.item("/a", 1, codes=codes, texts=[Chunk("a", -1)] * 2)])
        assert bank.totals() == BankTotals(0, 0, 0)
        bank.put([made.item("/a", 1)])
        assert bank.texts_at([1, 0]) == chunks[::-1]
    assert made.damages(path) == []


def numbers_of(path: Path) -> set[tuple[int, bytes, bytes]]:
    connection = sqlite3.connect(path)
    rows = set(connection.execute("SELECT id, columns, data FROM texts"))
    connection.close()
    return rows


def test_compacting_moves_no_texts(made: Any, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 1)  # a text a row
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 5))
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item(f"/{number}", number) for number in range(12)])
        bank.remove([(f"/{number}", "") for number in range(0, 12, 2)])
        before, size = numbers_of(path), bank.sizes().texts
        bank.compact()
        assert numbers_of(path) == before
        assert size == sum(len(columns) + len(data) for _, columns, data in before)
        bank.put([made.item("/more", 20)])
        assert min(row[0] for row in numbers_of(path) - before) == max(row[0] for row in before) + 1
        for content in (1, 3, 5, 7, 9, 11, 20):
            (document,) = bank.lookup((), [made.digest(content)], with_texts=True)
            assert list(map(decode_chunk, document.texts or [])) == made.chunks(content)
        bank.remove((), [made.digest(content) for content in range(21)])
        assert numbers_of(path) == set()
    assert made.damages(path) == []
