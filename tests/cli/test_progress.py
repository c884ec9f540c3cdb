"""What is printed while a command works, on a terminal and in a pipe."""

import pytest
from rich.console import Console

from mbc_cli.render import terminal
from mbc_cli.render.terminal import ProgressView


def test_data_stays_on_stdout_beside_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(terminal, "notes", Console(stderr=True, force_terminal=True, width=80))
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
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    with ProgressView() as view:
        for number in completed:
            view.bar("Working", 4500, completed=number, note="fast")
    assert capsys.readouterr().err.splitlines()[-1] == line


def test_lines_in_a_pipe_do_not_break(capsys):
    terminal.out.print(words := "word " * 40)
    terminal.print_facts(("said", words))
    assert capsys.readouterr().out.count("\n") == 2
