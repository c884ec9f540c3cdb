import json
from dataclasses import replace

import numpy as np
import pytest

from mbc_engine.bank import MemoryBank, StoredDocument
from mbc_engine.text import Chunk, read_file


@pytest.fixture
def show(mbc, bank):
    """Show a document as JSON."""

    def run(name, bank=bank):
        result = mbc("bank", "show", name, "--bank", bank, "--json")
        assert result.exit_code == 0
        return list(map(json.loads, result.stdout.splitlines()))

    return run


def test_everything_about_a_document_is_shown(mbc, bank, home):
    lines = mbc("bank", "show", "notes/ada.txt", "--bank", bank).stdout.splitlines()
    assert lines[0].startswith("read from  notes/ada.txt, ")
    assert lines[0].endswith(", unchanged")
    text = (home / "notes/ada.txt").read_text()
    assert lines[2:] == ["bytes      49", "chunks     1, 2 bytes of codes", "", text]


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


def test_ways_to_name_a_file(mbc, show, make_bank, record, home, monkeypatch):
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
    several = mbc("bank", "show", "x.txt", "--bank", path)
    assert several.exit_code == 5
    assert f"2 files of {path} end with x.txt" in several.stderr
    assert f"{home}/a/x.txt, {home}/b/x.txt" in several.stderr
    assert mbc("bank", "remove", "x.txt", "--bank", path).exit_code == 5  # removing takes no ends
    assert mbc("bank", "remove", "b/", "--bank", path).exit_code == 0
    assert found("x.txt") == ["a/x.txt"]


def test_a_digest_prefix_is_enough_of_a_name(mbc, bank, show):
    (whole,) = show("notes/ada.txt")
    for digits in (whole["digest"][:6], whole["digest"].upper(), whole["digest"] + "00"):
        assert show(digits) == [whole]
    assert mbc("bank", "show", whole["digest"][:5], "--bank", bank).exit_code == 5


@pytest.mark.parametrize("name", ["nobody.txt", "notes/ada.txt#3", "abcdef012345", "", "\udcff", "#"])
def test_an_unknown_name_is_an_error(mbc, bank, name):
    result = mbc("bank", "show", name, "--bank", bank)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "mbc bank list" in result.stderr


def test_few_of_many_places_are_looked_at(mbc, show, make_bank, record, home, monkeypatch):
    monkeypatch.setattr("mbc_cli.render.bank._LOOKED_AT", 2)
    path = make_bank("b.mbc", *(record(f"{home}/{name}.txt", "Ada") for name in "abcd"))
    lines = mbc("bank", "show", f"{home}/a.txt", "--bank", path).stdout.splitlines()
    assert [line.split("  ", 1)[1].strip() for line in lines[1:3]] == ["b.txt, gone", "and 2 more, which --json lists"]
    (document,) = show(f"{home}/a.txt", path)
    assert [origin["state"] for origin in document["origins"]] == ["gone", "gone", "unknown", "unknown"]
