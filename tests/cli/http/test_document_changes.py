"""Documents go to files first and then to the bank, whatever fails in between."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mbc_cli.http import documents
from mbc_cli.http.documents import ClientDocuments, DocumentFolder, NewDocument
from mbc_engine import open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError
from mbc_engine.memory import Memory
from mbc_engine.paper.mbc import MBC
from mbc_engine.text import reader
from tests.cli.http.conftest import names


@pytest.fixture
def service(tiny_model: MBC, home: Path) -> Iterator[ClientDocuments]:
    with DocumentFolder(home / "b.documents").opened() as folder, Memory([home / "b.mbc"], tiny_model) as memory:
        client_documents = ClientDocuments(memory, folder)
        client_documents.sync()
        yield client_documents


ADA, BRUNO = (
    NewDocument(text="Ada moved to Aalen.", name="ada"),
    NewDocument(text="Bruno moved to Bergen.", name="bruno"),
)


def test_changes_made_together_leave_what_the_last_of_them_says(service: ClientDocuments) -> None:
    later = NewDocument(text="Ada moved to Cadiz.", name="ada")
    results = service.change([[ADA, BRUNO], BRUNO.id, BRUNO.id, [later], "../x"])
    assert [own.name for own in results[0]] == ["ada", "bruno"]
    assert results[1:3] == [True, False]
    assert [own.state for own in results[3]] == ["memorised"]
    assert results[4] is False
    assert names() == ["ada"]
    assert service.folder.read(ADA.id) == later


class Killed(BaseException): ...


@pytest.mark.parametrize("step", ["sync", "bank"])
def test_what_a_server_killed_between_two_steps_left_is_repaired_by_the_next(
    service: ClientDocuments, tiny_model: MBC, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def kill(*arguments: Any) -> Any:
        raise Killed

    service.change([[ADA]])
    target, name = (documents, "_sync") if step == "sync" else (service, "_update_bank")
    with monkeypatch.context() as patch:
        patch.setattr(target, name, kill)
        for change in ([BRUNO], ADA.id):
            with pytest.raises(Killed):
                service.change([change])
    assert names() == ["ada"]
    ClientDocuments(service.memory, service.folder).sync()
    assert names() == ["bruno"]


def test_what_the_bank_could_not_take_is_taken_with_the_next_change(
    service: ClientDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "put", fail)
        with pytest.raises(BankError, match="full"):
            service.change([[ADA]])
    assert names() == []
    service.change([[BRUNO]])
    assert names() == ["ada", "bruno"]


def test_a_file_that_cannot_be_written_is_reported_and_blocks_no_other(
    service: ClientDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = service.folder.write

    def fail(documents: list[NewDocument]) -> None:
        if documents == [ADA]:
            raise OSError(28, "No space left on device")
        write(documents)

    monkeypatch.setattr(service.folder, "write", fail)
    failed, (added,) = service.change([[ADA], [BRUNO]])
    assert isinstance(failed, BankError)
    assert "No space left" in failed.message
    assert added.name == "bruno"
    assert names() == ["bruno"]


def test_a_file_that_cannot_be_removed_is_reported_and_blocks_no_other(
    service: ClientDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(id: str) -> bool:
        raise OSError(13, "Permission denied")

    service.change([[ADA]])
    monkeypatch.setattr(service.folder, "remove", fail)
    failed, (added,) = service.change([ADA.id, [BRUNO]])
    assert isinstance(failed, BankError)
    assert "Permission denied" in failed.message
    assert added.name == "bruno"
    assert names() == ["ada", "bruno"]


def test_documents_follow_a_bank_that_another_process_replaces(
    service: ClientDocuments, tiny_model: MBC, home: Path
) -> None:
    service.change([[ADA]])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    replace_bank(home / "b.mbc", home / "new.mbc")
    service.change([[BRUNO]])
    assert names() == ["ada", "bruno"]


def replace_bank(bank: Path, other: Path) -> None:
    """Put another bank at the path of one that is open."""
    for suffix in ("-wal", "-shm"):
        bank.with_name(f"{bank.name}{suffix}").unlink(missing_ok=True)
    other.replace(bank)


def test_a_bank_replaced_behind_an_error_gets_all_documents_too(
    service: ClientDocuments, tiny_model: MBC, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise BankError("The disk is full.")

    service.change([[ADA]])
    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "put", fail)
        with pytest.raises(BankError, match="full"):
            service.change([[BRUNO]])
    with open_bank(tiny_model, home / "new.mbc"):
        pass
    replace_bank(home / "b.mbc", home / "new.mbc")
    service.change([BRUNO.id])
    assert names() == ["ada"]


def test_what_was_removed_does_not_come_back_with_an_older_bank(service: ClientDocuments, home: Path) -> None:
    service.change([[ADA, BRUNO]])
    with MemoryBank.open(home / "b.mbc") as bank:
        bank.checkpoint()
    shutil.copyfile(home / "b.mbc", home / "older.mbc")
    service.change([ADA.id])
    replace_bank(home / "b.mbc", home / "older.mbc")
    service.change([BRUNO.id])
    assert names() == []


def test_a_document_that_cannot_be_read_for_now_is_kept_and_read_with_the_next_change(
    service: ClientDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reader.open_bytes

    def fail(path: Path, *arguments: Any) -> Any:
        if path == service.folder.file(ADA.id):
            raise OSError(24, "Too many open files")
        return read(path, *arguments)

    service.change([[NewDocument(text="Ada lives in Cadiz.", name="ada")]])
    with monkeypatch.context() as patch:
        patch.setattr(reader, "open_bytes", fail)
        failed, (added,) = service.change([[ADA], [BRUNO]])
    assert isinstance(failed, BankError)
    assert "too many open files" in failed.message
    assert added.state == "memorised"
    assert service.folder.read(ADA.id) == ADA
    assert names() == ["ada", "bruno"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        before = {own.digest for own in bank.documents()}
    service.change([BRUNO.id])
    assert names() == ["ada"]
    with MemoryBank.open(Path("b.mbc"), read_only=True) as bank:
        assert before.isdisjoint(own.digest for own in bank.documents())
