"""`mbc demo`: what it asks, shows and leaves, with a memory that always gives the same answer."""

import json

import pytest

from tests.cli.stub_memory import answer, ingested, source
from tests.needs import embedded_encoder


@pytest.fixture
def says(memory):
    """Makes the memory give this answer to everything."""

    def say(text):
        memory.events = ingested(10)
        memory.reply = lambda question: answer(text, source("/tmp/01-a.txt"))

    return say


def test_demo(mbc, memory, home, says, monkeypatch):
    says("Lynn Jorgensen")
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    (home / "tmp").mkdir()
    result = mbc("demo")
    assert not list((home / "tmp").iterdir())
    assert result.stdout.count("\n? ") == 10
    assert result.stdout.count("\n  answer      Lynn Jorgensen  wrong\n") == 9
    assert "\n  answer      Lynn Jorgensen  right\n  expected    Lynn Jorgensen\n" in result.stdout
    assert "\n  source      01-a.txt  another file\n" in result.stdout
    assert "Answers: 1 right, 9 wrong, 0 not answered.\nSources: 0 of 10 right.\n" in result.stdout
    assert "With the files deleted, the same answers from the bank alone: 10 of 10.\n" in result.stdout
    assert "mbc ingest ./your-notes" in result.stdout
    assert "ingest" in result.stderr
    assert len(memory.batches) == 20


def test_withheld_answers(mbc, says):
    says(None)
    output = mbc("demo").stdout
    assert output.count("\n  answer      Not in this memory.  not answered\n") == 10
    counts = {"right": 0, "wrong": 0, "not_answered": 10, "right_sources": 0, "same_without_files": 10}
    assert json.loads(mbc("demo", "--json").stdout)["counts"] == counts


@pytest.mark.slow
@embedded_encoder
def test_mini_answers_from_the_bank_alone(mbc):
    counts = json.loads(mbc("demo", "--json").stdout)["counts"]
    assert counts["same_without_files"] == 10
    assert counts["right_sources"] >= 9


def test_a_folder_is_kept(mbc, memory, home, says):
    says("Lynn Jorgensen")
    mbc("demo", "--keep", "kept")
    assert [str(path) for path in memory.paths] == ["kept/demo.mbc"]
    assert len([*(home / "kept" / "stories").iterdir()]) == 10
