"""Banks on the command line: what they tell, merge and verify, and how they are exported, imported and recoded."""

import gzip
import hashlib
import json
import os
import signal
import sqlite3
from pathlib import Path

import pytest

import mbc_engine.ingestion.reencode as engine
from mbc_engine.bank import MemoryBank
from mbc_engine.paper.checkpoint import save_model
from tests.text_models import StandIn

ADA, BRUNO = "/notes/ada.txt", "/notes/bruno.md"


@pytest.fixture
def small_bank(make_bank, record):
    """Two documents in two files, one of them also a row of a third."""
    documents = record(ADA, "Ada", date="2024-05-01"), record(BRUNO, "Bruno"), record("/rows.jsonl", "Ada", "7")
    return make_bank("made.mbc", *documents)


def test_info_tells_sizes_and_model(mbc, small_bank, monkeypatch):
    monkeypatch.setenv("MBC_BANK", str(small_bank))
    output = mbc("bank", "info").stdout
    for expected in (
        *("2 documents from 3 origins, 8 chunks", "6 bits: 2 tokens of 8 codes", "3 wide, one codebook for all"),
        *("6 B, 0.75 bytes a chunk", "as float32  the vectors would take 192 B, 32 times the codes"),
        *("text        not kept\n", "the codebook, 96 B, is in the model\n", "read from 4 bytes on average\n"),
        # The index is all but the codes of a file of seven pages.
        *("; smaller from 28,672 documents on\n", "index       28.7 kB\n"),
    ):
        assert expected in output
    info = json.loads(mbc("bank", "info", "--json").stdout)
    assert (info["path"], info["documents"], info["origins"], info["chunks"]) == (str(small_bank), 2, 3, 8)
    assert (info["sizes"]["codes"], info["sizes"]["codebook"], info["float32_bytes"]) == (6, 96, 192)
    assert (info["codes"]["bits_per_chunk"], info["keeps_sources"], info["keeps_text"]) == (6, True, False)
    assert info["model"]["fingerprint"] in output


def test_info_names_a_missing_language_model(mbc, home):
    old = Path(__file__).parents[1] / "bank" / "formats" / "format4-lm.mbc.gz"
    (home / "old.mbc").write_bytes(gzip.decompress(old.read_bytes()))
    output = " ".join(mbc("bank", "info", "--bank", "old.mbc").stdout.split())
    assert "3 with language model 5eed5eed5eed5eed" in output
    assert "another version of the language model" in output
    assert "Run `mbc bank compact --codec zstd` with the version of mbc that wrote the bank" in output


def test_list_is_tab_separated_in_a_pipe(mbc, small_bank, record):
    assert mbc("bank", "list", "--bank", small_bank).stdout.splitlines() == [
        f"3\t3\t2024-05-01\t{ADA}",
        "3\t3\t\t/rows.jsonl#7",
        f"5\t5\t\t{BRUNO}",
    ]
    first, second = map(json.loads, mbc("bank", "list", "--bank", small_bank, "--json").stdout.splitlines())
    origins = [{"source": ADA, "part": "", "date": "2024-05-01"}, {"source": "/rows.jsonl", "part": "7", "date": None}]
    assert first == {"digest": record(ADA, "Ada").digest[:32], "chunks": 3, "size": 3, "origins": origins}
    assert [origin["source"] for origin in second["origins"]] == [BRUNO]


def test_a_bank_without_sources_lists_digests(mbc, make_bank, record):
    path = make_bank("b.mbc", record(ADA, "Ada"), keeps_origins=False)
    assert mbc("bank", "list", "--bank", path).stdout == f"3\t\t\t{record(ADA, 'Ada').digest[:12]}\n"
    assert "not kept" in mbc("bank", "info", "--bank", path).stdout
    listed = json.loads(mbc("bank", "list", "--bank", path, "--json").stdout)
    assert (listed["size"], listed["origins"]) == (None, [])


@pytest.fixture
def shards(make_bank, record):
    """Two banks that share a document."""
    return (
        make_bank("1.mbc", record("/a", "Ada"), record("/b", "Bruno")),
        make_bank("2.mbc", record("/c", "Clara"), record("/d", "Ada")),
    )


def test_a_bank_is_made_or_grows(mbc, shards):
    before = shards[1].read_bytes()
    assert "3 documents from 4 origins, 13 chunks" in mbc("bank", "merge", *shards, "--bank", "all.mbc").stdout
    summary = json.loads(mbc("bank", "merge", shards[1], "--bank", shards[0], "--json").stdout)
    assert (summary["documents"], summary["origins"], summary["chunks"]) == (3, 4, 13)
    assert shards[1].read_bytes() == before


def test_failed_merge_leaves_no_bank(refusal, shards, home):
    (home / "link.mbc").symlink_to(shards[0])
    assert "into itself" in refusal(2, "bank", "merge", shards[1], "link.mbc", "--bank", shards[0])
    assert "none.mbc" in refusal(5, "bank", "merge", shards[0], "none.mbc", "--bank", "all.mbc")
    assert not list(home.glob("all.mbc*"))


