"""How an answer and its sources are shown: in a pipe, on a terminal, as JSON and in an editor."""

import io
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mbc_cli.render import answer as render
from mbc_cli.render.answer import answer_json, confidence_words, open_file, show_answer
from mbc_engine.answer import AnswerItem, Confidence
from mbc_engine.errors import DataError
from tests.cli.stub_memory import answer, source


def test_link_to_a_file_with_a_hostile_name(monkeypatch):
    console = Console(force_terminal=True, width=200, file=io.StringIO(), color_system="standard", highlight=False)
    monkeypatch.setattr(render, "out", console)
    hostile = source("/a\x1b]8;;http:evil\x07.txt", "Ada moved.", line=3, date="2024-05-06")
    show_answer(answer("Aalen", hostile, source("gone.txt", None, state="gone", text_from="bank")))
    output = console.file.getvalue()
    assert re.findall(r"\x1b]8;[^;]*;([^\x1b]*)\x1b", output) == [Path(hostile.path).as_uri(), ""]
    assert "%1B%5D8" in output
    assert "a␛]8;;http:evil␇.txt:3" in output
    assert " (2024-05-06)" in output


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "/notes/ada.txt"),
        ({"line": 3, "date": "2024-05-06"}, "/notes/ada.txt:3 (2024-05-06)"),
        ({"line": 3, "part": "7"}, "/notes/ada.txt#7"),
        ({"page": 3, "part": "7"}, "/notes/ada.txt, page 3"),
        ({"others": ("/a", "/b#1")}, "/notes/ada.txt and 2 other places"),
        ({"text_from": "bank", "state": "gone"}, "the bank's copy of /notes/ada.txt; the file no longer exists"),
    ],
)
def test_an_answer_says_where_it_was_found(capsys, changes, shown):
    show_answer(answer("Aalen", source(**changes)))
    assert capsys.readouterr().out == f"Aalen\n82% confident (high), found in {shown}\n   Ada moved to Aalen.\n"


def test_a_runner_up(capsys):
    days = source("a.txt", "Opened on Friday.", line=2), source("b.txt", "Open from Sunday.")
    items = tuple(map(AnswerItem, ("Friday", "Sunday"), days))
    show_answer(answer("Friday", *days, items=items, tentative=True))
    shown = ["Perhaps: Friday, or: Sunday", "   Opened on Friday.", "   found in a.txt:2", "   Open from Sunday."]
    assert capsys.readouterr().out.splitlines() == [*shown, "   found in b.txt", "82% confident (high)"]


def test_an_answer_of_several_parts(capsys):
    lamps = source("bring.md", "a lamp", line=2)
    ropes = source("more.md", "- ropes", line=7)
    items = tuple(AnswerItem(text, each) for text, each in (("a lamp", lamps), ("ropes", ropes)))
    one = (AnswerItem("Ada stays.", replace(lamps, sentence="Ada stays.")),)
    show_answer(answer("a lamp and ropes", lamps, source("other.md"), items=items, confidence=None))
    show_answer(answer("No", lamps, items=one, confidence=None))
    show_answer(answer("a lamp and ropes", items=items, tentative=True))
    parts = ["• a lamp", "   found in bring.md:2", "• ropes", "   - ropes", "   found in more.md:7"]
    parts.append("There may be more in this memory.")
    others = ["", "Other sources:", "1. other.md  50%", "   Ada moved to Aalen."]
    single = ["No", "   Ada stays.", "   found in bring.md:2"]
    shown = [*parts, *others, *single, "Perhaps:", *parts, "82% confident (high)"]
    assert capsys.readouterr().out.splitlines() == shown


def test_a_worked_out_figure(capsys):
    rows = [source("boats.csv", f"{name}: Iver", line=line) for name, line in (("Solvej", 2), ("Tern", 5))]
    made = answer("2", *rows, items=tuple(AnswerItem("2", row) for row in rows), confidence=None)
    show_answer(made)
    shown = ["2", "   Solvej: Iver", "   found in boats.csv:2", "   Tern: Iver", "   found in boats.csv:5"]
    assert capsys.readouterr().out.splitlines() == shown
    elsewhere = replace(made, items=(made.items[0], AnswerItem("2", replace(rows[1], path="more.csv"))))
    assert (render.answer_lines(elsewhere), render.more_note(elsewhere)) == (["2"], None)


def test_closest_passages(capsys):
    ada = source("ada.txt", "Ada moved.", share=0.001, state="gone", text_from="bank", ties=2, date="2022-02-28")
    bruno = source("bruno.md", None, state="changed", passage=None, text_from=None, start=None)
    show_answer(answer(None, ada, bruno))
    assert capsys.readouterr().out.splitlines() == [
        "Not in this memory.",
        "",
        "Closest passages:",
        "1. ada.txt  2022-02-28",
        "   Ada moved.",
        "   the file no longer exists; this is the bank's copy",
        "2. bruno.md",
        "   the file has changed since",
    ]


def test_withheld_answers_and_names_of_banks(capsys):
    show_answer(answer(None, withheld=True))
    assert capsys.readouterr().out == "Withheld: only 82% confident.\n"
    show_answer(answer("Aalen", source()), with_bank=True)
    assert capsys.readouterr().out.splitlines()[1] == "82% confident (high), found in /notes/ada.txt, in memory.mbc"


