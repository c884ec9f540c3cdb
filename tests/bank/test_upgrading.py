"""Banks of formats 1 and 2, written by hand as those versions did."""

import json
import re
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import (
    BankHeader,
    BankTotals,
    MemoryBank,
    ModelSignature,
    Origin,
    StoredDocument,
    pack,
    replace_content,
    upgrade,
    upgrading,
)
from mbc_engine.errors import BankError, ModelMismatch

# (source, content, date, whether it has chunks)
DOCUMENTS = [("/a", 1, None, True), ("/ä", 2, "2024", True), ("/empty", 4, None, False), ("/copy", 1, None, True)]


def write_version_1(made: Any, path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        """
        PRAGMA journal_mode = WAL;
        CREATE TABLE bank (
            model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
            tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
            dim INTEGER NOT NULL, created TEXT NOT NULL,
            counts BLOB NOT NULL  -- little-endian int64 [levels, positions, num_codes]
        );
        CREATE TABLE documents (
            id INTEGER PRIMARY KEY, source TEXT NOT NULL UNIQUE, digest TEXT NOT NULL, size INTEGER NOT NULL, date TEXT,
            chunks INTEGER NOT NULL, codes BLOB NOT NULL
        );
        PRAGMA application_id = 0x6D626300;
        PRAGMA user_version = 1;
        """
    )
    counts = made.counts([content for _, content, _, has_chunks in DOCUMENTS if has_chunks])
    connection.execute(
        "INSERT INTO bank VALUES ('mini', ?, ?, 3, 2, 5, 1, 4, '2024-01-01T00:00:00+00:00', ?)",
        (made.signature.amortizer, made.signature.codebook, counts.tobytes()),
    )
    for source, content, date, has_chunks in DOCUMENTS:
        codes = made.codes(content) if has_chunks else made.codes(content)[:0]
        connection.execute(
            "INSERT INTO documents (source, digest, size, date, chunks, codes) VALUES (?, ?, ?, ?, ?, ?)",
            (source, made.digest(content), 100 + content, date, len(codes), pack(codes, made.shape)),
        )
    connection.close()


@pytest.fixture
def old(made: Any, tmp_path: Path) -> Path:
    path = tmp_path / "old #1?.mbc"
    write_version_1(made, path)
    return path


def test_an_old_bank_says_how_to_bring_it_up_to_date(old: Path) -> None:
    for read_only in (False, True):
        with pytest.raises(BankError, match=r"older mbc .bank format 1.") as caught:
            MemoryBank.open(old, read_only=read_only)
        assert caught.value.hint == f"Bring it up to date with `mbc bank upgrade --bank {old}`."


def test_an_upgrade_keeps_documents_with_chunks(made: Any, old: Path) -> None:
    assert upgrade(old, made.signature)
    assert made.damages(old) == []
    assert [file.name for file in old.parent.iterdir()] == [old.name]
    with MemoryBank.open(old) as bank:
        assert bank.header.signature.name == "mini"
        assert list(bank.documents()) == [
            StoredDocument(made.digest(1)[:32], 2, 101, (Origin("/a", "", None), Origin("/copy", "", None))),
            StoredDocument(made.digest(2)[:32], 3, 102, (Origin("/ä", "", "2024"),)),
        ]
        assert bank.totals() == BankTotals(2, 3, 5)
        assert np.array_equal(bank.counts(), made.counts([1, 2]))
        bank.add([made.item("/more", 3)])
    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert not upgrade(old, made.signature)


def test_an_upgraded_bank_equals_one_made_now(made: Any, old: Path) -> None:
    upgrade(old, made.signature)
    with MemoryBank.open(old) as bank, made.bank() as anew:
        anew.add(
            [made.item(source, content, date=date) for source, content, date, has_chunks in DOCUMENTS if has_chunks]
        )
        assert made.lines(bank) == made.lines(anew)


def test_another_model_cannot_upgrade(made: Any, old: Path) -> None:
    before = old.read_bytes()
    with pytest.raises(ModelMismatch, match=rf"^{re.escape(str(old))} was written by model mini .aaaaaaaa-bbbbbbbb."):
        upgrade(old, ModelSignature("mini", made.signature.amortizer, "cc" * 8))
    assert old.read_bytes() == before
    assert [file.name for file in old.parent.iterdir()] == [old.name]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET codes = x'ff'",
        "UPDATE documents SET digest = 'x'",
        "UPDATE documents SET digest = 'xyz', date = 5",
        "UPDATE documents SET source = x'00' WHERE id = 1",
        "UPDATE documents SET chunks = 'x'",
        "UPDATE bank SET tokens = 0",
        "DELETE FROM bank",
        "DROP TABLE documents",
    ],
)
def test_a_damaged_old_bank_stays_as_it_is(made: Any, old: Path, damage: str) -> None:
    connection = sqlite3.connect(old, isolation_level=None)
    connection.execute(damage)
    connection.close()
    before = old.read_bytes()
    with pytest.raises(BankError, match="is damaged"):
        upgrade(old, made.signature)
    assert old.read_bytes() == before
    assert [file.name for file in old.parent.iterdir()] == [old.name]


