import re

import pytest
from rich.console import Console

from mbc_cli.render import progress
from mbc_cli.render import terminal as render
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import status_spinner


@pytest.fixture
def terminal(monkeypatch):
    """Makes stderr a terminal; stdout stays a pipe."""
    monkeypatch.setattr(progress, "notes", Console(stderr=True, force_terminal=True, width=80))


def test_data_stays_on_stdout(terminal, capsys):
    with ProgressView() as view:
        view.bar("Working", 2, completed=1)
        print("data")
    assert capsys.readouterr().out == "data\n"


def test_spinner_is_not_markup(monkeypatch, capsys):
    monkeypatch.setattr(render, "notes", Console(stderr=True, force_terminal=True, width=80))
    with status_spinner("Reading newswire:train:5000 and [bold]a[/b].jsonl"):
        pass
    assert "Reading newswire:train:5000 and [bold]a[/b].jsonl…" in capsys.readouterr().err


def test_a_bar_fits_80_columns(terminal, capsys):
    with ProgressView(in_bytes=True) as view:
        view.bar("Memorising anew", 345_600_000_000, completed=123_400_000_000, note="1,234 documents/s")
    drawn = capsys.readouterr().err
    assert "1,234 documents/s" in drawn
    assert "\u2026" not in drawn


def test_training_fits_80_columns(terminal, capsys):
    note = "loss 3.123 · source 87% · 112 questions/s"
    with ProgressView() as view:
        view.bar("Training", 50_000, completed=43_120, note=note)
    drawn = capsys.readouterr().err.splitlines()
    assert any(note in line and line.rstrip("\x1b[0m").endswith("-:--:--") for line in drawn)


def test_long_notes_are_cut(monkeypatch, capsys):
    monkeypatch.setattr(progress, "notes", Console(stderr=True, force_terminal=True, width=50))
    with ProgressView() as view:
        view.bar("Training", 50_000, completed=43_120, note="loss 3.123 · source 87% · 112 questions/s")
    assert re.search(r"loss 3\.[^\n]*…", capsys.readouterr().err)


def test_bar_shows_a_rate(terminal, capsys):
    with ProgressView() as view:
        for completed in range(3):
            view.bar("Copying", 10, completed=completed)
    assert re.search(r"\d/s", capsys.readouterr().err)


def test_quiet_hides_bars(monkeypatch, capsys):
    console = Console(stderr=True, force_terminal=True, width=80)
    console.quiet = True
    monkeypatch.setattr(progress, "notes", console)
    with ProgressView() as view:
        view.bar("Working", 2, completed=1)
        view.line("a line")
    assert capsys.readouterr().err == ""


def test_pipe_gets_a_line_now_and_then(monkeypatch, capsys):
    clock = iter([0.0, 10.0, 30.0, 40.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with ProgressView() as view:
        for completed in (0, 500, 1500, 2500):
            view.bar("Working", 4500, completed=completed, note="fast")
    assert capsys.readouterr().err == "Working: 1,500 of 4,500, 1 min 00 s left · fast\n"


def test_restarted_bar_forgets_its_past(monkeypatch, capsys):
    clock = iter([0.0, 1000.0, 1010.0, 1040.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with ProgressView() as view:
        for completed in (0, 400, 10, 100):
            view.bar("Answering", 400, completed=completed)
    assert capsys.readouterr().err.splitlines()[-1] == "Answering: 100 of 400, 1 min 40 s left"


def test_hidden_bar_is_not_drawn(terminal, capsys):
    with ProgressView(is_shown=False) as view:
        view.bar("Working", 2, completed=1)
    assert capsys.readouterr().err == ""
