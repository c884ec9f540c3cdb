"""The memory bank against a plain dict, and against everything else that may stand where a bank should."""

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbc_engine.bank import (
    BankHeader,
    ChunkSource,
    Codes,
    CodeShape,
    MemoryBank,
    ModelSignature,
    StoredDocument,
    count,
    database,
)
from mbc_engine.errors import BankError, ModelMismatch

SIGNATURE = ModelSignature(name="mini", amortizer="aa" * 32, codebook="bb" * 32)
SHAPE = CodeShape(tokens=3, levels=2, num_codes=5, per_position=True)


@dataclass(frozen=True)
class Record:
    source: str
    digest: str = "d0"
    size: int = 100
    date: str | None = None


def codes_of(*chunks: int) -> Codes:
    """Chunks that hold one code each, everywhere."""
    return np.stack([np.full((3, 2), code, np.uint16) for code in chunks]) if chunks else np.zeros((0, 3, 2), np.uint16)


def all_codes(bank: MemoryBank, size: int = 65_536) -> Codes:
    return np.concatenate([codes_of(), *bank.blocks(size)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "100% mine?#.mbc"


@pytest.fixture
def bank(path: Path) -> Iterator[MemoryBank]:
    with MemoryBank.create(path, SIGNATURE, SHAPE, dim=8) as bank:
        yield bank


def test_new_bank_is_empty_and_says_what_it_is(bank: MemoryBank, path: Path) -> None:
    assert bank.path == path
    assert bank.header == BankHeader(SIGNATURE, SHAPE, 8, bank.header.created)
    assert bank.header.signature.name == "mini"
    assert (bank.num_documents, bank.num_chunks) == (0, 0)
    assert bank.counts().shape == (2, 3, 5)
    assert not bank.counts().any()
    assert list(bank.blocks()) == []
    assert list(bank.documents()) == []
    assert bank.sources([]) == []


def test_documents_survive_closing(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record("/a", "d1", 7, "2024-05-01"), codes_of(1, 2)), (Record("/b"), codes_of(3))])
    bank.close()
    with MemoryBank.open(path, read_only=True) as opened:
        assert opened.header.signature == SIGNATURE
        assert list(opened.documents()) == [
            StoredDocument("/a", "d1", 7, "2024-05-01", 2),
            StoredDocument("/b", "d0", 100, None, 1),
        ]
        assert np.array_equal(all_codes(opened), codes_of(1, 2, 3))
        assert (opened.digest_of("/a"), opened.digest_of("/c")) == ("d1", None)


def test_replaced_document_keeps_its_place(bank: MemoryBank) -> None:
    bank.add([(Record("/a"), codes_of(1, 1)), (Record("/b"), codes_of(2))])
    bank.add([(Record("/a", "d1"), codes_of(4))])
    assert np.array_equal(all_codes(bank), codes_of(4, 2))
    assert bank.digest_of("/a") == "d1"
    assert np.array_equal(bank.counts(), count(codes_of(4, 2), SHAPE))


def test_chunks_know_their_source(bank: MemoryBank) -> None:
    items = [
        (Record("/a"), codes_of(0, 1)),
        (Record("/empty"), codes_of()),
        (Record("/b", "d1", 1, "2024"), codes_of(2)),
    ]
    bank.add(items)
    assert bank.sources([2, 0, 1, 2]) == [
        ChunkSource("/b", "d1", 0, "2024"),
        ChunkSource("/a", "d0", 0, None),
        ChunkSource("/a", "d0", 1, None),
        ChunkSource("/b", "d1", 0, "2024"),
    ]
    bank.remove("/a")
    assert bank.sources(np.array([0])) == [ChunkSource("/b", "d1", 0, "2024")]
    for index in (-1, 1):
        with pytest.raises(IndexError):
            bank.sources([index])


def test_sizes_are_exact(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record("/a"), codes_of(0, 1)), (Record("/b"), codes_of(2))])
    sizes = bank.sizes()
    assert sizes.codes == 5 + 3  # 2 and 1 chunks of 18 bits
    assert sizes.codebook == 2 * 3 * 5 * 8 * 4
    assert sizes.file == sum(file.stat().st_size for file in path.parent.iterdir() if not file.name.endswith("-shm"))
    with MemoryBank.in_memory(SIGNATURE, SHAPE, 8) as volatile:
        assert volatile.sizes().file > 0


