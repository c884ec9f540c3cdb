import json

import pytest


@pytest.fixture
def show(mbc, bank):
    """Show a document as JSON."""

    def run(name, bank=bank):
        result = mbc("bank", "show", name, "--bank", bank, "--json")
        assert result.exit_code == 0
        return list(map(json.loads, result.stdout.splitlines()))

    return run


def test_everything_about_a_document_is_shown(mbc, bank):
    lines = mbc("bank", "show", "notes/ada.txt", "--bank", bank).stdout.splitlines()
    assert lines[0].startswith("read from  notes/ada.txt, ")
    assert lines[0].endswith(", unchanged")
    assert lines[2:] == ["bytes      49", "chunks     1, 2 bytes of codes"]


def test_codes_are_shown_on_demand(mbc, make_bank, record):
    path = make_bank("b.mbc", record("/ada.txt", "Ada"))
    lines = mbc("bank", "show", "/ada.txt", "--bank", path, "--codes").stdout.splitlines()
    assert lines[-3:] == ["     1  0 0", "     2  1 1", "     3  2 2"]


def test_show_part_or_file(show, make_bank, record):
    path = make_bank("rows.mbc", record("/rows.jsonl", "Ada", "a#1"), record("/rows.jsonl", "Bruno", "b"))
    for name, parts in (("/rows.jsonl#a#1", ["a#1"]), ("/rows.jsonl", ["a#1", "b"])):
        assert sorted(found["origins"][0]["part"] for found in show(name, path)) == parts


def test_a_digest_prefix_is_enough_of_a_name(mbc, bank, show):
    (whole,) = show("notes/ada.txt")
    for digits in (whole["digest"][:6], whole["digest"].upper(), whole["digest"] + "00"):
        assert show(digits) == [whole]
    assert mbc("bank", "show", whole["digest"][:5], "--bank", bank).exit_code == 5


@pytest.mark.parametrize(("write", "state"), [("Ada stayed.", "changed"), ("", "unreadable"), (None, "gone")])
def test_the_file_is_compared(show, notes, write, state):
    if write is None:
        (notes / "ada.txt").unlink()
    else:
        (notes / "ada.txt").write_text(write)
    (document,) = show("notes/ada.txt")
    assert document["origins"][0]["state"] == state


@pytest.mark.parametrize("name", ["nobody.txt", "notes/ada.txt#3", "abcdef012345", "", "\udcff", "#"])
def test_an_unknown_name_is_an_error(mbc, bank, name):
    result = mbc("bank", "show", name, "--bank", bank)
    assert (result.exit_code, result.stdout) == (5, "")
    assert "mbc bank list" in result.stderr


def test_path_without_sources_is_an_error(mbc, make_bank, record):
    path = make_bank("b.mbc", record("/ada.txt", "Ada"), keeps_origins=False)
    result = mbc("bank", "show", "/ada.txt", "--bank", path)
    assert result.exit_code == 5
    assert "by their digests" in result.stderr
