"""`mbc chat`: a conversation: its commands, interruptions, and the line editor."""

import readline
import stat
from pathlib import Path
from unittest.mock import Mock

import pytest

from mbc_cli.commands import ask as chat
from mbc_cli.commands.ask import read_line, start_line_editor
from mbc_cli.paths import add_question, question_history, read_questions
from mbc_engine.answer import AskOptions
from mbc_engine.errors import DataError
from tests.cli.stub_memory import answer, source

QUESTION = "Where did Ada move?"


@pytest.fixture
def talk(memory, monkeypatch, capsys):
    """Holds a conversation; returns stdout, stderr and the lines that were not read."""

    def talk(*lines):
        remaining = iter([*lines, EOFError()])
        monkeypatch.setattr(chat, "read_line", Mock(side_effect=remaining))
        monkeypatch.setattr(chat, "start_line_editor", lambda *_: None)
        chat.converse(memory, AskOptions())
        captured = capsys.readouterr()
        return captured.out, captured.err, list(remaining)

    return talk


def says(memory, *answers):
    """Makes the memory give these answers in turn; exceptions are raised."""
    memory.reply = Mock(side_effect=answers)


def test_questions_are_answered_until_the_end(memory, talk):
    memory.paths = (Path("team.mbc"), Path("mine.mbc"))
    says(memory, answer("Aalen", source(), source("/b.txt")), "Bergen")
    out, err, rest = talk(QUESTION, "", "  Where is Bruno?  ")
    assert out.startswith("Aalen\n82% confident (high), found in /notes/ada.txt, in memory.mbc\n")
    assert "1. /b.txt  in memory.mbc  " in out
    assert "\nBergen\n" in out
    assert err.startswith("team.mbc + mine.mbc: 2 documents, 2 chunks.\n")
    assert (rest, [questions for questions, _ in memory.batches]) == ([], [[QUESTION], ["Where is Bruno?"]])


def test_only_questions_are_kept(memory, talk):
    says(memory, "Aalen", "Bergen")
    talk(QUESTION, "/sources", "", "/bogus", "Where is\nBruno?")
    assert read_questions(question_history(memory.paths[0])) == [QUESTION, "Where is Bruno?"]


def test_a_completed_follow_up_is_shown(memory, talk):
    says(memory, "Aalen", DataError("Something is wrong."), "1931")
    out, err, _ = talk(QUESTION, "and when?", "and where?")
    assert "Something is wrong." in err
    assert "\nAsked: where did Ada move?\n1931\n" in out


def test_sources_are_shown_in_full(memory, talk):
    passage = "Ada moved to Aalen.\nThe river rose."
    says(memory, answer("Aalen", source(passage=passage), source("/b", None, passage=None)))
    out, _, _ = talk(QUESTION, "/sources")
    first = "1. /notes/ada.txt  50%\n   Ada moved to Aalen.\n   The river rose.\n"
    assert out.endswith(f"{first}2. /b  50%\n   (the text is not available)\n")


@pytest.mark.parametrize("end", [KeyboardInterrupt(), DataError("Something is wrong.")])
def test_failed_question_has_no_sources(memory, talk, end):
    says(memory, answer("Aalen", source()), end)
    out, err, _ = talk(QUESTION, QUESTION, "/sources")
    assert out.count("/notes/ada.txt") == 1
    assert err.endswith("There is no answer yet.\n\n")


def test_the_first_source_is_opened(memory, talk, monkeypatch):
    opened = []
    monkeypatch.setattr(chat.render, "open_file", lambda path, line: opened.append((str(path), line)))
    says(memory, "Rain", answer("Aalen", source(line=3)))
    _, err, _ = talk(QUESTION, "/open", "/sources", QUESTION, "/open", "/bogus")
    assert opened == [("/notes/ada.txt", 3)]
    assert "There is no source to open.\nThe last answer has no sources.\n" in err
    assert "There is no command /bogus;" in err


def test_two_interruptions_at_the_prompt_end_it(memory, talk):
    out, err, rest = talk(KeyboardInterrupt(), QUESTION, KeyboardInterrupt(), KeyboardInterrupt(), "more")
    assert out.startswith("Aalen\n")
    assert err.count("Press Ctrl-C again") == 2
    assert len(rest) == 2


@pytest.fixture
def empty_history():
    """Clears the editor's history, before and after."""
    readline.clear_history()
    yield
    readline.clear_history()
    readline.set_completer(None)


@pytest.mark.usefixtures("empty_history")
def test_history_is_private_and_kept(home, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda prompt="": "a")
    path = home / "new" / "history"
    start_line_editor(path)
    assert read_line() == "a"
    for question in ("a", "é"):
        add_question(path, question)
    assert path.read_text() == "a\né\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    readline.clear_history()
    start_line_editor(path, ["/sources"])
    assert readline.get_history_item(2) == "é"
    complete = readline.get_completer()
    assert complete is not None and [complete("/so", 0), complete("/so", 1)] == ["/sources", None]


def test_history_is_limited_made_private_and_keeps_invalid_utf8(home, monkeypatch):
    monkeypatch.setattr("mbc_cli.paths._MAX_QUESTIONS", 2)
    path = home / "history"
    path.write_bytes(b"a\nb\n\xff\n")
    path.chmod(0o644)
    add_question(path, "c\nd")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"\xff\nc d\n", 0o600)
    assert list(home.iterdir()) == [path]
    add_question(path / "below a file", "Who?")
    assert read_questions(path / "below a file") == []