SOURCES = st.sampled_from(["/a", "/b", "/c", "/d"])
CHUNKS = st.lists(st.integers(0, 4), max_size=4)
STEPS = st.lists(st.one_of(SOURCES, st.lists(st.tuples(SOURCES, CHUNKS), max_size=3)), max_size=12)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS, size=st.integers(1, 5))
def test_any_history_equals_a_dict(steps: list[str | list[tuple[str, list[int]]]], size: int) -> None:
    reference: dict[str, list[int]] = {}
    with MemoryBank.in_memory(SIGNATURE, SHAPE, 8) as bank:
        for step in steps:
            if isinstance(step, str):
                assert bank.remove(step) == (reference.pop(step, None) is not None)
            else:
                bank.add([(Record(source), codes_of(*chunks)) for source, chunks in step])
                reference.update(step)
        flat = [(source, ordinal, code) for source, chunks in reference.items() for ordinal, code in enumerate(chunks)]
        expected = codes_of(*(code for _, _, code in flat))
        blocks = list(bank.blocks(size))
        assert all(len(block) == size for block in blocks[:-1])
        assert all(1 <= len(block) <= size for block in blocks)
        assert np.array_equal(all_codes(bank, size), expected)
        assert np.array_equal(bank.counts(), count(expected, SHAPE))
        assert [(document.source, document.chunks) for document in bank.documents()] == [
            (source, len(chunks)) for source, chunks in reference.items()
        ]
        assert (bank.num_documents, bank.num_chunks) == (len(reference), len(flat))
        assert [(chunk.source, chunk.ordinal) for chunk in bank.sources(range(len(flat)))] == [
            (source, ordinal) for source, ordinal, _ in flat
        ]


def test_documents_can_be_removed_while_they_are_listed() -> None:
    with MemoryBank.in_memory(SIGNATURE, SHAPE, 8) as bank:
        bank.add([(Record(f"/{number}"), codes_of(number % 5)) for number in range(2100)])
        assert sum(bank.remove(document.source) for document in bank.documents()) == 2100
        assert bank.num_documents == 0
        assert not bank.counts().any()


def test_removed_document_leaves_no_byte(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record("/secret/plan.txt"), codes_of(1)), (Record("/kept"), codes_of(2))])
    bank.remove("/secret/plan.txt")
    bank.close()
    assert b"secret" not in path.read_bytes()


def test_a_refused_batch_changes_nothing(bank: MemoryBank) -> None:
    with pytest.raises(ValueError, match="must be in"):
        bank.add([(Record("/a"), codes_of(1)), (Record("/b"), codes_of(9))])
    with pytest.raises(sqlite3.IntegrityError):
        bank.add([(Record("/a"), codes_of(1)), (Record("/b", digest=None), codes_of(1))])  # type: ignore[arg-type]
    assert bank.num_documents == 0
    assert not bank.counts().any()


def test_signature_decides_and_its_name_does_not(bank: MemoryBank, path: Path) -> None:
    bank.require(ModelSignature("renamed", SIGNATURE.amortizer, SIGNATURE.codebook))
    other = ModelSignature("mini", SIGNATURE.amortizer, "cc" * 32)
    with pytest.raises(ModelMismatch, match=r"mini .aaaaaaaa-bbbbbbbb., not mini .aaaaaaaa-cccccccc.") as caught:
        bank.require(other)
    assert caught.value.hint
    with pytest.raises(ModelMismatch):
        MemoryBank.open_or_create(path, other, SHAPE, 8)


def test_open_or_create_does_what_is_needed(path: Path) -> None:
    with MemoryBank.open_or_create(path, SIGNATURE, SHAPE, 8) as bank:
        bank.add([(Record("/a"), codes_of(1))])
    with MemoryBank.open_or_create(path, SIGNATURE, SHAPE, 8) as bank:
        assert bank.num_documents == 1


def test_reader_beside_a_writer_keeps_its_snapshot(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record("/a"), codes_of(1)), (Record("/b"), codes_of(2))])
    with MemoryBank.open(path, read_only=True) as reader:
        assert reader.sources([0])[0].source == "/a"
        with reader.snapshot():
            before = all_codes(reader)
            bank.remove("/a")
            assert np.array_equal(all_codes(reader), before)
            assert reader.sources([0, 1])[0].source == "/a"
            with pytest.raises(RuntimeError, match="snapshot"):
                reader.remove("/b")
        assert reader.sources([0])[0].source == "/b"
        assert np.array_equal(all_codes(reader), codes_of(2))


def test_bank_passes_to_another_thread(bank: MemoryBank) -> None:
    thread = threading.Thread(target=lambda: bank.add([(Record("/a"), codes_of(1))]))
    thread.start()
    thread.join()
    assert bank.num_documents == 1


