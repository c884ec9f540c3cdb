"""`mbc tui` before the dashboard opens: errors are reported at once."""

import socket
from typing import Any

import pytest

from mbc_cli.tui.app import VIEWS


def test_without_a_terminal_it_says_what_it_needs(mbc: Any) -> None:
    result = mbc("tui")
    assert result.exit_code == 2
    assert "needs a terminal" in result.stderr and "--web" in result.stderr


def test_a_view_that_is_not_there_is_refused_with_the_names_of_all(mbc: Any) -> None:
    result = mbc("tui", "--view", "kitchen")
    assert result.exit_code == 2
    assert all(view.NAME in result.stderr for view in VIEWS)


def test_a_port_that_is_taken_is_refused(mbc: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = mbc("tui", "--web", "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "another with --port" in result.stderr


@pytest.mark.parametrize("view", [view.NAME for view in VIEWS])
def test_help_names_every_view(mbc: Any, view: str) -> None:
    assert view in mbc("tui", "--help").output
