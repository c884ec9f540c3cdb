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

import pytest

from mbc_cli.commands import chat
from mbc_cli.commands.chat import converse, read_line, start_line_editor
from mbc_cli.engine import open_memory
from mbc_engine import model as models
from mbc_engine.answer import AskOptions
from mbc_engine.errors import DataError
from mbc_engine.lm.base import BaseLM
from mbc_engine.model import signature
from tests.cli.ask.conftest import QUESTION
from tests.needs import PATIENCE


@pytest.fixture
def says(monkeypatch):
    """Makes the base LM give these answers in turn; exceptions are raised."""

    def say(*answers):
        remaining = iter(answers)

        def generate(self, prefix, questions, **options):
            answer = next(remaining)
            if isinstance(answer, BaseException):
                raise answer
            return [answer]

        monkeypatch.setattr(BaseLM, "generate", generate)

    return say


@pytest.fixture
def talk(bank, model, capsys):
    """Holds a conversation about the notes; returns stdout, stderr and the lines that were not read."""

    def talk(*lines):
        remaining = chain(lines, [EOFError()])

        def read_line():
            line = next(remaining)
            if callable(line):
                line = line()
            if isinstance(line, BaseException):
                raise line
            return line

        capsys.readouterr()
        options = AskOptions(max_new_tokens=4)
        with open_memory([bank], str(model)).open(options) as memory:
            converse(memory, options, read_line)
        captured = capsys.readouterr()
        return captured.out, captured.err, list(remaining)

    return talk


def test_questions_are_answered_until_the_end(talk, says):
    says("Aalen", "Bergen")
    out, _, rest = talk(QUESTION, "", "  And Bruno?  ")
    assert out.splitlines()[:2] == ["Aalen", ""]
    assert "\nBergen\n" in out
    assert rest == []


def test_a_follow_up_is_shown_as_it_is_asked(talk, says):
    says("Aalen", "Bergen", DataError("Something is wrong."), "Rain", "1931")
    out, _, _ = talk("Where did Ada move?", "And Bruno?", "Why?", "When did he go there?")
    assert out.startswith("Aalen\n")
    assert "\nAsked: Where did Bruno move?\nBergen\n" in out
    assert "\nAsked: When did Bruno go in Bergen?\nRain\n" in out
    out, _, _ = talk("When did he go there?")
    assert out.startswith("1931\n")  # a new conversation has no context


def test_sources_are_shown_in_full(talk, says):
    says("Aalen")
    out, _, _ = talk(QUESTION, "/sources")
    sources = out.rpartition("\n\n")[2]
    assert re.search(
        r"\d\. notes/ada\.txt:1  \d+%  .*\n   Ada moved to Aalen in the spring\. The river rose\.\n", sources
    )


@pytest.mark.parametrize("end", [KeyboardInterrupt(), DataError("Something is wrong.")])
def test_a_question_without_an_answer_leaves_no_sources(talk, says, end):
    says("Aalen", end)
    out, err, _ = talk(QUESTION, QUESTION, "/sources")
    assert out.count("notes/ada.txt") == 1
    assert err.endswith("There is no answer yet.\n\n")


def test_help_says_that_follow_ups_are_completed(talk):
    out, _, _ = talk("/help")
    assert "completed from the question before" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "message"),
    [("/bogus", "no command /bogus"), ("/sources", "no answer yet")],
)
def test_what_cannot_be_done_is_reported(talk, line, message):
    out, err, _ = talk(line)
    assert (out, message in err) == ("", True)


def test_quit_ends(talk):
    assert len(talk("/quit", "more")[2]) == 2


def test_an_error_is_one_line_and_it_goes_on(talk, says, bank, home):
    says("Aalen")
    away = home / "away.mbc"
    out, err, _ = talk(lambda: bank.rename(away) and QUESTION, lambda: away.rename(bank) and QUESTION)
    assert f"No bank at {bank}. Make one" in err.splitlines()[0]
    assert out.startswith("Aalen\n")


@pytest.mark.parametrize(("end", "times"), [(DataError("Something is wrong."), 1), (KeyboardInterrupt(), 2)])
def test_only_an_interruption_lets_go_of_the_bank(talk, says, monkeypatch, end, times):
    hashed = []
    monkeypatch.setattr(models, "signature", lambda model: hashed.append(model) or signature(model))
    says("Aalen", end, "Bergen")
    assert "\nBergen\n" in talk(QUESTION, QUESTION, QUESTION)[0]
    assert len(hashed) == times


def test_what_is_ingested_meanwhile_is_found(talk, says, ingest, bank, home):
    says("Aalen", "Cadiz")
    (home / "clara.txt").write_text("Clara moved to Cadiz.")
    out, _, _ = talk(QUESTION, lambda: ingest("clara.txt", "--bank", bank) and "Where is Clara?")
    first, second = out.split("Cadiz\n")[:2]
    assert "clara.txt" not in first
    assert "clara.txt" in second


def test_another_bank_in_its_place_is_found(talk, says, ingest, bank, home):
    says("Aalen", "Cadiz")
    (home / "clara.txt").write_text("Clara moved to Cadiz.")
    ingest("clara.txt", "--bank", "other.mbc")
    out, _, _ = talk(QUESTION, lambda: (home / "other.mbc").rename(bank) and "Where is Clara?")
    assert "notes/" not in out.split("Cadiz\n")[1]


def test_an_interruption_stops_the_answer_alone(talk, says):
    says(KeyboardInterrupt(), "Aalen")
    out, err, _ = talk(QUESTION, QUESTION)
    assert err.startswith("Stopped.\n")
    assert out.startswith("Aalen\n")


def test_two_interruptions_at_the_prompt_end_it(talk, says):
    says("Aalen")
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


def test_a_history_with_the_zeros_of_a_power_failure_is_read(typed, home):
    (home / "history").write_bytes(b"Who?\n\0\0\0\nWhere?\n")
    start_line_editor(home / "history")
    assert [readline.get_history_item(number) for number in (1, 2)] == ["Who?", "Where?"]


def test_a_history_that_cannot_be_written_is_no_error(typed, home):
    (home / "file").touch()
    typed("a")
    start_line_editor(home / "file" / "history")
    assert read_line(home / "file" / "history") == "a"


@pytest.mark.parametrize("typed_so_far", ["", "half"])
def test_an_interruption_drops_what_was_typed(typed, home, monkeypatch, typed_so_far):
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
    kept = home / "XDG_DATA_HOME" / "mbc" / "questions.history"
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
