"""Opening and creating banks, whatever is at the path."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from mbc_engine.bank import BankHeader, MemoryBank, deleting_if_unused
from mbc_engine.bank.exchange import remove_with_proof
from mbc_engine.bank.verification import verify
from mbc_engine.errors import BankError


@pytest.fixture
def bank_file(made, path):
    """A bank of two documents, closed."""
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
    return path


@pytest.fixture
def read_only_folder(bank_file, tmp_path):
    """The bank's folder, where nobody may write, not even root."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    bind = ["mount", "--bind", str(bank_file.parent), str(mounted)]
    if os.geteuid() != 0 or not shutil.which("mount") or subprocess.run(bind, capture_output=True).returncode:
        pytest.skip("only root may mount a folder read-only")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(mounted)], check=True)
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def refusal(path, words, *, read_only=False):
    with pytest.raises(BankError, match=words) as caught:
        MemoryBank.open(path, read_only=read_only).close()
    assert caught.value.hint
    return caught.value


def test_missing_bank_says_how_to_make_one(made, tmp_path):
    path = tmp_path / "none.mbc"
    for read_only in (False, True):
        hint = refusal(path, "No bank at", read_only=read_only).hint
        assert hint == f"Make one with `mbc ingest FOLDER --bank {path}`."
    assert not path.exists()
    path.touch()
    refusal(path, "No bank at")
    made.bank(path).close()
    MemoryBank.open(path).close()


def test_folder_and_other_files_are_refused(made, tmp_path):
    refusal(tmp_path, "is a folder")
    with pytest.raises(BankError, match="is a folder"):
        made.bank(tmp_path)
    text = tmp_path / "notes.txt"
    text.write_text("not a bank")
    refusal(text, "is not a bank")
    refusal(text / "below", "cannot be read")
    with pytest.raises(BankError, match=r"cannot be (made|read)"):
        made.bank(text / "below" / "bank.mbc")
    with pytest.raises(BankError, match="already a file"):
        made.bank(text)
    assert text.read_text() == "not a bank"


def test_other_database_is_refused_untouched(made, tmp_path):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.executescript("PRAGMA journal_mode = WAL; CREATE TABLE documents (id); INSERT INTO documents VALUES (1)")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    refusal(path, "is not a bank")
    with pytest.raises(BankError, match="is not a bank"):
        MemoryBank.open(path, create=BankHeader(made.signature, made.shape, made.dim))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    other.close()


DAMAGES = [
    "PRAGMA user_version = 0",
    "PRAGMA user_version = -1",
    "CREATE TRIGGER bank AFTER INSERT ON blocks BEGIN SELECT 1; END",
    "CREATE VIEW more AS SELECT 1",
    "CREATE TABLE more (id)",
    "CREATE INDEX more ON blocks (chunks)",
    "DROP TABLE codes",
    "DROP TABLE codes; CREATE VIEW codes AS SELECT 1 AS id, 0 AS crc, x'00' AS data",
    "ALTER TABLE blocks ADD COLUMN more DEFAULT 1",
    "DROP TABLE codes; CREATE TABLE codes (id INTEGER PRIMARY KEY, crc INTEGER, data BLOB NOT NULL)",
    # Triggers and tables have separate namespaces, so a dict by name would lose one of the two.
    """PRAGMA writable_schema = ON; CREATE TRIGGER codes AFTER INSERT ON bank BEGIN SELECT 1; END;
    UPDATE sqlite_master SET rowid = rowid + 100 WHERE name IN ('blocks', 'codes') AND type = 'table'""",
    *(f"UPDATE bank SET {change}" for change in ("tokens = 0", "levels = 'x'", "dim = 5", "keeps_origins = 0")),
    *(f"UPDATE bank SET {change}" for change in ("model = x'ff'", "created = ''", "crc = crc + 1")),
    "DELETE FROM bank",
]


