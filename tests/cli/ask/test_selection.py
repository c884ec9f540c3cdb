"""Selecting the documents to ask: by date, age and path."""

import json

import pytest

from tests.cli.ask.conftest import QUESTION


@pytest.fixture
def dated(ingest, home):
    """A bank of three documents that differ only in their dates."""
    rows = [("a", "2022-02-28"), ("b", "2023-06-15"), ("c", "2024-01-01")]
    (home / "[x]").mkdir()
    (home / "[x]" / "rows.jsonl").write_text(
        "".join(json.dumps({"id": name, "date": date, "text": "Ada moved to Aalen."}) + "\n" for name, date in rows)
    )
    assert ingest("[x]", "--bank", "dated.mbc").exit_code == 0
    return "dated.mbc"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), "abc"),
        (("--since", "2023-06-15"), "bc"),
        (("--since", "2023-06-16"), "c"),
        (("--since", "2023"), "bc"),
        (("--as-of", "2023"), "ab"),
        (("--as-of", "2022-02"), "a"),
        (("--since", "2023-01", "--as-of", "2023-6"), "b"),
        (("--only", "#a"), ""),
        (("--only", "*#a", "--only", "*#b"), "ab"),
        (("--exclude", "*#a"), "bc"),
        (("--only", "[x]/rows.jsonl"), "abc"),
        (("--only", "./[x]"), "abc"),
        (("--exclude", "[x]/rows.jsonl#b"), "ac"),
        (("--only", "./[x]/rows.jsonl#*"), "abc"),
        (("--only", "./[[]x]/rows.jsonl"), "abc"),
        (("--only", "./[[]x]/*#b"), "b"),
        (("--exclude", "../*/*/rows.jsonl#c"), "ab"),
    ],
)
def test_documents_are_chosen_by_date_and_path(mbc, dated, model, says, options, found):
    says("Aalen")
    result = mbc("ask", QUESTION, "--bank", dated, "--model", model, "--json", *options)
    if found:
        assert "".join(sorted(source["part"] for source in json.loads(result.stdout)["sources"])) == found
    else:
        assert result.exit_code == 5
        assert "--only" in result.stderr


def test_a_place_is_taken_literally(mbc, dated, model, says, home, monkeypatch):
    says("Aalen")
    (home / "link").symlink_to(home / "[x]")
    monkeypatch.setenv("HOME", str(home))
    for folder, pattern in (("[x]", "./rows.jsonl"), (".", "~/link/"), (".", str(home / "link")), ("link", ".")):
        monkeypatch.chdir(home / folder)
        result = mbc("ask", QUESTION, "--bank", home / dated, "--model", model, "--json", "--only", pattern)
        assert len(json.loads(result.stdout)["sources"]) == 3, pattern


@pytest.mark.parametrize(("time", "days"), [("30", 30), ("1.5d", 1.5), ("2w", 14), ("1m", 30), ("1 y", 365)])
def test_a_half_life_weighs_by_age(mbc, dated, model, says, time, days):
    says("Aalen")
    command = ("ask", QUESTION, "--bank", dated, "--model", model, "--as-of", "2024-01-01", "--json")
    result = mbc(*command, "--since", "2023", "--half-life", time, "--read", "routed:2")
    shares = {source["part"]: source["share"] for source in json.loads(result.stdout)["sources"]}
    assert shares["b"] / shares["c"] == pytest.approx(0.5 ** (200 / days), rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        ("--since", "tomorrow"),
        ("--since", "2024-13"),
        ("--as-of", "2023-02-29"),
        ("--since", "2024", "--as-of", "2023"),
        ("--half-life", "soon"),
        ("--half-life", "0d"),
        ("--only", "!a"),
        ("--exclude", "/"),
    ],
)
def test_an_invalid_selection_is_an_error_before_any_model_is_loaded(mbc, bank, options):
    result = mbc("ask", QUESTION, "--bank", bank, "--model", "no-such-model", *options)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2


def test_ties_are_shown(mbc, dated, model, says):
    says("Aalen")
    lines = mbc("ask", QUESTION, "--bank", dated, "--model", model, "--sources", 1).stdout.splitlines()
    assert lines[3] == "1. [x]/rows.jsonl#a  33%  2022-02-28  tied with 2 others"
