"""The examples run as they stand, in an empty folder, and do what their first lines say."""

import json
import runpy
import signal
import sys
from functools import cache, partial
from pathlib import Path

import pytest

from mbc_engine import load_model
from tests.needs import embedded_encoder
from tests.newswire import write_stories

pytestmark = embedded_encoder

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTED = {"batch", "evaluate", "follow", "read_bank", "remember", "train_tiny", "two_banks"}


load_once = cache(partial(load_model, reader="small"))  # which opens and answers faster


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs an example with arguments in an empty working folder; gives the lines it prints. Models are loaded once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mbc_engine.model.load_model", load_once)

    def run(name, *arguments):
        script = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(script, run_name="__main__")
        return capsys.readouterr().out.splitlines()

    handler = signal.getsignal(signal.SIGINT)
    yield run
    signal.signal(signal.SIGINT, handler)


def test_every_example_is_tested():
    assert {script.stem for script in EXAMPLES.glob("*.py")} == TESTED


@pytest.mark.slow
def test_remember(run):
    *_, answer, first, _, _ = run("remember")
    assert answer == "'Mara Lindqvist'"
    assert first.endswith("robots.md'")


def test_follow(run, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "one.txt").write_text("The mill burned down.")
    (folder / "two.pdf").write_bytes(b"%PDF-1.4")
    begins, skipped, *_, progress, done = run("follow", folder)
    assert begins == "2 files, 29 bytes"
    assert skipped.startswith(repr(str(folder / "two.pdf")))
    assert progress.endswith("1 documents, 0 unchanged")
    assert done.startswith("done: 1 documents take ")
    assert run("follow", folder)[-2].endswith("0 documents, 1 unchanged")


@pytest.mark.slow
def test_batch(run):
    lines = [json.loads(line) for line in run("batch")]
    assert [line["answer"] for line in lines[:2]] == ["Calder United", "340,000 crowns"]
    assert all(line["date"] >= "2026" for line in lines)


def test_two_banks(run):
    totals, cost, goal = run("two_banks")
    assert totals == "4 documents in two banks"
    assert cost.endswith("from city.mbc")
    assert goal == "'Tomas Reyne' from sport.mbc"


def test_read_bank(run):
    run("two_banks")
    first, text, *_ = run("read_bank", "sport.mbc")
    assert Path(first.split()[1]).parent.name == "sport"
    assert text.strip().startswith("0: ")


@pytest.mark.slow
def test_train_tiny(run, tmp_path, tiny_llama):
    lines = run("train_tiny", write_stories(tmp_path / "news.jsonl", 36), tiny_llama)
    assert lines[0].startswith("step 1: loss ")
    assert lines[-1].startswith("unseen news: the right one of 8 documents is found for ")
    assert (tmp_path / "tiny-run" / "model" / "config.toml").is_file()


@pytest.mark.slow
def test_evaluate(run, tmp_path):
    questions, match, source, size = run("evaluate", write_stories(tmp_path / "news.jsonl", 3))
    assert questions.endswith(" questions about 3 stories")
    assert float(match.split("exact match ")[1].split("%")[0]) > 20
    assert float(source.split("first ")[1].split("%")[0]) > 80
    assert size.startswith("the bank takes ")
