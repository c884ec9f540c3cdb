"""`mbc tui` around the dashboard: errors are reported at once, and its process ends with its input and on SIGTERM."""

import os
import pty
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import get_args

import pytest

from mbc_cli.commands.tui import View
from mbc_cli.tui.app import VIEWS
from tests.needs import PATIENCE

_STUCK = "import time; from mbc_cli.tui.app import Dashboard; Dashboard._draw_if_stale = lambda _: time.sleep(86_400)"
_RUN = "import sys; from mbc_cli.app import main; sys.exit(main())"
_PAGE = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "80", "ROWS": "24"}


def test_needs_a_terminal(refusal):
    error = refusal(2, "tui")
    assert "needs a terminal" in error and "--web" in error


def test_any_view_can_be_opened():
    assert get_args(View) == tuple(view.NAME for view in VIEWS)


def test_port_in_use(refusal):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "another with --port" in refusal(2, "tui", "--web", "--port", taken.getsockname()[1])


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "end", "number"),
    [
        ("pass", lambda process: process.stdin.close(), signal.SIGHUP),
        (_STUCK, lambda process: process.send_signal(signal.SIGTERM), signal.SIGTERM),
    ],
    ids=["stdin", "stuck"],
)
def test_ends(home, first, end, number):
    command = [sys.executable, "-c", f"{first}; {_RUN}", "tui", "--bank", str(home / "none.mbc")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **_PAGE})
    drawn = b""
    while b"Overview" not in drawn and (more := os.read(process.stdout.fileno(), 4096)):
        drawn += more
    end(process)
    assert process.wait(PATIENCE) == 128 + number
