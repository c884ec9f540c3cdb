"""What commands print on a terminal of 80 columns, which would break long lines inside words."""

import os
import pty
import subprocess
import sys

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
