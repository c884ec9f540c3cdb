"""Answers of a retriever-reader: their source, their confidence, and what is shown when there is none."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mbc_cli.render import answer as render
from mbc_cli.render.answer import answer_json, confidence_words, show_answer
from mbc_engine.answer import Confidence
from tests.cli.ask.conftest import QUESTION
from tests.needs import embedded_encoder


def test_the_answer_its_place_and_the_other_sources(reply, source, capsys):
    ada, bruno = source("ada.txt", "Ada moved to Aalen."), source("bruno.md", "Bruno moved.", share=0.25)
    show_answer(reply("Aalen", ada, bruno))
    assert capsys.readouterr().out.splitlines() == [
        "Aalen",
        "82% confident (high), found in ada.txt",
        "   Ada moved to Aalen.",
        "",
        "Other sources:",
        "1. bruno.md  25%",
        "   Bruno moved.",
    ]


def test_a_terminal_links_to_the_file_and_obeys_nothing_in_its_name(reply, source, monkeypatch):
    console = Console(force_terminal=True, width=200, file=io.StringIO(), color_system="standard", highlight=False)
    monkeypatch.setattr(render, "out", console)
    hostile = source("a\x1b]8;;http:evil\x07.txt", "Ada moved.", line=3, date="2024-05-06")
    show_answer(reply("Aalen", hostile, source("gone.txt", None, state="gone", text_from="bank")))
    output = console.file.getvalue()
    assert re.findall(r"\x1b]8;[^;]*;([^\x1b]*)\x1b", output) == [Path(hostile.path).as_uri(), ""]
    assert "%1B%5D8" in output
    assert "found in \x1b" in output
    assert "a␛]8;;http:evil␇.txt:3" in output
    assert " (2024-05-06)" in output


def test_a_pipe_names_file_line_and_date(reply, source, capsys):
    show_answer(reply("Aalen", source("ada.txt", "Ada moved.", line=3, date="2024-05-06")))
    assert capsys.readouterr().out.splitlines()[1] == "82% confident (high), found in ada.txt:3 (2024-05-06)"


def test_an_answer_without_other_sources_ends_with_its_sentence(reply, source, capsys):
    show_answer(reply("Aalen", source("ada.txt", "Ada moved to Aalen.")))
    assert capsys.readouterr().out.splitlines()[-1] == "   Ada moved to Aalen."


def test_an_answer_may_name_no_source(reply, capsys):
    show_answer(reply("Aalen"))
    assert capsys.readouterr().out.splitlines() == ["Aalen", "82% confident (high)"]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("unchanged", "ada.txt"),
        ("unknown", "ada.txt"),
        ("changed", "ada.txt; the file has changed since"),
        ("gone", "ada.txt; the file no longer exists"),
        ("unreadable", "ada.txt; the file cannot be read"),
    ],
)
def test_an_answer_read_in_the_banks_copy_says_so(reply, source, capsys, state, expected):
    show_answer(reply("Aalen", source("ada.txt", "Ada moved to Aalen.", state=state, text_from="bank")))
    line = capsys.readouterr().out.splitlines()[1]
    assert line == f"82% confident (high), found in the bank's copy of {expected}"


def test_without_an_answer_the_closest_passages_follow(reply, source, capsys):
    ada = source("ada.txt", "Ada moved.", share=0.001, state="gone", text_from="bank")
    bruno = source("bruno.md", None, state="changed", passage=None, text_from=None, start=None)
    show_answer(reply(None, ada, bruno, probability=0.31, label="low"))
    assert capsys.readouterr().out.splitlines() == [
        "Not in this memory.",
        "",
        "Closest passages:",
        "1. ada.txt  <1%",
        "   Ada moved.",
        "   the file no longer exists; this is the bank's copy",
        "2. bruno.md  50%",
        "   the file has changed since",
    ]


def test_neither_answer_nor_source_is_one_line(reply, capsys):
    show_answer(reply(None, probability=0.0, label="low"))
    assert capsys.readouterr().out == "Not in this memory.\n"


def test_a_question_in_another_language_gets_a_note(reply, home, capsys):
    answer = replace(reply("Aalen"), question="Wohin ist Ada gezogen?")
    show_answer(answer)
    captured = capsys.readouterr()
    assert captured.out.startswith("Aalen\n")
    assert "does not seem to be in English. mini reads English only" in " ".join(captured.err.split())
    assert answer_json(answer, [home / "memory.mbc"], 0.0)["note"].startswith(
        "The question does not seem to be in English"
    )
    show_answer(replace(answer, asked="Where did Ada move?"))
    assert capsys.readouterr().err == ""


def test_json_of_an_answer(reply, source, home):
    ada = source("ada.txt", "Ada moved to Aalen.", date="2024-05-31", state="gone", text_from="bank")
    result = answer_json(reply("Aalen", ada, probability=0.82345678), [home / "memory.mbc"], 1.5)
    assert result == {
        "question": QUESTION,
        "asked": None,
        "note": None,
        "answer": "Aalen",
        "extracted": None,
        "written_by": None,
        "confidence": 0.8235,
        "label": "high",
        "gain": None,
        "sources": [
            {
                "path": str(home / "ada.txt"),
                "part": "",
                "share": 0.5,
                "ties": 0,
                "state": "gone",
                "sentence": "Ada moved to Aalen.",
                "text_from": "bank",
                "start": 0,
                "date": "2024-05-31",
                "bank": str(home / "memory.mbc"),
                "line": None,
            }
        ],
        "timings": {"model": 1.5, "search": 0.01, "answer": 0.2, "sources": 0.03},
        "bank": {
            "paths": [str(home / "memory.mbc")],
            "documents": 2,
            "chunks": 2,
            "sizes": {"codes": 54, "words": 40, "texts": 60, "codebook": 4096, "file": 8192},
        },
    }


def test_json_without_an_answer_has_the_confidence_in_the_one_withheld(reply, home):
    result = answer_json(reply(None, probability=0.31, label="low"), [home / "memory.mbc"], 1.5)
    assert (result["answer"], result["confidence"], result["label"]) == (None, 0.31, "low")


@pytest.mark.parametrize(
    ("probability", "label", "words"),
    [
        (0.999, "high", "99% confident (high)"),
        (0.5, "medium", "50% confident (medium)"),
        (0.0, "low", "0% confident (low)"),
        (0.881, "memory", "from memory (88% likely that the bank holds the answer)"),
    ],
)
def test_confidence_in_words(probability, label, words):
    assert confidence_words(Confidence(probability, label)).plain == words


@pytest.fixture
def mini_bank(mbc, notes, home):
    """A bank of the notes, made by the embedded model."""
    assert mbc("ingest", notes, "--bank", "mini.mbc", "--workers", 0).exit_code == 0
    return home / "mini.mbc"


@embedded_encoder
def test_answers_stay_when_the_files_go(mbc, mini_bank, notes):
    command = ("ask", "--bank", mini_bank, "--min-confidence", 0)

    def ask(question):
        answer = json.loads(mbc(*command, question, "--json").stdout)
        (first, second) = answer["sources"]
        source = (first["path"], first["sentence"], first["text_from"])
        return answer["answer"], answer["confidence"], *source, second["path"]

    before = ask(QUESTION)
    assert before[2:5] == (str(notes / "ada.txt"), "Ada moved to Aalen in the spring.", "file")
    (notes / "ada.txt").unlink()
    (notes / "bruno.md").write_text("Bruno stayed.")
    after = ask(QUESTION)
    assert after == (*before[:4], "bank", before[5])
    lines = mbc(*command, QUESTION).stdout.splitlines()
    assert lines[0] == before[0]
    assert lines[1].endswith("found in the bank's copy of notes/ada.txt; the file no longer exists")


@embedded_encoder
def test_without_text_only_the_files_can_be_read(mbc, notes, home):
    assert mbc("ingest", notes, "--bank", "codes.mbc", "--no-text", "--workers", 0).exit_code == 0
    command = ("ask", QUESTION, "--bank", "codes.mbc", "--min-confidence", 0)
    assert "found in notes/ada.txt" in mbc(*command).stdout
    for name in ("ada.txt", "bruno.md"):
        (notes / name).unlink()
    result = mbc(*command)
    assert (result.exit_code, result.stdout) == (5, "")
    assert result.stderr.startswith("Error: The text of the passages found is no longer available.")


@embedded_encoder
def test_a_model_that_reads_has_no_other_read(mbc, mini_bank):
    result = mbc("ask", QUESTION, "--bank", mini_bank, "--read", "flat")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: --read does not apply to mini")
    assert mbc("ask", QUESTION, "--bank", mini_bank, "--max-tokens", 1, "--beams", 3).exit_code == 0
