import io
import json
import subprocess
import sys

import pytest

from mbc_cli.commands import ask as ask_command
from mbc_engine.lm.base import BaseLM

QUESTIONS = ("Where did Ada move?", "Where did Bruno move?", "What held?")


@pytest.fixture
def batches(monkeypatch):
    """The batches of questions put to the base LM, which answers each with its last word."""
    seen = []

    def generate(self, prefix, questions, **options):
        seen.append(list(questions))
        return [question.split()[-1] for question in questions]

    monkeypatch.setattr(BaseLM, "generate", generate)
    return seen


@pytest.fixture
def ask(mbc, bank, model):
    """Runs `mbc ask` on the notes."""
    return lambda *options, stdin=None: mbc("ask", "--bank", bank, "--model", model, *options, stdin=stdin)


def test_json_lines_come_in_order_with_ids(ask, batches, home):
    rows = [{"question": question, "id": name} for question, name in zip(QUESTIONS, ("x", 7, None), strict=True)]
    (home / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = ask("--questions", "q.jsonl", "--json")
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["id"], row["question"]) for row in answers] == list(zip(("x", 7, 3), QUESTIONS, strict=True))
    assert [row["answer"] for row in answers] == ["move?", "move?", "held?"]
    assert len(answers[0]["sources"]) == 2
    assert "3 questions in" in result.stderr


def test_people_see_question_answer_and_sources(ask, batches, home):
    (home / "q.txt").write_text("What\x1b held?\n" + QUESTIONS[0])
    blocks = ask("--questions", "q.txt", "--sources", 1).stdout.split("\n\n")
    assert blocks[0] == "? What␛ held?\nheld?"
    assert blocks[1].startswith("Sources:\n1. notes/")
    assert blocks[2] == f"? {QUESTIONS[0]}\nmove?"


def test_sixteen_are_asked_at_a_time(ask, batches, home):
    (home / "q.txt").write_text("".join(f"Who is {number}?\n" for number in range(35)))
    result = ask("--questions", "q.txt", "--json")
    assert [len(batch) for batch in batches] == [16, 16, 3]
    assert [json.loads(line)["answer"] for line in result.stdout.splitlines()] == [f"{n}?" for n in range(35)]


@pytest.mark.parametrize("options", [(), ("--questions", "-")])
def test_lines_of_stdin_are_questions(ask, batches, options):
    result = ask(*options, stdin="\n".join(QUESTIONS).encode())
    assert [line for line in result.stdout.splitlines() if line.startswith("?")] == [
        f"? {question}" for question in QUESTIONS
    ]


def test_json_may_come_from_stdin(ask, batches):
    result = ask("--json", stdin=b'{"question": "What held?", "id": "x"}\n')
    assert json.loads(result.stdout)["id"] == "x"


def test_what_comes_before_a_bad_line_is_answered(ask, batches):
    stdin = b'{"question": "What held?"}\n' * 17 + b"oops\n" + b'{"question": "Who?"}\n'
    result = ask("--json", stdin=stdin)
    assert (result.exit_code, len(result.stdout.splitlines())) == (3, 17)
    assert "stdin, line 18 is not JSON." in result.stderr


def test_a_bad_file_is_an_error_before_any_model_is_loaded(mbc, bank, home):
    (home / "q.jsonl").write_text('{"question": "What held?"}\noops\n')
    result = mbc("ask", "--bank", bank, "--model", "no-such-model", "--questions", "q.jsonl")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "q.jsonl, line 2 is not JSON." in result.stderr


@pytest.mark.parametrize("stdin", [b"", b"\n \n"])
def test_no_questions_are_an_error_before_any_model_is_loaded(mbc, bank, stdin):
    result = mbc("ask", "--bank", bank, "--model", "no-such-model", stdin=stdin)
    assert result.exit_code == 3
    assert "stdin holds no questions" in result.stderr


@pytest.mark.parametrize("command", [["ask", "--model", "none"], ["bank", "import", "-"]])
def test_a_closed_stdin_is_empty(bank, command):
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "mbc_cli", *command, "--bank", str(bank)]
    assert subprocess.run(closed, capture_output=True).returncode == 3


def test_a_question_and_a_file_are_too_much(mbc, bank, home):
    (home / "q.txt").write_text("Who?")
    assert mbc("ask", "Who?", "--questions", "q.txt", "--bank", bank, "--model", "none").exit_code == 2


def test_answers_stay_when_it_is_interrupted(ask, monkeypatch, home):
    def generate(self, prefix, questions, **options):
        if questions[0] == "Who is 16?":
            raise KeyboardInterrupt
        return ["Ada"] * len(questions)

    monkeypatch.setattr(BaseLM, "generate", generate)
    (home / "q.txt").write_text("".join(f"Who is {number}?\n" for number in range(35)))
    result = ask("--questions", "q.txt", "--json")
    assert (result.exit_code, len(result.stdout.splitlines())) == (130, 16)
    assert result.stderr.splitlines()[-1] == "Interrupted."


def test_questions_typed_on_a_terminal_can_give_json(ask, batches, monkeypatch, capsys):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(ask_command.sys, "stdin", Terminal(io.BytesIO(b"What held?\n")))
    assert callable(ask_command._choose_task(None, None, as_json=True, opens=False))
    assert "finish with Ctrl-D" in capsys.readouterr().err
