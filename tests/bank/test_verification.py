"""What `verify` finds. Each damage is visible only to the check in question: the file itself stays sound."""

import sqlite3
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mbc_engine.bank import BankHeader, text_codec, verify
from mbc_engine.errors import BankError
from mbc_engine.events import BankVerified, Progressed


@pytest.fixture
def path(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank of three blocks, closed, with a text a row."""
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 1)
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item(f"/{number}", number) for number in range(8)])
    return path


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_sound_bank_is_counted(path: Path) -> None:
    assert list(verify(path)) == [
        Progressed("verify blocks", 1, 3),
        Progressed("verify blocks", 2, 3),
        Progressed("verify blocks", 3, 3),
        BankVerified(8, 15, 0),
    ]


@pytest.mark.parametrize(
    ("damage", "where", "what"),
    [
        ("UPDATE bank SET counts = zeroblob(240)", "counts", "checksum does not match"),
        ("UPDATE texts SET data = x'00' WHERE id = 4", "texts 4", "checksum does not match"),
        ("UPDATE texts SET data = 'text' WHERE id = 4", "texts 4", "bytes-like"),
        ("UPDATE texts SET id = 40 WHERE id = 4", "texts 40", "checksum does not match"),
        ("DELETE FROM texts WHERE id = 4", "texts", "1 are missing"),
        ("DELETE FROM texts WHERE id = 4", "texts", "bytes, not"),
        ("INSERT INTO texts SELECT 40, crc, columns, data FROM texts WHERE id = 1", "texts 40", "checksum"),
        ("UPDATE blocks SET texts = x'' WHERE id = 2", "block 2", "checksum of its documents"),
        ("UPDATE blocks SET documents = documents + 1 WHERE id = 2", "block 2", "checksum of its documents"),
        ("UPDATE blocks SET keys = zeroblob(8) WHERE id = 2", "block 2", "checksum of its documents"),
        ("UPDATE codes SET crc = 9 WHERE id = 3", "block 3", "checksum of its codes"),
        ("UPDATE codes SET data = zeroblob(9) WHERE id = 3", "block 3", "checksum of its codes"),
        ("DELETE FROM codes WHERE id = 1", "block 1", ""),
        ("UPDATE blocks SET keys = 'text' WHERE id = 2", "block 2", ""),
        ("UPDATE blocks SET chunks = 'text' WHERE id = 2", "", ""),
        ("INSERT INTO codes VALUES (9, 0, x'')", "codes", "1 blocks of codes belong to no documents"),
    ],
)
def test_damage_is_found_where_it_is(made: Any, path: Path, damage: str, where: str, what: str) -> None:
    change(path, damage)
    found = made.damages(path)
    assert any(event.where.startswith(where) and what in event.what for event in found), found


def with_right_checksums(path: Path, *statements: str) -> None:
    """Recompute the checksums, as deliberate tampering would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.create_function("deflate", 1, zlib.compress)
    for statement in statements:
        connection.execute(statement)
    for row in connection.execute("SELECT * FROM blocks").fetchall():
        numbers = np.array(row[1:4], "<i8").tobytes()
        connection.execute("UPDATE blocks SET crc = ? WHERE id = ?", (zlib.crc32(numbers + b"".join(row[5:])), row[0]))
    for table in ("codes", "words"):
        for block, data in connection.execute(f"SELECT id, data FROM {table}").fetchall():
            connection.execute(f"UPDATE {table} SET crc = ? WHERE id = ?", (zlib.crc32(data), block))
    connection.close()


@pytest.mark.parametrize(
    ("damage", "where", "what"),
    [
        ("UPDATE blocks SET keys = zeroblob(length(keys)) WHERE id = 2", "block 2", "index does not match"),
        ("UPDATE blocks SET lengths = deflate(x'00') WHERE id = 2", "block 2", ""),
        ("UPDATE blocks SET lengths = CAST(lengths || x'00' AS BLOB) WHERE id = 2", "block 2", "too long or cut off"),
        ("UPDATE blocks SET described = deflate(CAST('[]' AS BLOB)) WHERE id = 2", "block 2", ""),
        ("UPDATE blocks SET digests = x'00' WHERE id = 2", "block 2", "do not add up"),
        ("UPDATE codes SET data = CAST(data || x'00' AS BLOB) WHERE id = 2", "block 2", "do not hold"),
        ("UPDATE codes SET data = zeroblob(length(data)) WHERE id = 2", "counts", "not those of the codes"),
        ("DELETE FROM words WHERE id = 2", "block 2", "checksum of its words does not match"),
        (
            "UPDATE words SET data = CAST(data || x'00' AS BLOB) WHERE id = 2",
            "block 2",
            "words are too long or cut off",
        ),
        ("INSERT INTO words VALUES (99, 0, x'')", "words", "belong to no documents"),
        ("DELETE FROM blocks WHERE id = 2", "counts", "not those of the codes"),
        (
            """INSERT INTO blocks SELECT 9, documents, origins, chunks, crc, keys, digests, lengths, described,
            texts FROM blocks WHERE id = 2""",
            "block 9",
            "",
        ),
        ("UPDATE blocks SET texts = deflate(x'0000000000000000') WHERE id = 2", "block 2", "do not add up"),
        (
            """UPDATE blocks SET texts = deflate(CAST(x'0100000000000000' || zeroblob(8 * documents - 8) AS BLOB))
            WHERE id = 2""",
            "texts",
            "belong to several chunks",
        ),
        ("UPDATE blocks SET texts = deflate(zeroblob(8 * documents)) WHERE id = 2", "block 2", "no text has such"),
        (
            """UPDATE blocks SET (keys, digests, lengths, described) =
            (SELECT keys, digests, lengths, described FROM blocks WHERE id = 1) WHERE id = 2""",
            "documents",
            "3 are stored more than once",
        ),
    ],
)
def test_contradictions_with_valid_checksums(made: Any, path: Path, damage: str, where: str, what: str) -> None:
    with_right_checksums(path, damage)
    found = made.damages(path)
    assert any(event.where.startswith(where) and what in event.what for event in found), found


@pytest.mark.parametrize("keeps_origins", [True, False])
def test_every_flipped_stored_byte_is_found(
    made: Any, tmp_path: Path, rounds: Any, monkeypatch: pytest.MonkeyPatch, keeps_origins: bool
) -> None:
    """Blobs and the header row are found in the file by their content; each byte is changed in several ways."""
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 20))
    path = tmp_path / "flipped.mbc"
    with made.bank(path, keeps_origins=keeps_origins, keeps_text=True) as bank:
        bank.put([made.item(f"/folder/{number}", number, date="2024-01-01") for number in range(14)])
        bank.compact()
    connection = sqlite3.connect(path)
    header = connection.execute("SELECT model || amortizer || codebook FROM bank").fetchone()[0].encode()
    blobs = {"header": [header], "created": [bank.header.created.encode()]}
    for name, query in (
        ("counts", "SELECT counts FROM bank"),
        ("codes", "SELECT data FROM codes"),
        ("texts", "SELECT data FROM texts"),
        *((name, f"SELECT {name} FROM blocks") for name in ("keys", "digests", "lengths", "described", "texts")),
    ):
        blobs[name] = [row[0] for row in connection.execute(query)]
    connection.close()
    data, patterns = path.read_bytes(), (0x01, 0x80, 0xFF, 0x10)[: rounds(full=4, reduced=1)]
    tried = missed = 0
    for name, several in blobs.items():
        for blob in filter(None, several):
            start = data.find(blob)
            assert start >= 0, f"{name} is not in one piece"
            for at in range(start, start + len(blob), rounds(full=1, reduced=2)):
                for pattern in patterns:
                    tried, missed = tried + 1, missed + is_unseen(path, data, at, pattern)
    print(f"{tried} flips of stored bytes, {missed} not found")
    assert not missed
    assert tried > 150


def test_flipped_bytes_of_the_file(made: Any, path: Path, rounds: Any) -> None:
    """The others hold nothing: unused space in pages, and numbers that SQLite keeps for itself."""
    data = path.read_bytes()
    tried = range(0, len(data), rounds(full=1, reduced=47))
    unseen = [at for at in tried if is_unseen(path, data, at, 0xFF)]
    odd = [at for at in unseen if not is_meaningless(data, at)]
    print(f"{len(tried)} flips of the whole file, {len(unseen)} unseen, {len(odd)} of these where something is stored")
    assert not odd, [(at, data[at]) for at in odd[:20]]


def is_unseen(path: Path, data: bytes, at: int, pattern: int) -> bool:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ pattern]))
    try:
        *_, last = verify(path)
        assert isinstance(last, BankVerified)
        return not last.damages
    except BankError:
        return False
    finally:
        path.write_bytes(data)


def is_meaningless(data: bytes, at: int) -> bool:
    page = int.from_bytes(data[16:18], "big")
    within = at % page
    if at < 100:  # versions, change counters, sizes it suggests, how pages are given back, what is reserved
        return at in {18, 19, *range(24, 28), *range(40, 68), *range(72, 100)}
    return within > 8 and data[at] == 0