def test_written_answer_lists_cited_sources(capsys):
    sources = (source("/a.txt"), source("/b.txt", sentence="It rained."), source("/c.txt"))
    said = "It rained [2]. Ada won\x1b [3]."
    show_answer(answer(said, *sources, extracted=None, written_by="lm", unsupported=("Ada won\x1b [3].",)))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["It rained [2]. Ada won␛ [3].", "written by lm"]
    assert lines[2] == "Not in the sources it cites: “Ada won␛ [3].”"
    assert [line.split("  ")[0] for line in lines if line[:2] in ("1.", "2.", "3.")] == ["2. /b.txt", "3. /c.txt"]
    assert "   It rained." in lines


def test_written_answer_shows_the_extracted_one(capsys):
    show_answer(answer("She moved to Aalen.", source(), extracted="Aalen\x1b", written_by="lm"))
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "“Aalen␛”: 82% confident (high), found in /notes/ada.txt; written by lm"


def test_a_question_in_another_language_gets_a_note(capsys):
    german = answer("Aalen", question="Wohin ist Ada gezogen?")
    note = answer_json(german, [], 0.0)["note"]
    assert note.startswith("The question does not seem to be in English")
    show_answer(german)
    assert capsys.readouterr().err.split() == note.split()
    show_answer(answer("Aalen", question="Wohin?", asked="Where did Ada move?"))
    show_answer(answer("Aalen", question="Wohin ist Ada gezogen?", gain=0.0))
    assert capsys.readouterr().err == ""


def test_an_answer_without_some_banks_says_so(capsys):
    made = replace(answer("Aalen"), missing_banks=("b:/1.mbc", "c:/2.mbc"))
    details = answer_json(made, [], 0.0)
    assert details["bank"]["missing"] == ["b:/1.mbc", "c:/2.mbc"]
    show_answer(made)
    assert capsys.readouterr().err.split() == details["note"].split()
    assert details["note"] == "Incomplete: b:/1.mbc, c:/2.mbc did not answer."


@pytest.mark.parametrize(
    ("question", "day", "is_noted"),
    [
        ("What was the rent in 2023?", None, True),
        ("What was the rent in 2023?", "2023-05-01", False),  # the document's day
        ("What was the rent?", None, False),
    ],
)
def test_an_answer_of_another_time_gets_a_note(question, day, is_noted):
    rent = source("/rent.txt", "In 2024 the rent was 900 euros.", date=day)
    note = answer_json(answer("900 euros", rent, question=question), [], 0.0)["note"]
    assert note == ("The passage of this answer is about another time than the question." if is_noted else None)


def test_json_of_an_answer():
    ada = source("/notes/ada.txt", date="2024-05-31", state="gone", text_from="bank")
    made = answer("Aalen", ada, confidence=Confidence(0.82345678, "high"))
    assert answer_json(made, [Path("/memory.mbc")], 1.5) == {
        "question": "Where did Ada move?",
        "asked": None,
        "note": None,
        "answer": "Aalen",
        "tentative": False,
        "withheld": False,
        "items": [],
        "extracted": None,
        "written_by": None,
        "unsupported": [],
        "confidence": 0.8235,
        "label": "high",
        "gain": None,
        "sources": [
            {"path": "/notes/ada.txt", "part": "", "share": 0.5, "ties": 0, "state": "gone", "date": "2024-05-31"}
            | {"sentence": "Ada moved to Aalen.", "text_from": "bank", "start": 0, "line": None, "page": None}
            | {"bank": "memory.mbc", "others": ()}
        ],
        "timings": {"model": 1.5, "search": 0.01, "answer": 0.2, "sources": 0.03},
        "bank": {
            "paths": ["/memory.mbc"],
            "documents": 2,
            "chunks": 2,
            "sizes": {"codes": 54, "words": 40, "texts": 60, "codebook": 4096, "file": 8192},
            "missing": [],
        },
    }


@pytest.mark.parametrize(
    ("probability", "label", "words"),
    [
        (0.999, "high", "99% confident (high)"),
        (0.5, "unsure", "from memory or from the model alone (50% likely that the bank holds the answer)"),
        (0.119, "model", "from the model alone (11% likely that the bank holds the answer)"),
    ],
)
def test_confidence_in_words(probability, label, words):
    assert confidence_words(Confidence(probability, label)).plain == words


@pytest.fixture
def commands(monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    for name in ("VISUAL", "EDITOR", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    return commands


@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("nano -w", ["nano", "-w", "+2", "{}"]),
        ("/usr/bin/code --wait", ["/usr/bin/code", "--wait", "--goto", "{}:2"]),
        ("hx", ["hx", "{}:2"]),
        ("most", ["most", "+2", "{}"]),
    ],
)
def test_editor_opens_at_the_line(home, commands, monkeypatch, editor, expected):
    (file := home / "-a b.txt").touch()
    monkeypatch.setenv("PAGER" if editor == "most" else "EDITOR", editor)
    open_file(file, 2)
    open_file(file)
    assert commands == [[word.replace("{}", str(file)) for word in expected], [*editor.split(), str(file)]]


@pytest.mark.parametrize("path", ["/gone/a.txt", "stdin:0123", "0123abcd"])
def test_only_files_are_opened(commands, path):
    with pytest.raises(DataError, match="cannot be opened"):
        open_file(Path(path))
    assert not commands
