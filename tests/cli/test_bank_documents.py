"""The documents of a bank by their names: shown, removed and restored."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.bank.exchange import Proof
from mbc_engine.text import Chunk, read_file


@pytest.fixture
def show(mbc, bank):
    """Show a document as JSON."""

    def run(name, bank=bank):
        return list(map(json.loads, mbc("bank", "show", name, "--bank", bank, "--json").stdout.splitlines()))

    return run


def test_everything_about_a_document_is_shown(mbc, bank, home):
    lines = mbc("bank", "show", "notes/ada.txt", "--bank", bank).stdout.splitlines()
    assert lines[0].startswith("read from  notes/ada.txt, ")
    assert lines[0].endswith(", unchanged")
    assert lines[2:] == ["bytes      49", "chunks     1, 2 bytes of codes", "", (home / "notes/ada.txt").read_text()]


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_whole_text_is_shown(mbc, show, make_bank, home, is_kept):
    """That of the bank if the file is gone, in which white space between chunks is not exact."""
    path = home / "b.txt"
    path.write_text(text := "One \t two.\n\nThree\x1b.")
    (read,) = read_file(path)
    with MemoryBank.open(make_bank("empty.mbc"), read_only=True) as empty:
        header = replace(empty.header, keeps_text=True)
    bank = home / "b.mbc"
    with MemoryBank.open(bank, create=header) as made:
        chunks = [Chunk("One \t two.", 0), Chunk("Three\x1b.", 12)]
        made.put([StoredDocument.of(read, np.zeros((2, 2, 1), np.int64), chunks)])
    if not is_kept:
        path.unlink()
    (document,) = show("b.txt", bank)
    assert (document["text"], document["losses"]) == (text, [] if is_kept else None)
    assert mbc("bank", "show", "b.txt", "--bank", bank).stdout.splitlines()[-3:] == ["One   two.", "", "Three␛."]


def test_few_of_many_places_are_looked_at(mbc, show, make_bank, record, home, monkeypatch):
    monkeypatch.setattr("mbc_cli.render.bank._LOOKED_AT", 2)
    path = make_bank("b.mbc", *(record(f"{home}/{name}.txt", "Ada") for name in "abcd"))
    lines = mbc("bank", "show", f"{home}/a.txt", "--bank", path).stdout.splitlines()
    assert [line.split("  ", 1)[1].strip() for line in lines[1:3]] == ["b.txt, gone", "and 2 more, which --json lists"]
    (document,) = show(f"{home}/a.txt", path)
    assert [origin["state"] for origin in document["origins"]] == ["gone", "gone", "unknown", "unknown"]


def test_ways_to_name_a_file(mbc, refusal, show, make_bank, record, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    places = [f"{home}/a/x.txt", f"{home}/b/x.txt", f"{home}/b/deep/-y z.txt", f"{home}/b/rows.csv"]
    path = make_bank("b.mbc", *(record(place, place, "7" * place.endswith("csv")) for place in places))

    def found(name):
        return [document["origins"][0]["source"].removeprefix(f"{home}/") for document in show(name, path)]

    for name in ("a/x.txt", "~/a/x.txt", f"{home}/a/../a/x.txt", "a"):
        assert found(name) == ["a/x.txt"]
    for name in ("-y z.txt", "deep/-y z.txt"):
        assert found(f"./{name}" if name[0] == "-" else name) == ["b/deep/-y z.txt"]
    assert found("rows.csv#7") == found("rows.csv") == ["b/rows.csv"]
    assert found("b/") == ["b/deep/-y z.txt", "b/rows.csv", "b/x.txt"]
    several = refusal(5, "bank", "show", "x.txt", "--bank", path)
    assert f"2 files of {path} end with x.txt" in several
    assert f"{home}/a/x.txt, {home}/b/x.txt" in several
    refusal(5, "bank", "remove", "x.txt", "--bank", path)  # removing takes no ends
    mbc("bank", "remove", "b/", "--bank", path)
    assert found("x.txt") == ["a/x.txt"]


def test_a_digest_prefix_is_enough_of_a_name(refusal, bank, show):
    (whole,) = show("notes/ada.txt")
    for digits in (whole["digest"][:6], whole["digest"].upper(), whole["digest"] + "00"):
        assert show(digits) == [whole]
    refusal(5, "bank", "show", whole["digest"][:5], "--bank", bank)


@pytest.mark.parametrize("name", ["nobody.txt", "notes/ada.txt#3", "abcdef012345", "", "\udcff", "#"])
def test_an_unknown_name_is_an_error(refusal, bank, name):
    assert "mbc bank list" in refusal(5, "bank", "show", name, "--bank", bank)


def test_a_name_is_taken_as_lists_show_it(mbc, refusal, show, make_bank, record, home):
    names = "red\x1b[31m.txt", "a\tb.txt", "a\nb.txt", "Tu\u0308r.txt"
    path = make_bank("b.mbc", *(record(f"{home.resolve()}/{name}", name, "7") for name in names))
    listed = [line.split("\t")[-1] for line in mbc("bank", "list", "--bank", path).stdout.splitlines()]
    assert sorted(listed) == ["Tu\u0308r.txt#7", "a b.txt#7", "a b.txt#7", "red␛[31m.txt#7"]
    for composed in ("T\u00fcr.txt", f"{home}/T\u00fcr.txt"):
        (document,) = show(composed, path)
        assert document["origins"][0]["source"] == f"{home.resolve()}/{names[3]}"
    for shown in ("red␛[31m.txt#7", "red␛[31m.txt", f"{home}/red␛[31m.txt"):
        assert [document["origins"][0]["source"] for document in show(shown, path)] == [f"{home.resolve()}/{names[0]}"]
    refusal(5, "bank", "remove", "a b.txt", "--bank", path)  # which of both is unknown
    mbc("bank", "remove", "red␛[31m.txt", "--bank", path)


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


def test_a_link_is_taken_for_its_file(mbc, bank, home, notes):
    (home / "link.txt").symlink_to(notes / "ada.txt")
    removed = mbc("bank", "remove", "link.txt", "--bank", bank)
    assert removed.stdout == "Removed 1 document; the bank holds 1 document, 1 chunk.\n"
    assert _names(mbc, bank) == ["notes/bruno.md"]


@pytest.mark.parametrize("unknown", ["nobody.txt", "abcdef012345"])
def test_all_is_refused_when_one_is_unknown(mbc, refusal, rows, unknown):
    assert unknown in refusal(5, "bank", "remove", "/ada.txt", unknown, "--bank", rows)
    assert len(_names(mbc, rows)) == 4


def test_removal_by_digest_and_its_proof(mbc, rows, record, monkeypatch):
    digest = record("", "Ada").digest
    summary = json.loads(mbc("bank", "remove", digest[:6], "--bank", rows, "--prove", "--json").stdout)
    assert summary["removed"] == {"documents": 1, "origins": 2, "chunks": 3}
    assert (summary["bank"]["documents"], summary["bank"]["origins"]) == (2, 2)
    assert (summary["proof"]["holds"], summary["proof"]["traces"], summary["proof"]["removed"]) == (True, 0, 1)
    monkeypatch.setattr("mbc_engine.bank.exchange.remove_with_proof", lambda *arguments: Proof(1, "aa", "aa", 1))
    result = mbc("bank", "remove", "/rows.jsonl#1", "--bank", rows, "--prove", code=5)
    assert "1 of 1 removed digest found" in result.stdout
    assert "FAILED" in result.stdout
    assert "Could not prove that no trace is left" in result.stderr


def test_remaining_file_is_noted(mbc, bank, notes, ingest):
    removed = mbc("bank", "remove", "notes/ada.txt", "--bank", bank)
    assert removed.stderr.splitlines()[1] == (
        "notes/ada.txt still exists: the next ingest of the folder will bring it back. Use --ignore to keep it out."
    )
    ingest(notes, "--bank", bank)
    both = mbc("bank", "remove", "notes/ada.txt", "notes/bruno.md", "--bank", bank)
    assert both.stderr.splitlines()[1].startswith("2 files still exist: the next ingest of the folder will bring them")


def test_a_removed_file_can_be_kept_out(mbc, ingest, bank, notes):
    (notes / ".mbcignore").write_text("*.tmp")
    mbc("bank", "remove", "notes/ada.txt", "--bank", bank)
    removed = mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore")
    assert removed.stdout.splitlines()[1:] == ["Added /ada.txt to notes/.mbcignore."]
    assert (removed.stderr, (notes / ".mbcignore").read_text()) == ("", "*.tmp\n/ada.txt\n")
    ingest(notes, "--bank", bank)
    assert _names(mbc, bank) == ["notes/bruno.md"]
    summary = json.loads(mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore", "--json").stdout)
    rule = {"path": str(notes / "ada.txt"), "file": str(notes / ".mbcignore"), "added": None}
    assert (summary["removed"]["documents"], summary["ignored"], summary["proof"]) == (0, [rule], None)
    result = mbc("bank", "remove", "notes/ada.txt", "--bank", bank, "--ignore")
    assert result.stdout.splitlines()[1:] == ["notes/.mbcignore already leaves out ada.txt."]


def test_the_last_removal_can_be_undone_once(mbc, refusal, rows):
    mbc("bank", "remove", "/ada.txt", "--bank", rows)
    before = mbc("bank", "export", "--bank", rows).stdout
    assert mbc("bank", "remove", "/rows.jsonl", "--bank", rows).stderr.startswith("`mbc bank undo` restores it;")
    undone = mbc("bank", "undo", "--bank", rows).stdout
    assert undone.startswith("Restored 3 documents; the bank holds 3 documents, ")
    assert mbc("bank", "export", "--bank", rows).stdout == before
    assert f"No removal from {rows} can be undone." in refusal(5, "bank", "undo", "--bank", rows)


def test_a_row_alone_cannot_be_ignored(mbc, refusal, ingest, home):
    (home / "a.csv").write_text("id,text\n1,Ada\n2,Bruno\n")
    ingest("a.csv", "--bank", "b.mbc")
    assert "--ignore works on whole files" in refusal(2, "bank", "remove", "a.csv#1", "--bank", "b.mbc", "--ignore")
    assert len(_names(mbc, "b.mbc")) == 2
    mbc("bank", "remove", "a.csv", "--bank", "b.mbc", "--ignore")
    assert (home / ".mbcignore").read_text() == "/a.csv\n"
