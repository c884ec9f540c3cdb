import json
import sqlite3

import pytest

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
        *(
            "; smaller from 28,672 documents on\n",
            "index       28.7 kB\n",
        ),  # all but the codes of a file of seven pages
    ):
        assert expected in output
    info = json.loads(mbc("bank", "info", "--json").stdout)
    assert (info["path"], info["documents"], info["origins"], info["chunks"]) == (str(small_bank), 2, 3, 8)
    assert (info["sizes"]["codes"], info["sizes"]["codebook"], info["float32_bytes"]) == (6, 96, 192)
    assert (info["codes"]["bits_per_chunk"], info["keeps_sources"], info["keeps_text"]) == (6, True, False)
    assert info["model"]["fingerprint"] in output


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
    result = mbc("bank", "merge", *shards, "--bank", "all.mbc")
    assert result.exit_code == 0
    assert "3 documents from 4 origins, 13 chunks" in result.stdout
    summary = json.loads(mbc("bank", "merge", shards[1], "--bank", shards[0], "--json").stdout)
    assert (summary["documents"], summary["origins"], summary["chunks"]) == (3, 4, 13)
    assert shards[1].read_bytes() == before


def test_failed_merge_leaves_no_bank(refusal, shards, home):
    (home / "link.mbc").symlink_to(shards[0])
    assert "into itself" in refusal(2, "bank", "merge", shards[1], "link.mbc", "--bank", shards[0])
    assert "none.mbc" in refusal(5, "bank", "merge", shards[0], "none.mbc", "--bank", "all.mbc")
    assert not list(home.glob("all.mbc*"))


@pytest.fixture
def intact(make_bank, record):
    return make_bank("made.mbc", *(record(f"/{number}", "x" * number) for number in range(1, 41)))


def test_damage_is_named_and_an_error(mbc, intact):
    result = mbc("bank", "verify", "--bank", intact)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{intact} is intact: 40 documents, 820 chunks.\n"
    with sqlite3.connect(intact) as connection:
        connection.execute("UPDATE codes SET data = CAST(zeroblob(length(data)) AS BLOB)")
    connection.close()
    result = mbc("bank", "verify", "--bank", intact)
    assert result.exit_code == 5
    assert "block 1: the checksum of its codes does not match\n" in result.stdout
    assert f"{intact} is damaged in 3 places." in result.stderr
    result = mbc("bank", "verify", "--bank", intact, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"]) == (5, False)
    assert [finding["where"] for finding in report["findings"]] == ["block 1", "counts", "blocks"]
