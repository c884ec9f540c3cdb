"""What is printed while a command works, and on a terminal of 80 columns, which would break long lines inside words."""

import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from mbc_cli.render import progress
from mbc_cli.render.progress import ProgressView


@pytest.fixture
def terminal(monkeypatch):
    """Makes stderr a terminal; stdout stays a pipe."""
    monkeypatch.setattr(progress, "notes", Console(stderr=True, force_terminal=True, width=80))


def test_data_stays_on_stdout(terminal, capsys):
    with ProgressView() as view:
        view.bar("Working", 2, completed=1)
        print("data")
    assert capsys.readouterr().out == "data\n"


@pytest.mark.parametrize(
    ("times", "completed", "line"),
    [
        ((0, 10, 30, 40), (0, 500, 1500, 2500), "Working: 1,500 of 4,500, 1 min 00 s left · fast"),
        ((0, 1000, 1010, 1040), (0, 4000, 10, 1000), "Working: 1,000 of 4,500, 1 min 46 s left · fast"),  # restarted
    ],
)
def test_pipe_gets_a_line_now_and_then(monkeypatch, capsys, times, completed, line):
    clock = iter(map(float, times))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with ProgressView() as view:
        for number in completed:
            view.bar("Working", 4500, completed=number, note="fast")
    assert capsys.readouterr().err.splitlines()[-1] == line


SENTENCE = "mbc is a compressed long-term memory for language models, and this sentence has more than 80 characters."
PRINT = f"""
from mbc_cli.render.terminal import notes, out, print_facts
out.print({SENTENCE!r}); notes.print({SENTENCE!r}); print_facts(("said", {SENTENCE!r}))
"""


def test_lines_break_only_on_a_terminal():
    outside, inside = pty.openpty()
    with os.fdopen(outside, "rb") as terminal:
        command, env = [sys.executable, "-c", PRINT], {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
        piped = subprocess.run(command, capture_output=True, check=True, text=True, env=env)
        subprocess.run(command, stdout=inside, stderr=inside, check=True, env=env)
        os.close(inside)
        drawn = os.read(terminal.fileno(), 4096).decode()
    assert piped.stdout.splitlines() == [SENTENCE, f"said  {SENTENCE}"]
    assert piped.stderr.splitlines() == [SENTENCE]
    first, last = "mbc is a compressed long-term memory for language models, and this sentence has", "more than 80"
    lines = [line.rstrip() for line in drawn.splitlines()]
    assert lines[:2] == [first, f"{last} characters."]
    assert lines[2:4] == lines[:2]
    assert lines[4].startswith("said  mbc is a")
    assert lines[5].startswith("      sentence has more")
