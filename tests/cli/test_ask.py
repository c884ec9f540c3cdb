"""`mbc ask`: how its options reach the memory, and what it prints for one question and for many."""

import json

import pytest
from rich.console import Console

from tests.cli.stub_memory import answer, source

QUESTION = "Where did Ada move?"
QUESTIONS = (QUESTION, "Where did Bruno move?", "What held?")


def test_first_line_is_the_answer(mbc, memory):
    sources = source("/notes/ada.txt", line=3), source("/notes/b.txt", "It rained.")
    memory.reply = lambda question: answer("Aalen", *sources)
    result = mbc("ask", QUESTION)
    assert result.stdout.splitlines() == [
        "Aalen",
        "82% confident (high), found in /notes/ada.txt:3",
        "   Ada moved to Aalen.",
        "",
        "Other sources:",
        "1. /notes/b.txt  50%",
        "   It rained.",
    ]
    assert result.stderr == "model 0.00 s · search 0.01 s · answer 0.20 s · sources 0.03 s\n"


def test_defaults_reach_the_memory(mbc, memory, home):
    mbc("ask", QUESTION)
    ((questions, options),) = memory.batches
    assert questions == [QUESTION]
    assert (options.sources, options.beams, options.write, options.read_mode) == (3, 1, None, None)
    bank = home / "XDG_DATA_HOME" / "mbc" / "memory.mbc"
    assert memory.made_with == {"banks": [bank], "model": "mini", "device": None, "weights": None, "llm": None}


def test_options_reach_the_memory(mbc, memory, home):
    where = ("--bank", "a.mbc", "--bank", "b.mbc", "--weight", 1, "--weight", 2, "--model", "m", "--device", "cpu")
    how = ("--sources", 5, "--min-confidence", 0.5, "--max-tokens", 9, "--beams", 2, "--read", "routed:2", "--write")
    which = ("--since", 2024, "--half-life", "4w", "--only", "*.txt", "--exclude", "b", "--llm", "lm")
    mbc("ask", QUESTION, *where, *how, *which)
    ((_, options),) = memory.batches
    assert (options.sources, options.min_confidence, options.max_new_tokens, options.beams) == (5, 0.5, 9, 2)
    assert (options.read_mode, options.write, options.selection.half_life) == ("routed:2", True, 28.0)
    assert (options.selection.only, options.selection.exclude) == (("*.txt",), ("b",))
    assert [str(path) for path in memory.made_with.pop("banks")] == ["a.mbc", "b.mbc"]
    assert memory.made_with == {"model": "m", "device": "cpu", "weights": [1.0, 2.0], "llm": "lm"}


def test_confidence_may_be_in_percent(mbc, memory):
    for typed in ("0.9", "90%", "90", "1", "1%", "0"):
        mbc("ask", QUESTION, "--min-confidence", typed)
    assert [options.min_confidence for _, options in memory.batches] == [0.9, 0.9, 0.9, 1.0, 0.01, 0.0]


def test_a_half_life_without_a_unit_is_explained(mbc, memory):
    meaning = "--half-life 3 means 3 days; 3w, 3m and 3y are weeks, months and years.\n"
    assert mbc("ask", QUESTION, "--half-life", 3).stderr.startswith(meaning)
    assert meaning not in mbc("ask", QUESTION, "--half-life", "3w").stderr


def test_environment_may_name_several_banks(mbc, refusal, memory, monkeypatch):
    monkeypatch.setenv("MBC_BANK", "a.mbc:b.mbc")
    memory.reply = lambda question: answer("Aalen", source(), source("/b.txt"))
    assert "1. /b.txt  in memory.mbc  50%" in mbc("ask", QUESTION).stdout
    for command in (["ingest", "notes"], ["bank", "info"]):
        assert "names several banks" in refusal(2, *command)


def test_open_shows_the_first_source_in_an_editor(mbc, memory, monkeypatch):
    opened = []
    monkeypatch.setattr("mbc_cli.render.answer.open_file", lambda path, line: opened.append((str(path), line)))
    for sources in ([source(line=3)], []):
        memory.reply = lambda question, sources=sources: answer("Aalen", *sources)
        mbc("ask", QUESTION, "--open")
    assert opened == [("/notes/ada.txt", 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("  ",), "The question is empty."),
        ((QUESTION, "--open", "--json"), "--open needs a question"),
        (("--open",), "--open needs a question"),
        ((QUESTION, "--questions", "q.txt"), "cannot be combined"),
        ((QUESTION, "--min-confidence", "nan"), "is not between 0 and 1"),
    ],
)
def test_wrong_options_are_refused(refusal, memory, arguments, message):
    assert message in refusal(2, "ask", *arguments)
    assert not memory.is_open


def test_questions_of_a_file_as_json(mbc, memory, home):
    rows = [{"question": question, "id": id_} for question, id_ in zip(QUESTIONS, ("x", 7, None), strict=True)]
    (home / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = mbc("ask", "--questions", "q.jsonl", "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["id"], row["question"]) for row in answers] == list(zip(("x", 7, 3), QUESTIONS, strict=True))
    assert result.stderr.startswith("3 questions in ")


@pytest.mark.parametrize("options", [(), ("--questions", "-")])
def test_questions_come_from_stdin(mbc, memory, options):
    memory.reply = lambda question: answer("Aalen")
    blocks = mbc("ask", *options, stdin=f"What\x1b held?\n{QUESTION}".encode()).stdout.split("\n\n")
    assert blocks[:2] == ["? What␛ held?\nAalen\n82% confident (high)", f"? {QUESTION}\nAalen\n82% confident (high)"]


def test_bad_line_of_stdin(mbc, memory):
    stdin = b'{"question": "What held?"}\n' * 17 + b"oops\n" + b'{"question": "Who?"}\n'
    result = mbc("ask", "--json", stdin=stdin, code=3)
    assert len(result.stdout.splitlines()) == 17
    assert "stdin, line 18 is not JSON." in result.stderr


def test_an_answer_is_streamed_on_a_terminal(mbc, memory, monkeypatch):
    for module in ("mbc_cli.render.answer", "mbc_cli.commands.ask"):
        monkeypatch.setattr(f"{module}.out", Console(force_terminal=True, width=80, color_system=None))
    memory.reply = lambda question: "She\x1b moved\nto Aalen."
    assert mbc("ask", QUESTION).stdout.splitlines()[0] == "She␛ moved to Aalen."
    memory.reply = lambda question: ""
    assert mbc("ask", QUESTION).stdout.startswith("(no answer)\n")
