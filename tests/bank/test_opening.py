"""Opening and creating banks, whatever is at the path."""

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_engine.bank import BankHeader, MemoryBank, database, delete_if_unused, remove_with_proof, verify
from mbc_engine.errors import BankError


@pytest.fixture
def bank_file(made: Any, path: Path) -> Path:
    """A bank of two documents, closed."""
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1), made.item("/b", 2)])
    return path


@pytest.fixture
def read_only_folder(bank_file: Path, tmp_path: Path) -> Iterator[Path]:
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


def refusal(path: Path, words: str, *, read_only: bool = False) -> BankError:
    with pytest.raises(BankError, match=words) as caught:
        MemoryBank.open(path, read_only=read_only).close()
    assert caught.value.hint
    return caught.value


def raw(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_missing_bank_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "none.mbc"
    for read_only in (False, True):
        hint = refusal(path, "No bank at", read_only=read_only).hint
        assert hint == f"Make one with `mbc ingest FOLDER --bank {path}`."
    assert not path.exists()


def test_empty_file_is_no_bank_yet(made: Any, tmp_path: Path) -> None:
    path = tmp_path / "empty.mbc"
    path.touch()
    refusal(path, "No bank at")
    made.bank(path).close()
    MemoryBank.open(path).close()


def test_folder_and_other_files_are_refused(made: Any, tmp_path: Path) -> None:
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


def test_unusable_folders_are_refused(tmp_path: Path) -> None:
    """As a user to whom permissions apply."""
    program = """
        import os, sys
        from pathlib import Path
        from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature
        from mbc_engine.errors import BankError
        os.setgid(65534), os.setuid(65534)
        arguments = ModelSignature("", "", ""), CodeShape(1, 1, 2, False), 1
        for folder in map(Path, sys.argv[1:]):
            for call in (
                lambda: MemoryBank.create(folder / "sub" / "new.mbc", *arguments),
                lambda: MemoryBank.create(folder / "new.mbc", *arguments),
                lambda: MemoryBank.open(folder / "new.mbc"),
            ):
                try:
                    call()
                except BankError as error:
                    print(error, error.hint)
                else:
                    sys.exit(f"{folder} let something be made")
    """
    if os.geteuid() != 0:
        pytest.skip("only root may become somebody else")
    closed, shown = tmp_path / "closed", tmp_path / "shown"
    for folder, mode in ((closed, 0o700), (shown, 0o755)):
        folder.mkdir(mode=mode)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(closed), str(shown)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert all("cannot be" in line or "No bank" in line for line in lines), lines


def test_other_database_is_refused_untouched(made: Any, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.executescript("PRAGMA journal_mode = WAL; CREATE TABLE documents (id); INSERT INTO documents VALUES (1)")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    refusal(path, "is not a bank")
    with pytest.raises(BankError, match="is not a bank"):
        MemoryBank.open(path, create=BankHeader(made.signature, made.shape, made.dim))
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    other.close()


def test_newer_format_is_refused(bank_file: Path) -> None:
    raw(bank_file, "PRAGMA user_version = 6")
    refusal(bank_file, "newer mbc .bank format 6; this one reads 5.")


@pytest.mark.parametrize("version", [0, -1])
def test_impossible_versions_are_damage(bank_file: Path, version: int) -> None:
    raw(bank_file, f"PRAGMA user_version = {version}")
    refusal(bank_file, "is damaged")


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER harmless AFTER INSERT ON blocks BEGIN SELECT 1; END"],
        ["CREATE TRIGGER bank AFTER INSERT ON blocks BEGIN SELECT 1; END"],
        ["CREATE VIEW more AS SELECT 1"],
        ["CREATE TABLE more (id)"],
        ["CREATE INDEX more ON blocks (chunks)"],
        ["DROP TABLE codes"],
        ["DROP TABLE codes", "CREATE VIEW codes AS SELECT 1 AS id, 0 AS crc, x'00' AS data"],
        ["ALTER TABLE blocks ADD COLUMN more DEFAULT 1"],
        ["DROP TABLE codes", "CREATE TABLE codes (id INTEGER PRIMARY KEY, crc INTEGER, data BLOB NOT NULL)"],
    ],
)
def test_foreign_schema_is_refused(bank_file: Path, statements: list[str]) -> None:
    raw(bank_file, *statements)
    for read_only in (False, True):
        refusal(bank_file, "is damaged", read_only=read_only)


