"""The folder of clients' documents: what is written, locked, refused and synced."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mbc_cli.http.documents import DocumentFolder, NewDocument
from mbc_engine.atomic_write import atomic_write
from mbc_engine.errors import ConfigError
from mbc_engine.text import read_file


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


def test_document_ids():
    assert NewDocument(text=" Ada moved. ") == NewDocument(text="Ada moved.")
    assert NewDocument(text="Ada moved.", date="2024-05-01").id == NewDocument(text="Ada moved.").id
    assert NewDocument(text="Ada moved.").id != NewDocument(text="Bruno moved.").id
    assert NewDocument(text="Ada moved.", name="who").id == NewDocument(text="Bruno moved.", name="who").id


def test_a_folder_in_use_is_private_and_locked(folder):
    document = NewDocument(text="Ada moved.")
    folder.write([document])
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.file(document.id).stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="Another mbc serve"), DocumentFolder(folder.path).opened():
        pass


def test_a_folder_of_other_files_stays_as_it_is(tmp_path):
    (tmp_path / "notes").mkdir(mode=0o755)
    (tmp_path / "notes" / "ada.txt").write_text("Ada")
    with pytest.raises(ConfigError, match="files other than"), DocumentFolder(tmp_path / "notes").opened():
        pass
    assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o755


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
