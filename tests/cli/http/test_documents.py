"""Documents that clients send: they go to files first and then to the bank, whatever fails in between."""

import json
import os
import shutil
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mbc_cli.http import documents as module
from mbc_cli.http.documents import ClientDocuments, DocumentFolder, NewDocument
from mbc_engine import ingest, open_bank
from mbc_engine.atomic_write import atomic_write
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError, ConfigError
from mbc_engine.text import file_reader, read_file
from tests.cli.http.conftest import names


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "documents").mkdir(mode=0o755)
    with DocumentFolder(tmp_path / "documents").opened() as folder:
        yield folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(), min_size=1),
    name=st.none() | st.text(st.characters(), min_size=1, max_size=200) | st.sampled_from(["../x", "a/b", "\x1b[2J"]),
    date=st.none() | st.dates().map(str),
)
def test_the_engine_reads_what_was_written(folder, text, name, date):
    try:
        document = NewDocument(text=text, name=name, date=date)
    except ValidationError:
        return
    folder.write([document])
    path = folder.file(document.id)
    (read,) = read_file(path)
    assert (read.text, read.part, path.parent) == (document.text, document.name, folder.path)
    assert read.date == (date or read.date)
    assert folder.read(document.id) == document
    assert folder.remove(document.id)
    assert folder.ids() == []


def test_a_folder_is_private_and_locked_unless_it_has_other_files(folder, tmp_path):
    folder.write([document := NewDocument(text="Ada moved.")])
    modes = [path.stat().st_mode & 0o777 for path in (folder.path, folder.file(document.id))]
    (tmp_path / "notes").mkdir(mode=0o755)
    (tmp_path / "notes" / "ada.txt").write_text("Ada")
    for path, message in ((folder.path, "Another mbc serve"), (tmp_path / "notes", "files other than")):
        with pytest.raises(ConfigError, match=message), DocumentFolder(path).opened():
            pass
    assert [*modes, (tmp_path / "notes").stat().st_mode & 0o777] == [0o700, 0o600, 0o755]


def test_half_written_files_are_removed(tmp_path):
    folder = DocumentFolder(tmp_path / "documents")
    with folder.opened():
        with atomic_write(folder.file("a" * 32)):
            (half,) = (path for path in folder.path.iterdir() if path.name != ".lock")
        half.write_text('{"id')  # as a kill during the write would leave it
    with folder.opened():
        assert {path.name for path in folder.path.iterdir()} == {".lock", folder.file("a" * 32).name}


@pytest.mark.parametrize("id", ["", "..", "../../etc/passwd", "a" * 31, "A" * 32, f"{'a' * 32}\n", "bank-" + "a" * 32])
def test_an_invalid_id_leads_nowhere(folder, id):
    assert folder.read(id) is None
    assert not folder.remove(id)


def test_writes_are_synced(tmp_path, monkeypatch):
    steps: list[str] = []
    fsync, rename = os.fsync, Path.replace

    def recording_fsync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def recording_rename(path, target):
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(Path, "replace", recording_rename)
    with DocumentFolder(tmp_path / "documents").opened() as folder:
        folder.write([NewDocument(text="Ada moved.")])
    assert steps == ["folder", "file", "rename", "folder"]  # the first is the new folder's parent


@pytest.fixture
def running(serving, real_memory):
    """A server of an empty memory of the tiny model."""
    return serving(real_memory)


async def test_a_document_is_in_the_bank_and_in_a_file(running, home):
    response = await running.add({"text": "Ada moved to Aalen.", "name": "ada", "date": "1989-05-03"})
    assert response.status_code == 201
    document = response.json()
    sent = {"id": NewDocument(text="x", name="ada").id, "object": "document", "name": "ada", "date": "1989-05-03"}
    assert document == {**sent, "chunks": 1, "state": "memorised", "kept": True, "sources": []}
    assert names() == ["ada"]
    path = home / "b.documents" / f"{document['id']}.jsonl"
    assert json.loads(path.read_text()) == {"id": "ada", "date": "1989-05-03", "text": "Ada moved to Aalen."}
    fetched = (await running.client.get(f"/v1/documents/{document['id']}")).json()
    assert fetched == {**document, "text": "Ada moved to Aalen."}


async def test_pages(running):
    response = await running.add([{"text": f"Story {number}.", "name": f"s{number}"} for number in range(5)])
    assert response.status_code == 201
    assert [document["name"] for document in response.json()["data"]] == ["s0", "s1", "s2", "s3", "s4"]
    ids = sorted(document["id"] for document in response.json()["data"])
    seen, after, more = [], "", True
    while more:
        page = (await running.client.get("/v1/documents", params={"limit": 2, "after": after})).json()
        assert 1 <= len(page["data"]) <= 2
        seen += [document["id"] for document in page["data"]]
        after, more = seen[-1], page["has_more"]
    assert seen == ids
    assert (await running.client.get("/v1/bank")).json()["documents"] == 5
    running.documents.folder.file(ids[1]).write_bytes(b"damaged")
    page = (await running.client.get("/v1/documents", params={"limit": 2})).json()
    assert ([document["id"] for document in page["data"]], page["has_more"]) == ([ids[0], ids[2]], True)


async def test_a_document_replaces_one_of_its_name(running, monkeypatch):
    monkeypatch.setattr("mbc_engine.text.decoding.PIECE_BYTES", 32)
    long = (await running.add({"text": "Ada moved to Aalen in spring.\n" * 3, "name": "ada"})).json()
    assert (long["name"], long["chunks"], long["state"]) == ("ada", 3, "memorised")
    assert len((await running.client.get("/v1/documents")).json()["data"]) == 1
    short = (await running.add({"text": "Ada moved back.", "name": "ada"})).json()
    assert (short["id"], short["chunks"]) == (long["id"], 1)
    assert (await running.client.get(f"/v1/documents/{long['id']}")).json()["text"] == "Ada moved back."
    for _ in range(2):
        await running.add({"text": "The river rose."})
    assert (await running.client.get("/v1/bank")).json()["documents"] == 2


