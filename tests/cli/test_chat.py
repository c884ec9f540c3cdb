"""`mbc chat`: a conversation: its commands, interruptions, and the line editor."""

import fcntl
import os
import pty
import re
import readline
import select
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from itertools import chain
from pathlib import Path

import pytest

from mbc_cli.commands import ask as chat
from mbc_cli.commands.ask import read_line, start_line_editor
from mbc_engine.answer import AskOptions
from mbc_engine.errors import DataError
from tests.cli.stub_memory import answer, source
from tests.needs import PATIENCE

QUESTION = "Where did Ada move?"


@pytest.fixture
def talk(memory, monkeypatch, capsys):
    """Holds a conversation; returns stdout, stderr and the lines that were not read."""

    def talk(*lines):
        remaining = chain(lines, [EOFError()])

        def read(history):
            line = next(remaining)
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(chat, "read_line", read)
        monkeypatch.setattr(chat, "start_line_editor", lambda *_: None)
        chat.converse(memory, AskOptions())
        captured = capsys.readouterr()
        return captured.out, captured.err, list(remaining)

    return talk


def test_options_reach_the_memory(mbc, memory, monkeypatch):
    monkeypatch.setattr(chat, "converse", lambda memory, options: memory.ask([QUESTION], options))
    assert mbc("chat", "--sources", 5, "--since", 2024, "--llm", "lm", "--min-confidence", "80%").exit_code == 0
    ((_, options),) = memory.batches
    assert (options.sources, options.min_confidence, memory.made_with["llm"]) == (5, 0.8, "lm")
    assert str(options.selection.since) == "2024-01-01"


def says(memory, *answers):
    """Makes the memory give these answers in turn; exceptions are raised."""
    remaining = iter(answers)

    def reply(question):
        given = next(remaining)
        if isinstance(given, BaseException):
            raise given
        return given

    memory.reply = reply


def test_questions_are_answered_until_the_end(memory, talk):
    memory.paths = (Path("team.mbc"), Path("mine.mbc"))
    says(memory, answer("Aalen", source(), source("/b.txt")), "Bergen")
    out, err, rest = talk(QUESTION, "", "  Where is Bruno?  ")
    assert out.startswith("Aalen\n82% confident (high), found in /notes/ada.txt\n")
    assert "1. /b.txt  in memory.mbc  " in out
    assert "\nBergen\n" in out
    assert err.startswith("team.mbc + mine.mbc: 2 documents, 2 chunks.\n")
    assert (rest, [questions for questions, _ in memory.batches]) == ([], [[QUESTION], ["Where is Bruno?"]])


def test_a_completed_follow_up_is_shown(memory, talk):
    says(memory, "Aalen", DataError("Something is wrong."), "1931")
    out, err, _ = talk(QUESTION, "and when?", "and where?")
    assert "Something is wrong." in err
    assert "\nAsked: where did Ada move?\n1931\n" in out


def test_sources_are_shown_in_full(memory, talk):
    passage = "Ada moved to Aalen.\nThe river rose."
    says(memory, answer("Aalen", source(passage=passage), source("/b", None, passage=None)))
    out, _, _ = talk(QUESTION, "/sources")
    assert out.endswith(
        "1. /notes/ada.txt  50%\n   Ada moved to Aalen.\n   The river rose.\n"
        "2. /b  50%\n   (the text is not available)\n"
    )


@pytest.mark.parametrize("end", [KeyboardInterrupt(), DataError("Something is wrong.")])
def test_failed_question_has_no_sources(memory, talk, end):
    says(memory, answer("Aalen", source()), end)
    out, err, _ = talk(QUESTION, QUESTION, "/sources")
    assert out.count("/notes/ada.txt") == 1
    assert err.endswith("There is no answer yet.\n\n")


def test_the_first_source_is_opened(memory, talk, monkeypatch):
    opened = []
    monkeypatch.setattr(chat, "open_file", lambda path, line: opened.append((str(path), line)))
    says(memory, "Rain", answer("Aalen", source(line=3)))
    _, err, _ = talk(QUESTION, "/open", "/sources", QUESTION, "/open")
    assert opened == [("/notes/ada.txt", 3)]
    assert "There is no source to open.\nThe last answer has no sources.\n" in err


def test_an_unknown_command_is_reported(talk):
    assert "There is no command /bogus; /help lists them." in talk("/bogus")[1]


def test_an_interruption_stops_only_the_answer(memory, talk):
    says(memory, KeyboardInterrupt(), "Aalen")
    out, err, _ = talk(QUESTION, QUESTION)
    assert "Stopped.\n" in err
    assert out.startswith("Aalen\n")


