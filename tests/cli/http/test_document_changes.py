"""Documents go to files first and then to the bank, whatever fails in between."""

import shutil
from typing import Any

import pytest

from mbc_cli.http import documents as module
from mbc_cli.http.documents import ClientDocuments, DocumentFolder, NewDocument
from mbc_engine import open_bank
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError
from tests.cli.http.conftest import names

ADA, BRUNO = (
    NewDocument(text="Ada moved to Aalen.", name="ada"),
    NewDocument(text="Bruno moved to Bergen.", name="bruno"),
)


@pytest.fixture
def documents(real_memory, home):
    with DocumentFolder(home / "b.documents").opened() as folder, real_memory:
        documents = ClientDocuments(real_memory, folder)
        documents.sync()
        yield documents


@pytest.fixture
def replace_bank(tiny_model, home):
    """Puts another bank, by default a new one, at the path of the one that is open."""

    def replace(other=home / "new.mbc"):
        with open_bank(tiny_model, other):
            pass
        for suffix in ("-wal", "-shm"):
            (home / f"b.mbc{suffix}").unlink(missing_ok=True)
        other.replace(home / "b.mbc")

    return replace


class Killed(BaseException): ...


def raising(error):
    def fail(*_):
        raise error

    return fail


def test_last_change_of_a_batch_wins(documents):
    later = NewDocument(text="Ada moved to Cadiz.", name="ada")
    added, first_removal, second_removal, replaced, unknown = documents.change(
        [[ADA, BRUNO], BRUNO.id, BRUNO.id, [later], "../x"]
    )
    assert [document.name for document in added] == ["ada", "bruno"]
    assert (first_removal, second_removal, unknown) == (True, False, False)
    assert [document.state for document in replaced] == ["memorised"]
    assert names() == ["ada"]
    assert documents.folder.read(ADA.id) == later


@pytest.mark.parametrize("step", ["sync", "bank"])
def test_kill_between_steps_is_repaired(documents, monkeypatch, step):
    documents.change([[ADA]])
    target, name = (module, "_sync") if step == "sync" else (documents, "_update_bank")
    with monkeypatch.context() as patch:
        patch.setattr(target, name, raising(Killed))
        for change in ([BRUNO], ADA.id):
            with pytest.raises(Killed):
                documents.change([change])
    assert names() == ["ada"]
    ClientDocuments(documents.memory, documents.folder).sync()
    assert names() == ["bruno"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_failed_change_is_repeated_with_the_next(documents, replace_bank, monkeypatch, is_replaced):
    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "put", raising(BankError("The disk is full.")))
        with pytest.raises(BankError, match="full"):
            documents.change([[ADA]])
    assert names() == []
    if is_replaced:
        replace_bank()
    documents.change([[BRUNO]])
    assert names() == ["ada", "bruno"]


@pytest.mark.parametrize("method", ["write", "remove"])
def test_unwritable_file_blocks_no_other(documents, monkeypatch, method):
    change: Any = [ADA] if method == "write" else ADA.id
    work = getattr(documents.folder, method)
    if method == "remove":
        documents.change([[ADA]])

    def refuse(given):
        if given == change:
            raise OSError(28, "No space left on device")
        return work(given)

    monkeypatch.setattr(documents.folder, method, refuse)
    error, (added,) = documents.change([change, [BRUNO]])
    assert "No space left" in error.message
    assert added.name == "bruno"
    assert names() == (["bruno"] if method == "write" else ["ada", "bruno"])


def test_documents_follow_a_bank_that_is_replaced(documents, replace_bank, home):
    documents.change([[ADA]])
    replace_bank()
    assert documents.current_memory() is documents.memory and names() == ["ada"]
    replace_bank()
    documents.change([[BRUNO]])
    assert names() == ["ada", "bruno"]
    with MemoryBank.open(home / "b.mbc") as bank:
        bank.checkpoint()
    shutil.copyfile(home / "b.mbc", home / "older.mbc")
    documents.change([ADA.id])
    replace_bank(home / "older.mbc")
    documents.change([BRUNO.id])
    assert names() == []