def test_trigger_named_like_a_table_is_refused(bank_file: Path) -> None:
    """Triggers and tables have separate namespaces, so a dict by name would lose one of the two."""
    raw(
        bank_file,
        "PRAGMA writable_schema = ON",
        "CREATE TRIGGER codes AFTER INSERT ON bank BEGIN SELECT 1; END",
        "UPDATE sqlite_master SET rowid = rowid + 100 WHERE name IN ('blocks', 'codes') AND type = 'table'",
    )
    connection = sqlite3.connect(bank_file)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master ORDER BY rowid")]
    connection.close()
    assert names == ["bank", "words", "texts", "codes", "blocks", "codes"]
    refusal(bank_file, "is damaged")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bank SET tokens = 0",
        "UPDATE bank SET levels = 'x'",
        "UPDATE bank SET dim = 5",
        "UPDATE bank SET keeps_origins = 0",
        "UPDATE bank SET model = x'ff'",
        "UPDATE bank SET created = ''",
        "UPDATE bank SET crc = crc + 1",
        "DELETE FROM bank",
    ],
)
def test_invalid_header_is_refused(bank_file: Path, damage: str) -> None:
    raw(bank_file, damage)
    refusal(bank_file, "is damaged")


def test_opening_finishes_interrupted_creation(made: Any, path: Path) -> None:
    """The last step of `create` turns WAL on."""
    made.bank(path).close()
    raw(path, "PRAGMA journal_mode = DELETE")
    with MemoryBank.open(path, read_only=True) as bank:
        assert bank.totals().documents == 0
    with MemoryBank.open(path) as bank:
        bank.put([made.item("/a", 1)])
        assert path.with_name(path.name + "-wal").exists()


def test_concurrent_open_or_create(made: Any, tmp_path: Path) -> None:
    results: list[object] = []
    path = tmp_path / "bank.mbc"
    start = threading.Barrier(8)

    def ingest(number: int) -> None:
        start.wait()
        try:
            with MemoryBank.open(path, create=BankHeader(made.signature, made.shape, made.dim)) as bank:
                bank.put([made.item(f"/{number}", number)])
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=ingest, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == []
    with MemoryBank.open(path) as bank:
        assert bank.totals().documents == 8


def test_bank_opened_to_read_cannot_be_written(made: Any, bank_file: Path) -> None:
    with MemoryBank.open(bank_file, read_only=True) as reader, pytest.raises(BankError, match="cannot be written"):
        reader.put([made.item("/c", 1)])


def test_read_only_folder(made: Any, bank_file: Path, read_only_folder: Path) -> None:
    path = read_only_folder / bank_file.name
    with MemoryBank.open(path, read_only=True) as reader:
        assert reader.totals().documents == 2
        with pytest.raises(BankError, match="cannot be written"):
            reader.put([made.item("/c", 1)])
    assert made.damages(path) == []
    with pytest.raises(BankError, match=r"cannot be (opened|written)") as caught, MemoryBank.open(path) as writer:
        writer.put([made.item("/c", 1)])
    assert "permissions" in str(caught.value.hint)
    with pytest.raises(BankError, match="cannot be opened"):
        made.bank(read_only_folder / "new.mbc")
    with pytest.raises(BankError, match="cannot be created"):
        made.bank(read_only_folder / "sub" / "new.mbc")


def test_reading_drops_no_locks(made: Any, bank_file: Path) -> None:
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


def test_second_writer_is_asked_to_wait(made: Any, bank_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    writer = sqlite3.connect(bank_file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with MemoryBank.open(bank_file) as second:
        with pytest.raises(BankError, match="written by another process") as caught:
            second.put([made.item("/c", 3)])
        assert caught.value.hint
        assert second.totals().documents == 2
        writer.rollback()
        second.put([made.item("/c", 3)])
        assert second.totals().documents == 3
    writer.close()


def test_linked_bank_includes_its_log(made: Any, bank_file: Path, read_only_folder: Path) -> None:
    """SQLite keeps the log beside the file that a link leads to, whatever folder the link is in."""
    bank_file.with_name("link.mbc").symlink_to(bank_file)
    link = read_only_folder / "link.mbc"
    with MemoryBank.open(bank_file) as bank:
        bank.put([made.item("/c", 3)])
        with MemoryBank.open(link, read_only=True) as reader:
            assert reader.totals().documents == 3
            bank.put([made.item("/d", 4)])
            assert reader.totals().documents == 4


def test_only_an_unused_bank_is_deleted(made: Any, tmp_path: Path) -> None:
    path, link = tmp_path / "new.mbc", tmp_path / "link.mbc"
    link.symlink_to(path)
    delete_if_unused(path)  # there is none
    path.write_text("another program's")
    delete_if_unused(path)
    assert path.read_text() == "another program's"
    path.unlink()
    with made.bank(link):
        delete_if_unused(link)  # somebody has it open
        assert path.exists()
    delete_if_unused(link)
    assert [own.name for own in tmp_path.iterdir()] == ["link.mbc"]
    with made.bank(path) as bank:
        bank.put([made.item("/a", 1)])
    delete_if_unused(path)
    assert path.exists()
