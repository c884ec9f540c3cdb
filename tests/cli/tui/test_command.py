"""`mbc tui` before the dashboard opens: errors are reported at once."""

import os
import pty
import socket
import subprocess
import sys
from contextlib import suppress

from mbc_cli.tui.app import VIEWS


def test_needs_a_terminal(mbc):
    result = mbc("tui")
    assert result.exit_code == 2
    assert "needs a terminal" in result.stderr and "--web" in result.stderr


def test_errors_can_be_redirected(home):
    parent, child = pty.openpty()
    with (home / "errors.txt").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "mbc_cli", "tui"], stdin=child, stdout=child, stderr=errors, start_new_session=True
        )
    os.close(child)
    drawn = b""
    while b"Ask" not in drawn:
        drawn += os.read(parent, 4096)
    os.write(parent, b"\x11")
    with suppress(OSError):  # closed
        while os.read(parent, 4096):
            pass
    assert process.wait() == 0
    assert (home / "errors.txt").read_text() == ""


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