async def test_removed_and_unknown_documents_are_not_found(running, home):
    id = (await running.add({"text": "Ada moved."})).json()["id"]
    await running.add({"text": "Ada moved.", "name": "../../b"})
    response = await running.client.delete(f"/v1/documents/{id}")
    assert (response.status_code, response.json()) == (200, {"id": id, "object": "document.deleted", "deleted": True})
    again = await running.client.get(f"/v1/documents/{id}")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "document_not_found")
    assert len(list((home / "b.documents").glob("*.jsonl"))) == 1
    for id in ("..%2F..%2Fb", "bank-..%2Fb", "bank-", "a" * 32, "x" * 300):
        for method in ("GET", "DELETE"):
            assert (await running.client.request(method, f"/v1/documents/{id}")).status_code in (400, 403, 404)
    assert names() == ["../../b"]


async def test_ingested_documents_are_read_only(serving, real_memory, tiny_model, home):
    (home / "notes").mkdir()
    (home / "notes" / "ada.txt").write_text("Ada moved to Aalen. Secret.")
    with open_bank(tiny_model, home / "b.mbc") as bank:
        list(ingest(tiny_model, bank, [home / "notes"]))
    running = serving(real_memory)
    await running.add({"text": "Bruno moved to Bergen.", "name": "bruno"})
    sent, ingested = (await running.client.get("/v1/documents")).json()["data"]
    assert (sent["name"], sent["kept"]) == ("bruno", True)
    assert (ingested["name"], ingested["kept"]) == (None, False)
    assert ingested["sources"] == [str(home / "notes" / "ada.txt")]
    page = (await running.client.get("/v1/documents", params={"limit": 1, "after": sent["id"]})).json()
    assert (page["data"], page["has_more"]) == ([ingested], False)
    assert (await running.client.get(f"/v1/documents/{ingested['id']}")).json() == {**ingested, "text": None}
    refused = await running.client.delete(f"/v1/documents/{ingested['id']}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_kept_here")
    assert names() == ["ada.txt", "bruno"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text": " "}, "text"),
        ({"text": "a", "path": "/etc/passwd"}, "path"),
        ({"text": "a", "name": "row 3"}, "name"),
        ({"text": "a", "date": "soon"}, "date"),
        ([{"text": "a"}, {"text": 3}], "1.text"),
        ([{"text": "a"}] * 101, None),
    ],
)
async def test_an_invalid_document_is_refused(serving, body, param):
    response = await serving().add(body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


async def test_a_bank_without_sources_takes_no_documents(serving, real_memory, tiny_model, home):
    with open_bank(tiny_model, home / "b.mbc", keeps_origins=False):
        pass
    response = await serving(real_memory).add({"text": "Ada moved."})
    assert response.status_code == 400
    assert "keeps no sources" in response.json()["error"]["message"]
    assert list((home / "b.documents").glob("*.jsonl")) == []


ADA, BRUNO = NewDocument(text="Ada moved to Aalen.", name="ada"), NewDocument(text="Bruno moved.", name="bruno")


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


def test_last_change_of_a_batch_wins(documents):
    later = NewDocument(text="Ada moved to Cadiz.", name="ada")
    added, *removed, replaced = documents.change([[ADA, BRUNO], BRUNO.id, BRUNO.id, "../x", [later]])
    assert ([document.name for document in added], removed) == (["ada", "bruno"], [True, False, False])
    assert [document.state for document in replaced] == ["memorised"]
    assert (names(), documents.folder.read(ADA.id)) == (["ada"], later)


@pytest.mark.parametrize("step", ["sync", "bank"])
def test_kill_between_steps_is_repaired(documents, monkeypatch, step):
    documents.change([[ADA]])
    target, name = (module, "_sync") if step == "sync" else (documents, "_update_bank")
    with monkeypatch.context() as patch:
        patch.setattr(target, name, Mock(side_effect=Killed))
        for change in ([BRUNO], ADA.id):
            with pytest.raises(Killed):
                documents.change([change])
    assert names() == ["ada"]
    ClientDocuments(documents.memory, documents.folder).sync()
    assert names() == ["bruno"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_failed_change_is_repeated_with_the_next(documents, replace_bank, monkeypatch, is_replaced):
    with monkeypatch.context() as patch:
        patch.setattr(MemoryBank, "put", Mock(side_effect=BankError("The disk is full.")))
        with pytest.raises(BankError, match="full"):
            documents.change([[ADA]])
    assert names() == []
    if is_replaced:
        replace_bank()
    documents.change([[BRUNO]])
    assert names() == ["ada", "bruno"]


def test_skipped_document_is_tried_again_with_the_next_change(documents, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(file_reader, "open_file", Mock(side_effect=OSError(24, "Too many open files")))
        (error,) = documents.change([[ADA]])
    assert "too many open files" in error.message and names() == []
    documents.change([[BRUNO]])
    assert names() == ["ada", "bruno"]


def test_unwritable_file_blocks_no_other(documents, monkeypatch):
    write = documents.folder.write

    def refuse(given):
        if given == [ADA]:
            raise OSError(28, "No space left on device")
        return write(given)

    monkeypatch.setattr(documents.folder, "write", refuse)
    error, (added,) = documents.change([[ADA], [BRUNO]])
    assert ("No space left" in error.message, added.name, names()) == (True, "bruno", ["bruno"])


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
