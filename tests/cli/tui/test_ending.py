"""The dashboard's process ends with its input and on SIGTERM, even while it is stuck."""

import os
import signal
import subprocess
import sys

import pytest

from tests.needs import PATIENCE

_STUCK = "import time; from mbc_cli.tui.app import Dashboard; Dashboard._draw_if_stale = lambda _: time.sleep(86_400)"
_RUN = "import sys; from mbc_cli.app import main; sys.exit(main())"
_PAGE = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "80", "ROWS": "24"}


@pytest.fixture
def start(home):
    """Starts the process behind a page, which runs some code first, and waits until it draws."""

    def run(first):
        command = [sys.executable, "-c", f"{first}; {_RUN}", "tui", "--bank", str(home / "none.mbc")]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **_PAGE})
        drawn = b""
        while b"Overview" not in drawn and (more := os.read(process.stdout.fileno(), 4096)):
            drawn += more
        return process

    return run


@pytest.mark.slow
def test_ends_with_stdin(start):
    process = start("pass")
    process.stdin.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGHUP


@pytest.mark.slow
def test_ends_on_sigterm_while_stuck(start):
    process = start(_STUCK)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 128 + signal.SIGTERM
