"""Banks that are exported and imported, re-encoded, and recoded by the language model."""

import hashlib
import json
import os
import signal

import pytest

import mbc_engine.ingestion.reencode as engine
from mbc_engine.bank import MemoryBank
from mbc_engine.paper.checkpoint import save_model
from tests.text_models import StandIn


def test_a_bank_goes_out_and_comes_back(mbc, small_bank, home):
    lines = mbc("bank", "export", "--bank", small_bank).stdout_bytes
    assert len(lines.splitlines()) == 4
    assert mbc("bank", "export", "-", "--bank", small_bank, "--json").stdout_bytes == lines
    summary = json.loads(mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--json").stdout)
    assert (summary["documents"], summary["sha256"]) == (2, hashlib.sha256(lines).hexdigest())
    assert (home / "e.jsonl").read_bytes() == lines
    result = mbc("bank", "import", "e.jsonl", "--bank", "new.mbc")
    assert "2 documents, 8 chunks" in result.stdout
    assert mbc("bank", "export", "--bank", "new.mbc").stdout_bytes == lines
    summary = json.loads(mbc("bank", "import", "-", "--bank", "newer.mbc", "--json", stdin=lines).stdout)
    assert (summary["imported"], summary["bank"]["documents"]) == (2, 2)


def test_a_file_is_replaced_only_by_force(mbc, refusal, small_bank, home):
    (home / "e.jsonl").write_text("mine")
    assert "--force" in refusal(2, "bank", "export", "e.jsonl", "--bank", small_bank)
    assert (home / "e.jsonl").read_text() == "mine"
    assert mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--force").exit_code == 0
    assert (home / "e.jsonl").read_bytes() == mbc("bank", "export", "--bank", small_bank).stdout_bytes
    (home / "mine").write_text("mine")
    (home / "link").symlink_to("mine")
    assert mbc("bank", "export", "link", "--bank", small_bank).exit_code == 2
    assert mbc("bank", "export", "link", "--bank", small_bank, "--force").exit_code == 0
    assert (home / "mine").read_text() == "mine"
    assert not (home / "link").is_symlink()


def test_unwritable_target_is_an_error(mbc, small_bank, home):
    os.mkfifo(home / "pipe")
    missing = "nowhere/e.jsonl cannot be written: no such file or directory"
    for name, message in (("pipe", "is not a file"), (".", "is not a file"), ("nowhere/e.jsonl", missing)):
        result = mbc("bank", "export", name, "--bank", small_bank, "--force")
        assert (result.exit_code, message in result.stderr) == (2, True)


@pytest.fixture
def other(tiny, tmp_path_factory):
    """The folder of another tiny model."""
    folder = tmp_path_factory.mktemp("models") / "other"
    overrides = ("gpt2", "bert", "model.codebook.codes=16")
    save_model(tiny.model(*overrides), tiny.config(*overrides), folder)
    return folder


@pytest.fixture
def reencode(mbc, bank, other):
    def run(*arguments):
        return mbc("bank", "reencode", "--bank", bank, "--model", other, "--workers", 0, *arguments)

    return run


def _shape(path):
    with MemoryBank.open(path, read_only=True) as bank:
        return bank.header.shape.num_codes, bank.totals().documents


def test_stop_keeps_the_old_bank(reencode, bank, monkeypatch):
    work = engine.reencode

    def interrupted(*arguments, **options):
        events = work(*arguments, **options)
        yield next(event for event in events if getattr(event, "chunks", 0) == 1)
        signal.raise_signal(signal.SIGINT)
        yield from events

    with monkeypatch.context() as patch:
        patch.setattr(engine, "BATCH_CHUNKS", 1)
        patch.setattr(engine, "reencode", interrupted)
        result = reencode()
    assert (result.exit_code, result.stdout) == (130, "")
    assert "The bank is unchanged" in result.stderr
    assert _shape(bank) == (8, 2)
    assert reencode().stdout.startswith("Re-encoded 1 document, 1 chunk, 1 unchanged in ")
    assert _shape(bank) == (16, 2)


def test_compacting_recodes_there_and_back(ingest, mbc, home, monkeypatch):
    def texts():
        info = json.loads(mbc("bank", "info", "--bank", "b.mbc", "--json").stdout)
        return info["text_model"], *(info["text_codecs"][codec]["texts"] for codec in ("lm", "zstd"))

    story = "The river rose in the night. The bridge held. Ada moved to Bergen, and nobody asked why. "
    monkeypatch.setattr("mbc_cli.commands.bank.text_model", StandIn(story * 2).open)
    (home / "0.txt").write_text(story)
    assert ingest("0.txt", "--bank", "b.mbc", "--text", "--codec", "zstd").exit_code == 0
    before = mbc("bank", "export", "--bank", "b.mbc").stdout_bytes
    for codec, expected in (("lm", ("5eed" * 4, 1, 0)), ("zstd", (None, 0, 1))):
        compacted = mbc("bank", "compact", "--bank", "b.mbc", "--codec", codec, "--json")
        assert json.loads(compacted.stdout)["path"] == "b.mbc"
        assert texts() == expected
        assert mbc("bank", "export", "--bank", "b.mbc").stdout_bytes == before
