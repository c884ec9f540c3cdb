"""Who may read what mbc writes: what is private to a person is, whatever the umask says."""

import os

import numpy as np
import pytest
import torch

from mbc_cli.config import set_value
from mbc_engine.bank import CodeShape, MemoryBank, ModelSignature, Origin, StoredDocument
from mbc_engine.events import IngestStarted
from mbc_engine.lm.pretrained import write_tensors
from mbc_engine.runs.ingests import recorded


@pytest.fixture(params=[0o000, 0o022], autouse=True)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    """The permissions of everything in a folder."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def new_bank(path):
    return MemoryBank.create(path, ModelSignature("tiny", "aa", "bb"), CodeShape(1, 1, 4, per_position=False), 2)


def item(number):
    origin = Origin(f"/{number}", "", None)
    return StoredDocument(f"{number:064x}", 1, 1, (origin,), np.zeros((1, 1, 1), np.uint16))


def test_a_bank_is_private(tmp_path):
    with new_bank(tmp_path / "own" / "memory.mbc") as bank:
        bank.put([item(1)])
        files = ("own/memory.mbc", "own/memory.mbc-wal", "own/memory.mbc-shm")
        assert modes(tmp_path) == {"own": 0o700, **dict.fromkeys(files, 0o600)}


def test_a_banks_permissions_are_kept(tmp_path):
    path = tmp_path / "team.mbc"
    new_bank(path).close()
    path.chmod(0o664)
    with MemoryBank.open(path) as bank:
        bank.put([item(1)])
        assert set(modes(tmp_path).values()) == {0o664}
    assert modes(tmp_path) == {"team.mbc": 0o664}


def test_the_config_is_private(tmp_path):
    path = tmp_path / "mbc" / "config.toml"
    for name in ("bank", "model"):
        set_value(path, name, "x")
    assert modes(tmp_path) == {"mbc": 0o700, "mbc/config.toml": 0o600}


def test_ingest_log_is_private(tmp_path):
    path = tmp_path / "mbc" / "activity" / "memory.jsonl"
    for _ in range(2):
        list(recorded([IngestStarted(1, 1)], path))
    found = modes(tmp_path)
    assert (found["mbc"], found["mbc/activity"], found["mbc/activity/memory.jsonl"]) == (0o700, 0o700, 0o600)


def test_weights_are_not_written_through_a_link(tmp_path):
    other, path = tmp_path / "other", tmp_path / "model.safetensors"
    other.write_bytes(b"before")
    (tmp_path / "model.partial").symlink_to(other)
    write_tensors(path, {"a": torch.zeros(1)}, {})
    assert other.read_bytes() == b"before"
    assert path.is_file()
    assert not path.is_symlink()
