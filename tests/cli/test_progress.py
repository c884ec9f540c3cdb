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


def test_a_bar_fits_80_columns(terminal, capsys):
    with ProgressView(in_bytes=True) as view:
        view.bar("Memorising anew", 345_600_000_000, completed=123_400_000_000, note="1,234 documents/s")
    drawn = capsys.readouterr().err
    assert "1,234 documents/s" in drawn
    assert "\u2026" not in drawn


def test_quiet_hides_bars(monkeypatch, capsys):
    console = Console(stderr=True, force_terminal=True, width=80)
    console.quiet = True
    monkeypatch.setattr(progress, "notes", console)
    with ProgressView() as view:
        view.bar("Working", 2, completed=1)
        view.line("a line")
    assert capsys.readouterr().err == ""


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