def test_damage_is_named_and_an_error(mbc, make_bank, record):
    intact = make_bank("made.mbc", *(record(f"/{number}", "x" * number) for number in range(1, 41)))
    result = mbc("bank", "verify", "--bank", intact)
    assert (result.stdout, result.stderr) == (f"{intact} is intact: 40 documents, 820 chunks.\n", "")
    with sqlite3.connect(intact) as connection:
        connection.execute("UPDATE codes SET data = CAST(zeroblob(length(data)) AS BLOB)")
    connection.close()
    result = mbc("bank", "verify", "--bank", intact, code=5)
    assert "block 1: the checksum of its codes does not match\n" in result.stdout
    assert f"{intact} is damaged in 3 places." in result.stderr
    report = json.loads(mbc("bank", "verify", "--bank", intact, "--json", code=5).stdout)
    assert report["ok"] is False
    assert [finding["where"] for finding in report["findings"]] == ["block 1", "counts", "blocks"]


def test_a_bank_goes_out_and_comes_back(mbc, small_bank, home):
    lines = mbc("bank", "export", "--bank", small_bank).stdout_bytes
    assert len(lines.splitlines()) == 4
    assert mbc("bank", "export", "-", "--bank", small_bank, "--json").stdout_bytes == lines
    summary = json.loads(mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--json").stdout)
    assert (summary["documents"], summary["sha256"]) == (2, hashlib.sha256(lines).hexdigest())
    assert (home / "e.jsonl").read_bytes() == lines
    assert "2 documents from 3 origins, 8 chunks" in mbc("bank", "import", "e.jsonl", "--bank", "new.mbc").stdout
    assert mbc("bank", "export", "--bank", "new.mbc").stdout_bytes == lines
    summary = json.loads(mbc("bank", "import", "-", "--bank", "newer.mbc", "--json", stdin=lines).stdout)
    assert (summary["imported"], summary["bank"]["documents"]) == (2, 2)


def test_a_file_is_replaced_only_by_force(mbc, refusal, small_bank, home):
    (home / "e.jsonl").write_text("mine")
    assert "--force" in refusal(2, "bank", "export", "e.jsonl", "--bank", small_bank)
    assert (home / "e.jsonl").read_text() == "mine"
    mbc("bank", "export", "e.jsonl", "--bank", small_bank, "--force")
    assert (home / "e.jsonl").read_bytes() == mbc("bank", "export", "--bank", small_bank).stdout_bytes


def test_unwritable_target_is_an_error(refusal, small_bank, home):
    os.mkfifo(home / "pipe")
    missing = "nowhere/e.jsonl cannot be written: no such file or directory"
    for name, message in (("pipe", "is not a file"), (".", "is not a file"), ("nowhere/e.jsonl", missing)):
        assert message in refusal(2, "bank", "export", name, "--bank", small_bank, "--force")


def test_a_bank_gets_another_model(mbc, bank, tiny, home, monkeypatch):
    overrides = ("gpt2", "bert", "model.codebook.codes=16")
    save_model(tiny.model(*overrides), tiny.config(*overrides), home / "other")
    reencode = engine.reencode

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        yield from reencode(*arguments, **options)

    command = ("bank", "reencode", "--bank", bank, "--model", home / "other", "--workers", 0)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "reencode", interrupted)
        stopped = mbc(*command, code=130)
    assert stopped.stdout == "" and "The bank is unchanged" in stopped.stderr
    assert mbc(*command).stdout.startswith("Re-encoded 2 documents, 2 chunks in ")
    with MemoryBank.open(bank, read_only=True) as memory:
        assert (memory.header.shape.num_codes, memory.totals().documents) == (16, 2)


def test_compacting_recodes_there_and_back(ingest, mbc, home, monkeypatch):
    def texts():
        info = json.loads(mbc("bank", "info", "--bank", "b.mbc", "--json").stdout)
        return info["text_model"], *(info["text_codecs"][codec]["texts"] for codec in ("lm", "zstd"))

    story = "The river rose in the night. The bridge held. Ada moved to Bergen, and nobody asked why. "
    monkeypatch.setattr("mbc_cli.commands.bank.text_model", StandIn(story * 2).open)
    (home / "0.txt").write_text(story)
    ingest("0.txt", "--bank", "b.mbc", "--text", "--codec", "zstd")
    before = mbc("bank", "export", "--bank", "b.mbc").stdout_bytes
    for codec, expected in (("lm", ("5eed" * 4, 1, 0)), ("zstd", (None, 0, 1))):
        compacted = mbc("bank", "compact", "--bank", "b.mbc", "--codec", codec, "--json")
        assert json.loads(compacted.stdout)["path"] == "b.mbc"
        assert texts() == expected
        assert mbc("bank", "export", "--bank", "b.mbc").stdout_bytes == before
