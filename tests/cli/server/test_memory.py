"""Documents in files first, then in the bank, whatever goes wrong between."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.asking import Asker
from mbc_cli.http.documents import DocumentFolder, Text
from mbc_cli.http.queue import Adding, Memory, Removing
from mbc_engine import open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError
from mbc_engine.paper.mbc import MBC
from mbc_engine.text import reader
from tests.cli.server.conftest import names


@pytest.fixture
def memory(tiny_model: MBC, asker: Asker, home: Path) -> Iterator[Memory]:
    with DocumentFolder(home / "b.documents").opened() as folder:
        memory = Memory(asker, folder)
        memory.catch_up()
        with memory.working():
            yield memory


ADA, BRUNO = Text.of("Ada moved to Aalen.", "ada", None), Text.of("Bruno moved to Bergen.", "bruno", None)


def test_changes_made_together_leave_what_the_last_of_them_says(memory: Memory) -> None:
    later = Text.of("Ada moved to Cadiz.", "ada", None)
    results = memory.do(
        [Adding((ADA, BRUNO)), Removing(BRUNO.id), Removing(BRUNO.id), Adding((later,)), Removing("../x")]
    )
    assert [own.name for own in results[0]] == ["ada", "bruno"]
    assert results[1:3] == [True, False]
    assert [own.state for own in results[3]] == ["memorised"]
    assert results[4] is False
    assert names() == ["ada"]
    assert memory.folder.read(ADA.id) == later


class Killed(BaseException): ...


@pytest.mark.parametrize("step", ["sync", "bank"])
def test_a_server_that_ended_between_two_steps_is_healed_by_the_next(
    memory: Memory, tiny_model: MBC, asker: Asker, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def kill(*arguments: Any) -> Any:
        raise Killed

    memory.do([Adding((ADA,))])
    place, name = (memory.folder, "sync") if step == "sync" else (memory, "_bring_in_line")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, kill)
        for change in (Adding((BRUNO,)), Removing(ADA.id)):
            with pytest.raises(Killed):
                memory.do([change])
    assert names() == ["ada"]
    Memory(asker, memory.folder).catch_up()
    assert names() == ["bruno"]


def test_what_the_bank_could_not_take_is_taken_with_the_next_change(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "add", fail)
        with pytest.raises(BankError, match="full"):
            memory.do([Adding((ADA,))])
    assert names() == []
    memory.do([Adding((BRUNO,))])
    assert names() == ["ada", "bruno"]


def test_a_file_that_cannot_be_written_is_told_of_and_hinders_no_other(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = memory.folder.write

    def fail(document: Text) -> None:
        if document == ADA:
            raise OSError(28, "No space left on device")
        write(document)

    monkeypatch.setattr(memory.folder, "write", fail)
    failed, (added,) = memory.do([Adding((ADA,)), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "No space left" in failed.message
    assert added.name == "bruno"
    assert names() == ["bruno"]


def test_a_file_that_cannot_be_removed_is_told_of_and_hinders_no_other(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(id: str) -> bool:
        raise OSError(13, "Permission denied")

    memory.do([Adding((ADA,))])
    monkeypatch.setattr(memory.folder, "remove", fail)
    failed, (added,) = memory.do([Removing(ADA.id), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "Permission denied" in failed.message
    assert added.name == "bruno"
    assert names() == ["ada", "bruno"]


def test_documents_follow_a_bank_that_another_process_replaces(memory: Memory, tiny_model: MBC, home: Path) -> None:
    memory.do([Adding((ADA,))])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    put_in_its_place(home / "b.mbc", home / "new.mbc")
    memory.do([Adding((BRUNO,))])
    assert names() == ["ada", "bruno"]


def put_in_its_place(bank: Path, other: Path) -> None:
    """Another bank at the path of one that is open."""
    for suffix in ("-wal", "-shm"):
        bank.with_name(f"{bank.name}{suffix}").unlink(missing_ok=True)
    other.replace(bank)


def test_a_bank_replaced_behind_an_error_gets_all_documents_too(
    memory: Memory, tiny_model: MBC, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    memory.do([Adding((ADA,))])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "add", fail)
        with pytest.raises(BankError, match="full"):
            memory.do([Adding((BRUNO,))])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    put_in_its_place(home / "b.mbc", home / "new.mbc")
    memory.do([Removing(BRUNO.id)])
    assert names() == ["ada"]


def test_what_was_removed_does_not_come_back_with_an_older_bank(memory: Memory, home: Path) -> None:
    memory.do([Adding((ADA, BRUNO))])
    with MemoryBank.open(home / "b.mbc") as bank:
        bank.settle()
    shutil.copyfile(home / "b.mbc", home / "older.mbc")
    memory.do([Removing(ADA.id)])
    put_in_its_place(home / "b.mbc", home / "older.mbc")
    memory.do([Removing(BRUNO.id)])
    assert names() == []


def test_a_document_that_cannot_be_read_for_now_is_kept_and_read_with_the_next_change(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reader.open_bytes

    def fail(path: Path, *arguments: Any) -> Any:
        if path == memory.folder.file(ADA.id):
            raise OSError(24, "Too many open files")
        return read(path, *arguments)

    memory.do([Adding((Text.of("Ada lives in Cadiz.", "ada", None),))])
    with monkeypatch.context() as patch:
        patch.setattr(reader, "open_bytes", fail)
        failed, (added,) = memory.do([Adding((ADA,)), Adding((BRUNO,))])
    assert isinstance(failed, BankError)
    assert "too many open files" in failed.message
    assert added.state == "memorised"
    assert memory.folder.read(ADA.id) == ADA
    assert names() == ["ada", "bruno"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        before = {own.digest for own in bank.documents()}
    memory.do([Removing(BRUNO.id)])
    assert names() == ["ada"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        assert before.isdisjoint(own.digest for own in bank.documents())
