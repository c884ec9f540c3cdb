import json
import stat

import pytest

from mbc_engine.bank.exchange import Proof


@pytest.fixture
def rows(make_bank, record):
    """Three rows of a file, the first of them also a separate file."""
    return make_bank(
        "rows.mbc",
        *(record("/rows.jsonl", content, str(number)) for number, content in enumerate(["Ada", "Bruno", "Clara"])),
        record("/ada.txt", "Ada"),
    )


def _names(mbc, path):
    return [line.split("\t")[3] for line in mbc("bank", "list", "--bank", path).stdout.splitlines()]


@pytest.mark.parametrize("name", ["notes/ada.txt", "link.txt"])
def test_relative_paths_and_links_are_taken(mbc, bank, home, notes, name):
    (home / "link.txt").symlink_to(notes / "ada.txt")
    removed = mbc("bank", "remove", name, "--bank", bank)
    assert removed.stdout == "Removed 1 document; the bank holds 1 document, 1 chunk.\n"
    assert _names(mbc, bank) == ["notes/bruno.md"]


def test_remove_by_digest(mbc, rows, record):
    digest = record("", "Ada").digest
    summary = json.loads(mbc("bank", "remove", digest[:6], "--bank", rows, "--json").stdout)
    assert summary["removed"] == {"documents": 1, "origins": 2, "chunks": 3}
    assert (summary["bank"]["documents"], summary["bank"]["origins"], summary["proof"]) == (2, 2, None)


def test_a_proof_that_fails_is_an_error(mbc, rows, record, monkeypatch):
    summary = json.loads(mbc("bank", "remove", record("", "Bruno").digest, "--bank", rows, "--prove", "--json").stdout)
    assert summary["removed"]["documents"] == 1
    assert (summary["proof"]["holds"], summary["proof"]["traces"], summary["proof"]["removed"]) == (True, 0, 1)
    monkeypatch.setattr("mbc_engine.bank.exchange.remove_with_proof", lambda *arguments: Proof(1, "aa", "aa", 1))
    result = mbc("bank", "remove", "/ada.txt", "--bank", rows, "--prove")
    assert result.exit_code == 5
    assert "1 of 1 removed digest found" in result.stdout
    assert "FAILED" in result.stdout
    assert "Could not prove that no trace is left" in result.stderr


def test_remaining_file_is_noted(mbc, bank, notes, ingest):
    removed = mbc("bank", "remove", "notes/ada.txt", "--bank", bank)
    assert removed.stderr.splitlines()[1] == (
        "notes/ada.txt still exists: the next ingest of the folder will bring it back. Use --ignore to keep it out."
    )
    assert ingest(notes, "--bank", bank).exit_code == 0
    both = mbc("bank", "remove", "notes/ada.txt", "notes/bruno.md", "--bank", bank)
    assert both.stderr.splitlines()[1].startswith("2 files still exist: the next ingest of the folder will bring them")


def test_a_removed_file_can_be_kept_out(mbc, ingest, bank, notes):
    (notes / ".mbcignore").write_text("*.tmp")
    assert mbc("bank", "remove", "notes/ada.txt", "--bank", bank).exit_code == 0
    removed = mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore")
    assert removed.stdout.splitlines()[1:] == ["Added /ada.txt to notes/.mbcignore."]
    assert (removed.stderr, (notes / ".mbcignore").read_text()) == ("", "*.tmp\n/ada.txt\n")
    assert ingest(notes, "--bank", bank).exit_code == 0
    assert _names(mbc, bank) == ["notes/bruno.md"]
    summary = json.loads(mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore", "--json").stdout)
    rule = {"path": str(notes / "ada.txt"), "file": str(notes / ".mbcignore"), "added": None}
    assert (summary["removed"]["documents"], summary["ignored"]) == (0, [rule])
    result = mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore")
    assert result.stdout.splitlines()[1:] == ["notes/.mbcignore already leaves out ada.txt."]


def test_the_last_removal_can_be_undone_once(mbc, rows):
    assert mbc("bank", "remove", "/ada.txt", "--bank", rows).exit_code == 0
    before = mbc("bank", "export", "--bank", rows).stdout
    removed = mbc("bank", "remove", "/rows.jsonl", "--bank", rows)
    assert removed.stderr.startswith("`mbc bank undo` restores it;")
    undone = mbc("bank", "undo", "--bank", rows)
    assert undone.stdout.startswith("Restored 3 documents; the bank holds 3 documents, ")
    assert mbc("bank", "export", "--bank", rows).stdout == before
    again = mbc("bank", "undo", "--bank", rows)
    assert (again.exit_code, again.stdout) == (5, "")
    assert f"No removal from {rows} can be undone." in again.stderr


@pytest.mark.parametrize("how", [("compact",), ("remove", "/ada.txt", "--prove")], ids=" ".join)
def test_deleting_the_undo_file(mbc, rows, how):
    assert mbc("bank", "remove", "/rows.jsonl", "--bank", rows).exit_code == 0
    kept = rows.with_name("rows.mbc.removed")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert mbc("bank", *how, "--bank", rows).exit_code == 0
    assert not kept.exists()


def test_a_row_alone_cannot_be_ignored(mbc, ingest, home):
    (home / "a.csv").write_text("id,text\n1,Ada\n2,Bruno\n")
    assert ingest("a.csv", "--bank", "b.mbc").exit_code == 0
    refused = mbc("bank", "remove", "a.csv#1", "--bank", "b.mbc", "--ignore")
    assert refused.exit_code == 2
    assert "--ignore works on whole files" in refused.stderr
    assert len(_names(mbc, "b.mbc")) == 2
    assert mbc("bank", "remove", "a.csv", "--bank", "b.mbc", "--ignore").exit_code == 0
    assert (home / ".mbcignore").read_text() == "/a.csv\n"