@pytest.mark.parametrize("script", DAMAGES)
def test_foreign_schema_or_header_is_refused(made, bank_file, script):
    made.execute(bank_file, script)
    for read_only in (False, True):
        refusal(bank_file, "is damaged", read_only=read_only)


def test_newer_format_is_refused(made, bank_file):
    made.execute(bank_file, "PRAGMA user_version = 8")
    refusal(bank_file, "newer mbc .bank format 8; this one reads 7.")


def test_concurrent_open_or_create(made, path):
    start = threading.Barrier(8)

    def ingest(number):
        start.wait()
        with MemoryBank.open(path, create=BankHeader(made.signature, made.shape, made.dim)) as bank:
            bank.put([made.item(f"/{number}", number)])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ingest, range(8)))
    with MemoryBank.open(path) as bank:
        assert bank.totals().documents == 8


def test_read_only_folder(made, bank_file, read_only_folder):
    path = read_only_folder / bank_file.name
    with MemoryBank.open(path, read_only=True) as reader:
        assert reader.totals().documents == 2
        with pytest.raises(BankError, match="cannot be written"):
            reader.put([made.item("/c", 1)])
    assert made.damages(path) == []
    elsewhere = bank_file.parent.parent / "elsewhere.mbc"
    bank_file.with_name("link.mbc").symlink_to(elsewhere)
    with made.bank(elsewhere) as bank:  # its log is beside the file that a link leads to
        bank.put([made.item("/c", 3)])
        with MemoryBank.open(read_only_folder / "link.mbc", read_only=True) as reader:
            bank.put([made.item("/d", 4)])
            assert reader.totals().documents == 2
    with pytest.raises(BankError, match=r"cannot be (opened|written)") as caught, MemoryBank.open(path) as writer:
        writer.put([made.item("/c", 1)])
    assert "permissions" in str(caught.value.hint)
    with pytest.raises(BankError, match="cannot be opened"):
        made.bank(read_only_folder / "new.mbc")
    with pytest.raises(BankError, match="cannot be created"):
        made.bank(read_only_folder / "sub" / "new.mbc")


def test_reading_drops_no_locks(made, bank_file):
    """On POSIX, closing a file drops all locks of the process on it: another process would then delete the log."""
    log = bank_file.with_name(bank_file.name + "-wal")
    with MemoryBank.open(bank_file) as bank:
        bank.put([made.item("/c", 3)])
        with MemoryBank.open(bank_file, read_only=True) as reader:
            reader.counts()
        remove_with_proof(bank, [("/c", "")], [])
        bank.put([made.item("/d", 4)])
        list(verify(bank_file))
        program = "import pathlib, sys; from mbc_engine.bank import MemoryBank as B; B.open(pathlib.Path(sys.argv[1]))"
        subprocess.run([sys.executable, "-c", program, str(bank_file)], check=True)
        assert log.stat().st_size
        bank.put([made.item("/e", 5)])
    with MemoryBank.open(bank_file) as bank:
        assert bank.totals().documents == 4


def test_only_an_unused_bank_is_deleted(made, tmp_path):
    path, link = tmp_path / "new.mbc", tmp_path / "link.mbc"
    link.symlink_to(path)
    with deleting_if_unused(path):
        pass  # there is none
    with deleting_if_unused(path):
        path.write_text("another program's")
    assert path.read_text() == "another program's"
    path.unlink()
    with deleting_if_unused(path):
        left_open = made.bank(link)
    assert path.exists()
    with left_open, deleting_if_unused(link):  # it is not new
        pass
    assert path.exists()
    path.write_bytes(b"")
    with deleting_if_unused(link), made.bank(link):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["link.mbc"]
    with deleting_if_unused(path, may_be_empty=True), made.bank(path):
        pass
    assert path.exists()
    path.unlink()
    with pytest.raises(KeyError), deleting_if_unused(path, may_be_empty=True), made.bank(path):
        raise KeyError
    assert not path.exists()
    with deleting_if_unused(path), made.bank(path) as bank:
        bank.put([made.item("/a", 1)])
    assert path.exists()
