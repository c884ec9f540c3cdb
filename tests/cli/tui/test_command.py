"""`mbc tui` before the dashboard opens: errors are reported at once."""

import socket

from mbc_cli.tui.app import VIEWS


def test_needs_a_terminal(mbc):
    result = mbc("tui")
    assert result.exit_code == 2
    assert "needs a terminal" in result.stderr and "--web" in result.stderr


def test_unknown_view(mbc):
    result = mbc("tui", "--view", "kitchen")
    assert result.exit_code == 2
    assert all(view.NAME in result.stderr for view in VIEWS)


def test_port_in_use(mbc):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = mbc("tui", "--web", "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "another with --port" in result.stderr
