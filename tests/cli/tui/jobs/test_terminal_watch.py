"""A dashboard whose terminal goes without a signal ends, instead of reading from nothing for ever."""

import os
import pty
import subprocess
import sys
from pathlib import Path


def test_a_dashboard_ends_with_its_terminal(home: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mbc_cli", "tui", "--bank", str(home / "none.mbc")]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        drawn = b""
        while b"Overview" not in drawn:
            drawn += os.read(ours, 65536)
        os.close(ours)
        assert process.wait(timeout=20) == 129
