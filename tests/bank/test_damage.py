"""Damaged parts of a bank are never used: reading them is an error, even if nobody has run `verify`."""

import sqlite3
from collections.abc import Callable

import numpy as np
import pytest

from mbc_engine.bank import BankHeader, MemoryBank, Selection, block_table, text_codec
from mbc_engine.bank.block import Row, row_checksum
from mbc_engine.errors import BankError

TABLES = np.ones((1, 3, 2, 5), np.float32)
# What a reader looks at first, and the parts that it must then report as damaged.
READS: dict[str, Callable[[MemoryBank], object]] = {
    "scan": lambda bank: list(bank.scan(TABLES)),
    "blocks": lambda bank: list(bank.blocks()),
    "codes_at": lambda bank: bank.codes_at([4]),
    "chunks_at": lambda bank: bank.chunks_at([4]),
    "texts_at": lambda bank: bank.texts_at([4]),
    "chunks_with": lambda bank: bank.chunks_with([1]),
    "log_weights": lambda bank: list(bank.log_weights(Selection(exclude=("/1",)))),
    "documents": lambda bank: list(bank.documents()),
    "knows": lambda bank: bank.lookup([("/3", "")]),
    "counts": lambda bank: bank.counts(),
}
ALL_OF_ROWS = {
    "scan",
    "blocks",
    "codes_at",
    "chunks_at",
    "texts_at",
    "chunks_with",
    "log_weights",
    "documents",
    "knows",
}
PARTS = {
    **{f"SELECT {column} FROM blocks WHERE id = 2": ALL_OF_ROWS for column in ("digests", "lengths", "described")},
    "SELECT keys FROM blocks WHERE id = 2": ALL_OF_ROWS,
    "SELECT texts FROM blocks WHERE id = 2": ALL_OF_ROWS,
    "SELECT data FROM codes WHERE id = 2": {"scan", "blocks", "codes_at"},
    "SELECT data FROM words WHERE id = 2": {"chunks_with"},
    "SELECT columns FROM texts WHERE id = 5": {"texts_at"},
    "SELECT data FROM texts WHERE id = 5": {"texts_at"},
    "SELECT counts FROM bank": {"counts"},
}


@pytest.fixture
def path(made, tmp_path, monkeypatch):
    """A bank of two blocks: chunk 4 is the third of a document in the first, or the first in the second."""
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 1)  # a text a row
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put(
            [made.item(f"/{number}", number, codes=made.codes(0), texts=made.chunks(6)[:1]) for number in range(4)]
        )
        bank.put([made.item("/5", 5)])
    return path


@pytest.mark.parametrize("part", PARTS)
def test_every_flipped_byte_is_seen_by_whoever_reads_it(path, part, rounds):
    connection = sqlite3.connect(path)
    (blob,) = connection.execute(part).fetchone()
    connection.close()
    data = path.read_bytes()
    start = data.find(blob)
    assert start >= 0
    for at in range(start, start + len(blob), rounds(full=1, reduced=max(1, len(blob) // 8))):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :])
        for name, read in READS.items():
            with MemoryBank.open(path, read_only=True) as bank:
                if name in PARTS[part]:
                    with pytest.raises(BankError, match="is damaged") as caught:
                        read(bank)
                    assert "ingest the documents again" in str(caught.value.hint)
                elif name in READS.keys() - ALL_OF_ROWS:
                    read(bank)


def test_numbers_of_blocks_are_under_the_checksum_too(path):
    for column in ("documents", "origins", "chunks", "crc"):
        changed = path.with_name(f"{column}.mbc")
        changed.write_bytes(path.read_bytes())
        connection = sqlite3.connect(changed, isolation_level=None)
        connection.execute(f"UPDATE blocks SET {column} = {column} + 1 WHERE id = 1")
        connection.close()
        for name in ALL_OF_ROWS:
            with MemoryBank.open(changed, read_only=True) as bank, pytest.raises(BankError, match="is damaged"):
                READS[name](bank)


@pytest.mark.parametrize("first", [1, 4])
def test_a_text_whose_id_has_changed_is_never_taken_for_another(made, tmp_path, first, rounds, monkeypatch):
    """Every bit that makes one id another and some that do not, with ids from 1 and with a gap before the first."""
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 1)
    path, changed = tmp_path / "bank.mbc", tmp_path / "changed.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item(f"/{content}", content) for content in (2, 5, 8)])
        if first > 1:
            bank.remove([("/2", "")])
        chunks = bank.texts_at(range(bank.totals().chunks))
    assert len(set(chunks)) == len(chunks) == 10 - first
    for number in range(first, 10):
        for bit in (*range(4), *range(4, 63, rounds(full=1, reduced=30))):
            changed.write_bytes(path.read_bytes())
            connection = sqlite3.connect(changed, isolation_level=None)
            connection.execute("DELETE FROM texts WHERE id = ?", (number ^ 1 << bit,))  # which would be hidden by it
            connection.execute("UPDATE texts SET id = ? WHERE id = ?", (number ^ 1 << bit, number))
            connection.close()
            with MemoryBank.open(changed, read_only=True) as bank:
                for at, chunk in enumerate(chunks):
                    if first + at in (number, number ^ 1 << bit):
                        with pytest.raises(BankError, match="is damaged"):
                            bank.texts_at([at])
                    else:
                        assert bank.texts_at([at]) == [chunk]
            assert any(found.where == f"texts {number ^ 1 << bit}" for found in made.damages(changed))


def test_texts_that_have_changed_places_are_damage(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE texts SET data = (SELECT data FROM texts WHERE id = 5) WHERE id = 4")
    connection.execute("UPDATE texts SET columns = (SELECT columns FROM texts WHERE id = 5) WHERE id = 4")
    connection.execute("UPDATE texts SET crc = (SELECT crc FROM texts WHERE id = 5) WHERE id = 4")
    connection.close()
    with MemoryBank.open(path) as bank:
        assert bank.texts_at([2, 4])
        with pytest.raises(BankError, match="is damaged"):
            bank.texts_at([3])


def test_a_missing_text_is_damage(path):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM texts WHERE id = 5")
    connection.close()
    with MemoryBank.open(path) as bank:
        assert bank.texts_at([3])
        with pytest.raises(BankError, match="is damaged"):
            bank.texts_at([3, 4])
        with pytest.raises(BankError, match="is damaged"):
            list(bank.documents(whole=True))


def test_checksums_are_computed_once_for_a_state_of_the_bank(made, path, monkeypatch):
    codes, rows = [], []
    of_row = Row.checksum
    monkeypatch.setattr(block_table, "row_checksum", lambda *row: codes.append(1) or row_checksum(*row))
    monkeypatch.setattr(Row, "checksum", lambda *row: rows.append(1) or of_row(*row))
    with MemoryBank.open(path, read_only=True) as bank, MemoryBank.open(path) as writer:
        for _ in range(3):
            list(bank.scan(TABLES))
            bank.codes_at([4])
            bank.chunks_at([4])
            bank.texts_at([4])
            assert (len(codes), len(rows)) == (2, 2)
        writer.put([made.item("/6", 6)])
        codes.clear()
        rows.clear()
        for _ in range(3):
            list(bank.scan(TABLES))
            assert (len(codes), len(rows)) == (2, 2)  # anything may have changed