def test_two_interruptions_at_the_prompt_end_it(memory, talk):
    out, err, rest = talk(KeyboardInterrupt(), QUESTION, KeyboardInterrupt(), KeyboardInterrupt(), "more")
    assert out.startswith("Aalen\n")
    assert err.count("Press Ctrl-C again") == 2
    assert len(rest) == 2


@pytest.fixture
def typed(monkeypatch):
    """Makes stdout a terminal on which these lines are typed; clears the editor's history before and after."""

    def type_(*lines):
        remaining = iter(lines)

        def read(prompt=""):
            line = next(remaining)
            readline.add_history(line)
            return line

        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    readline.clear_history()
    yield type_
    readline.clear_history()
    readline.set_completer(None)


def test_history_is_private_and_kept(typed, home):
    path = home / "new" / "history"
    typed("a", "b", "c", "d")
    start_line_editor(path)
    assert [read_line(path) for _ in range(4)] == ["a", "b", "c", "d"]
    assert path.read_text() == "a\nb\nc\nd\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    readline.clear_history()
    start_line_editor(path)
    assert readline.get_history_item(4) == "d"


@pytest.mark.parametrize("typed_so_far", ["", "half"])
def test_an_interruption_drops_the_line(typed, home, monkeypatch, typed_so_far):
    typed()

    def interrupted(prompt=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    monkeypatch.setattr(readline, "get_line_buffer", lambda: typed_so_far)
    start_line_editor(home / "history")
    if typed_so_far:
        assert read_line(home / "history") == ""
    else:
        with pytest.raises(KeyboardInterrupt):
            read_line(home / "history")


def test_lines_can_be_read_without_readline(typed, home, monkeypatch):
    typed("a")
    monkeypatch.setattr("builtins.input", lambda prompt="": f"{prompt}a")
    monkeypatch.setattr(chat, "readline", None)
    start_line_editor(home / "history")
    assert read_line(home / "history") == "? a"
    assert not (home / "history").exists()


@pytest.mark.slow
def test_a_conversation_on_a_terminal(bank, model, home):
    with _Terminal("ask", "--bank", bank, "--model", model, "--max-tokens", 3, cwd=home) as terminal:
        assert "2 documents, 2 chunks" in terminal.until("? ")
        terminal.type("/so\t\r")
        terminal.until("There is no answer yet.")
        terminal.until("? ")
        terminal.type("/caf \udcff\r")
        terminal.until("There is no command /caf;")
        terminal.until("? ")
        terminal.type(f"{QUESTION}\r")
        output = terminal.until("sources 0.").replace("\r", "")
        assert re.search(r"\n\nSources:\n1\. notes/", output)
        terminal.until("? ")
        terminal.type("\x1b[A")
        terminal.until(QUESTION)
        terminal.type("\x15\x04")
        assert terminal.ended() == 0
    (kept,) = (home / "XDG_DATA_HOME" / "mbc" / "questions").iterdir()
    assert kept.read_text().splitlines() == ["/sources", "/caf \ufffd", QUESTION]


class _Terminal:
    """`mbc` in a terminal of 80 x 24."""

    def __init__(self, *arguments, cwd):
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        script = (
            f"import os, sys; os.login_tty({theirs})\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'mbc_cli', *sys.argv[1:]])"
        )
        path = os.pathsep.join(filter(None, sys.path))
        strict = {"PYTHONIOENCODING": "utf-8:strict"}  # as in most locales
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            pass_fds=[theirs],
            cwd=cwd,
            env={**os.environ, **strict, "PYTHONPATH": path, "TERM": "dumb", "OMP_NUM_THREADS": "1"},
        )
        self._theirs = theirs  # kept open: closing it would discard the last output
        self._unread = ""

    def type(self, text):
        os.write(self._own, text.encode(errors="surrogateescape"))

    def until(self, wanted):
        """The output up to `wanted`."""
        deadline = time.monotonic() + PATIENCE
        while wanted not in self._unread:
            ready, _, _ = select.select([self._own], [], [], 1)
            assert ready or (time.monotonic() < deadline and self._process.poll() is None), self._unread
            if ready:
                self._unread += os.read(self._own, 4096).decode(errors="replace")
        output, _, self._unread = self._unread.partition(wanted)
        return output

    def ended(self):
        return self._process.wait(PATIENCE)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        os.close(self._theirs)
        os.close(self._own)
