"""What `verify` finds. Each damage is visible only to the check in question: the file itself stays sound."""

import pytest

from mbc_engine.bank import BankHeader, text_codec
from mbc_engine.bank.verification import verify
from mbc_engine.errors import BankError
from mbc_engine.events import BankVerified, DamageFound, Progressed


@pytest.fixture
def path(made, tmp_path, monkeypatch):
    """A bank of three blocks, closed, with a text a row."""
    monkeypatch.setattr(text_codec, "FULL_ROW_BYTES", 1)
    monkeypatch.setattr(BankHeader, "block_chunks", property(lambda header: 4))
    path = tmp_path / "bank.mbc"
    with made.bank(path, keeps_text=True) as bank:
        bank.put([made.item(f"/{number}", number) for number in range(8)])
    return path


def test_a_sound_bank_is_counted(path):
    steps = [Progressed("verify blocks", block, 3) for block in (1, 2, 3)]
    assert list(verify(path)) == [*steps, BankVerified(8, 15, 0)]


def test_a_file_that_cannot_be_opened_is_damage_too(path):
    with path.open("r+b") as file:
        file.truncate(6000)
    damage, verified = verify(path)
    assert isinstance(damage, DamageFound)
    assert (damage.where, verified) == ("file", BankVerified(0, 0, 1))


DAMAGES = {
    "UPDATE bank SET counts = zeroblob(240)": ("counts", "checksum does not match"),
    "UPDATE texts SET data = x'00' WHERE id = 4": ("texts 4", "checksum does not match"),
    "UPDATE texts SET data = 'text' WHERE id = 4": ("texts 4", "bytes-like"),
    "UPDATE texts SET id = 40 WHERE id = 4": ("texts 40", "checksum does not match"),
    "DELETE FROM texts WHERE id = 4": ("texts", "1 are missing"),
    "DELETE FROM texts WHERE id = 5": ("texts", "bytes, not"),
    "INSERT INTO texts SELECT 40, crc, columns, data FROM texts WHERE id = 1": ("texts 40", "checksum"),
    "UPDATE blocks SET texts = x'' WHERE id = 2": ("block 2", "checksum of its documents"),
    "UPDATE blocks SET documents = documents + 1 WHERE id = 2": ("block 2", "checksum of its documents"),
    "UPDATE blocks SET keys = zeroblob(8) WHERE id = 2": ("block 2", "checksum of its documents"),
    "UPDATE codes SET crc = 9 WHERE id = 3": ("block 3", "checksum of its codes"),
    "UPDATE codes SET data = zeroblob(9) WHERE id = 3": ("block 3", "do not hold the codes"),
    "DELETE FROM codes WHERE id = 1": ("block 1", ""),
    "UPDATE blocks SET keys = 'text' WHERE id = 2": ("block 2", ""),
    "UPDATE blocks SET chunks = 'text' WHERE id = 2": ("", ""),
    "UPDATE bank SET documents = 9": ("counts", "checksum does not match"),
    "UPDATE codes SET (crc, data) = (SELECT crc, data FROM codes WHERE id = 1) WHERE id = 2": ("block 2", "its codes"),
    "UPDATE words SET (crc, data) = (SELECT crc, data FROM words WHERE id = 1) WHERE id = 2": ("block 2", "its words"),
    "DELETE FROM blocks WHERE id = 3": ("blocks", "there should be 3 blocks with 8 documents, 8 origins, 15 chunks"),
    "INSERT INTO codes VALUES (9, 0, x'')": ("codes", "1 blocks of codes belong to no documents"),
}
COPY = "INSERT INTO blocks SELECT 9, documents, origins, chunks, crc, keys, digests, lengths, described, texts, outlines FROM blocks"
TWICE = "deflate(CAST(x'0100000000000000' || zeroblob(8 * documents - 8) AS BLOB))"
COLUMNS = "keys, digests, lengths, described"
FIRST_COLUMNS = f"({COLUMNS}) = (SELECT {COLUMNS} FROM blocks WHERE id = 1)"
CONTRADICTIONS = {
    "UPDATE blocks SET keys = zeroblob(length(keys)) WHERE id = 2": ("block 2", "index does not match"),
    "UPDATE blocks SET lengths = deflate(x'00') WHERE id = 2": ("block 2", ""),
    "UPDATE blocks SET lengths = CAST(lengths || x'00' AS BLOB) WHERE id = 2": ("block 2", "too long or cut off"),
    "UPDATE blocks SET described = deflate(CAST('[]' AS BLOB)) WHERE id = 2": ("block 2", ""),
    "UPDATE blocks SET digests = x'00' WHERE id = 2": ("block 2", "do not add up"),
    "UPDATE codes SET data = CAST(data || x'00' AS BLOB) WHERE id = 2": ("block 2", "do not hold"),
    "UPDATE codes SET data = zeroblob(length(data)) WHERE id = 2": ("counts", "not those of the codes"),
    "DELETE FROM words WHERE id = 2": ("block 2", "checksum of its words does not match"),
    "UPDATE words SET data = CAST(data || x'00' AS BLOB) WHERE id = 2": ("block 2", "words are too long or cut off"),
    "INSERT INTO words VALUES (99, 0, x'')": ("words", "belong to no documents"),
    "DELETE FROM blocks WHERE id = 2": ("counts", "not those of the codes"),
    f"{COPY} WHERE id = 2": ("block 9", ""),
    "UPDATE blocks SET texts = deflate(zeroblob(8)) WHERE id = 2": ("block 2", "do not add up"),
    f"UPDATE blocks SET texts = {TWICE} WHERE id = 2": ("texts", "belong to several chunks"),
    "UPDATE blocks SET texts = deflate(zeroblob(8 * documents)) WHERE id = 2": ("block 2", "no text has such"),
    f"UPDATE blocks SET {FIRST_COLUMNS} WHERE id = 2": ("documents", "3 are stored more than once"),
}


@pytest.mark.parametrize("damage", [*DAMAGES, *CONTRADICTIONS])
def test_damage_is_found_where_it_is(made, path, damage):
    """Contradictions get the right checksums, as deliberate tampering would."""
    if damage in CONTRADICTIONS:
        made.tampered(path, damage)
    else:
        made.execute(path, damage)
    where, what = (DAMAGES | CONTRADICTIONS)[damage]
    found = made.damages(path)
    assert any(event.where.startswith(where) and what in event.what for event in found), found


def test_flipped_bytes_of_the_file(path, rounds):
    """The others hold nothing: unused space in pages, and numbers that SQLite keeps for itself."""
    data = path.read_bytes()
    odd = [at for at in range(0, len(data), rounds(full=1, reduced=401)) if is_unseen(path, data, at)]
    odd = [at for at in odd if not is_meaningless(data, at)]
    assert not odd, [(at, data[at]) for at in odd[:20]]


def is_unseen(path, data, at):
    path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    try:
        *_, last = verify(path)
    except BankError:
        return False
    return not last.damages


def is_meaningless(data, at):
    if at < 100:  # versions, change counters, sizes it suggests, how pages are given back, what is reserved
        return at in {18, 19, *range(24, 28), *range(40, 68), *range(72, 100)}
    return at % int.from_bytes(data[16:18], "big") > 8 and data[at] == 0