def test_killed_writer_leaves_whole_batches(path: Path) -> None:
    MemoryBank.create(path, SIGNATURE, SHAPE, 8).close()
    program = """
        import sys
        from dataclasses import dataclass
        from pathlib import Path
        import numpy as np
        from mbc_engine.bank import MemoryBank
        @dataclass
        class Record:
            source: str
            digest: str = ""
            size: int = 0
            date: str | None = None
        bank = MemoryBank.open(Path(sys.argv[1]))
        batch = 0
        while True:
            codes = np.full((1, 3, 2), batch % 5)
            bank.add([(Record(f"/{batch}/{number}"), codes) for number in range(50)])
            batch += 1
            if batch == 3:
                print("going", flush=True)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"going\n"
        process.send_signal(signal.SIGKILL)
    with MemoryBank.open(path) as bank:
        assert bank.num_documents >= 150
        assert bank.num_documents % 50 == 0
        assert np.array_equal(bank.counts(), count(all_codes(bank), SHAPE))


def refusal(path: Path, words: str, *, read_only: bool = False) -> BankError:
    with pytest.raises(BankError, match=words) as caught:
        MemoryBank.open(path, read_only=read_only)
    assert caught.value.hint
    return caught.value


def test_missing_bank_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "none.mbc"
    assert refusal(path, "No bank at").hint == f"Make one with `mbc ingest FOLDER --bank {path}`."
    assert not path.exists()


def test_empty_file_is_no_bank_yet(tmp_path: Path) -> None:
    path = tmp_path / "empty.mbc"
    path.touch()
    refusal(path, "No bank at")
    MemoryBank.create(path, SIGNATURE, SHAPE, 8).close()
    MemoryBank.open(path).close()


def test_folder_and_other_files_are_refused(tmp_path: Path) -> None:
    refusal(tmp_path, "is a folder")
    with pytest.raises(BankError, match="is a folder"):
        MemoryBank.create(tmp_path, SIGNATURE, SHAPE, 8)
    text = tmp_path / "notes.txt"
    text.write_text("not a bank")
    refusal(text, "is not a bank")
    refusal(text / "below", "cannot be read")
    with pytest.raises(BankError, match=r"cannot be (made|read)"):
        MemoryBank.create(text / "below" / "bank.mbc", SIGNATURE, SHAPE, 8)
    with pytest.raises(BankError, match="already a file"):
        MemoryBank.create(text, SIGNATURE, SHAPE, 8)
    assert text.read_text() == "not a bank"


def test_other_database_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.executescript("PRAGMA journal_mode = WAL; CREATE TABLE documents (id); INSERT INTO documents VALUES (1)")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    refusal(path, "is not a bank")
    with pytest.raises(BankError, match="is not a bank"):
        MemoryBank.open_or_create(path, SIGNATURE, SHAPE, 8)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    other.close()


def test_newer_format_is_refused(bank: MemoryBank, path: Path) -> None:
    bank.close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 2")
    raw.close()
    refusal(path, "newer mbc .bank format 2")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE bank SET tokens = 0",
        "UPDATE bank SET levels = 'x'",
        "DELETE FROM bank",
        "DROP TABLE bank",
        "UPDATE bank SET counts = x'00'",
        "UPDATE documents SET codes = x'ffffff'",
        "UPDATE documents SET chunks = 3",
        "DROP TABLE documents",
    ],
)
def test_damaged_bank_is_an_error(bank: MemoryBank, path: Path, damage: str) -> None:
    bank.add([(Record("/a"), codes_of(1))])
    bank.close()
    with sqlite3.connect(path) as raw:
        raw.execute(damage)
    raw.close()
    with pytest.raises(BankError, match="is damaged"), MemoryBank.open(path) as opened:
        opened.counts()
        list(opened.blocks())


def test_torn_file_is_an_error(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record(f"/{number}"), codes_of(1)) for number in range(500)])
    bank.close()
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(BankError, match="is damaged"), MemoryBank.open(path) as opened:
        list(opened.blocks())


def test_second_writer_is_told_to_wait(bank: MemoryBank, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_SECONDS", 0.01)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with MemoryBank.open(path) as second, pytest.raises(BankError, match="written by another process") as caught:
        second.add([(Record("/a"), codes_of(1))])
    assert caught.value.hint
    writer.close()


def test_bank_opened_to_read_cannot_be_written(bank: MemoryBank, path: Path) -> None:
    with MemoryBank.open(path, read_only=True) as reader, pytest.raises(BankError, match="cannot be written"):
        reader.add([(Record("/a"), codes_of(1))])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root")
def test_folder_without_write_permission(bank: MemoryBank, path: Path) -> None:
    bank.add([(Record("/a"), codes_of(1))])
    bank.close()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with MemoryBank.open(path, read_only=True) as reader:
            assert np.array_equal(all_codes(reader), codes_of(1))
        with pytest.raises(BankError, match=r"cannot be (opened|written)") as caught, MemoryBank.open(path) as writer:
            writer.add([(Record("/b"), codes_of(1))])
        assert caught.value.hint
        with pytest.raises(BankError, match="cannot be opened"):
            MemoryBank.create(path.with_name("new.mbc"), SIGNATURE, SHAPE, 8)
        with pytest.raises(BankError, match="cannot be made"):
            MemoryBank.create(path.parent / "sub" / "new.mbc", SIGNATURE, SHAPE, 8)
    finally:
        path.parent.chmod(0o755)


def test_needs_no_torch() -> None:
    program = "import sys, mbc_engine.bank, mbc_engine.documents; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