@pytest.mark.parametrize("step", ["_header", "_documents_of_version_1", "replace_content"])
def test_an_interrupted_upgrade_leaves_the_old_bank(
    made: Any, old: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = old.read_bytes()

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(upgrading, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        upgrade(old, made.signature)
    assert old.read_bytes() == before
    monkeypatch.undo()
    assert upgrade(old, made.signature)
    assert made.damages(old) == []
    assert [file.name for file in old.parent.iterdir()] == [old.name]


def test_of_two_upgrades_at_once_none_empties_the_bank(made: Any, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins when the first is about to put its result in place, and is stopped before it has any."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def with_another_begun(path: Path, by: Path, **check: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(upgrading, "_documents_of_version_1", stop)
            with pytest.raises(KeyboardInterrupt):
                upgrade(path, made.signature)
        replace_content(path, by, **check)

    monkeypatch.setattr(upgrading, "replace_content", with_another_begun)
    assert upgrade(old, made.signature)
    with MemoryBank.open(old) as bank:
        assert bank.totals().documents == 2


def test_a_bank_that_was_upgraded_meanwhile_is_not_replaced(
    made: Any, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_another(path: Path, by: Path, **check: Any) -> None:
        monkeypatch.undo()
        upgrade(path, made.signature)
        with MemoryBank.open(path) as bank:
            bank.add([made.item("/new", 5)])
        replace_content(path, by, **check)

    monkeypatch.setattr(upgrading, "replace_content", after_another)
    with pytest.raises(BankError, match=r"Another process has already upgraded .*#1\?.mbc\.$"):
        upgrade(old, made.signature)
    with MemoryBank.open(old) as bank:
        assert bank.totals().documents == 3


def write_version_2(made: Any, path: Path, *, keeps_origins: bool) -> bytes:
    """A bank of two blocks, made of one of now by taking away what has come since; returns its export."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BankHeader, "block_chunks", property(lambda header: 6))
        with made.bank(path, keeps_origins=keeps_origins) as bank:
            bank.add([made.item(f"/{number}", number, "7", "2024") for number in range(6)])
            bank.add([made.item("/copy", 1)])
            lines, header = made.lines(bank), bank.header
    values = ["mini", "aa" * 8, "bb" * 8, 3, 2, 5, 1, 4, int(keeps_origins), header.created]
    crc = zlib.crc32(json.dumps(values, separators=(",", ":")).encode())
    books = np.arange(120, dtype="<f2").tobytes()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        """
        ALTER TABLE bank RENAME TO new;
        CREATE TABLE bank (
        model TEXT NOT NULL, amortizer TEXT NOT NULL, codebook TEXT NOT NULL,
        tokens INTEGER NOT NULL, levels INTEGER NOT NULL, num_codes INTEGER NOT NULL, per_position INTEGER NOT NULL,
        dim INTEGER NOT NULL, keeps_origins INTEGER NOT NULL, created TEXT NOT NULL, crc INTEGER NOT NULL,
        counts BLOB NOT NULL);
        DROP TABLE new;
        DROP TABLE texts;
        CREATE TABLE books (width INTEGER NOT NULL, crc INTEGER NOT NULL, data BLOB NOT NULL);
        ALTER TABLE blocks DROP COLUMN texts;
        PRAGMA user_version = 2;
        """
    )
    counts = made.counts(range(6)).astype("<i8").tobytes()
    connection.execute("INSERT INTO bank VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, crc, counts))
    connection.execute("INSERT INTO books VALUES (2, ?, ?)", (zlib.crc32(books), books))
    connection.close()
    return lines


@pytest.mark.parametrize("keeps_origins", [True, False])
def test_version_2_keeps_all_it_has_and_no_text(made: Any, tmp_path: Path, keeps_origins: bool) -> None:
    path = tmp_path / "old.mbc"
    lines = write_version_2(made, path, keeps_origins=keeps_origins)
    with pytest.raises(BankError, match=r"older mbc .bank format 2."):
        MemoryBank.open(path)
    assert upgrade(path, made.signature)
    assert made.damages(path) == []
    with MemoryBank.open(path) as bank:
        assert made.lines(bank) == lines
        assert not bank.keeps_text
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert not upgrade(path, made.signature)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE blocks SET crc = crc + 1 WHERE id = 2",
        "UPDATE codes SET crc = crc + 1 WHERE id = 2",
        "UPDATE codes SET data = zeroblob(length(data)) WHERE id = 2",
        "DELETE FROM codes WHERE id = 2",
        "UPDATE bank SET counts = zeroblob(240)",
        "UPDATE bank SET keeps_origins = 0",
        "UPDATE bank SET dim = 5",
        "DROP TABLE blocks",
    ],
)
def test_a_damaged_bank_of_version_2_stays_as_it_is(made: Any, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "old.mbc"
    write_version_2(made, path, keeps_origins=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(damage)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(BankError, match="is damaged"):
        upgrade(path, made.signature)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
