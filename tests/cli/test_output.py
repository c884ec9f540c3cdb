"""What happens when output cannot be written: nobody reads it any more, or the disk is full."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


@pytest.fixture
def files(make_bank, record, home):
    make_bank("memory.mbc", record("/a.txt", "Ada"))
    (home / "XDG_CONFIG_HOME" / "mbc").mkdir(parents=True)
    (home / "XDG_CONFIG_HOME" / "mbc" / "config.toml").write_text('model = "mini"\n')


def _closed(*command, unbuffered=""):
    """The exit code and stderr of a command whose stdout nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return _run(command, writer, unbuffered)
    finally:
        os.close(writer)


def _full(*command, unbuffered=""):
    with FULL.open("wb") as stdout:
        return _run(command, stdout, unbuffered)


def _run(command, stdout, unbuffered):
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered, "COLUMNS": "500"}
    started = [sys.executable, "-m", "mbc_cli", *map(str, command)]
    done = subprocess.run(started, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, env=environment)
    return done.returncode, done.stderr.decode()


@pytest.mark.usefixtures("files")
def test_closed_pipe_and_full_disk():
    command = ("bank", "list", "--bank", "memory.mbc")
    assert _closed(*command) == (141, "")
    if FULL.exists():
        message = "Error: The output cannot be written: no space left on device.\n  Free some disk space.\n"
        assert _full(*command) == (1, message)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_streams_keep_the_exit_code(stream, home):
    number = {"stdout": 1, "stderr": 2}[stream]
    command = f"exec {sys.executable} -m mbc_cli bank info --json --bank missing.mbc {number}>&-"
    assert subprocess.run(["sh", "-c", command], capture_output=True).returncode == 5


def test_unread_errors_keep_the_exit_code(home):
    for command, code in ((["--nonsense"], 2), (["bank", "info", "--bank", "missing.mbc"], 5)):
        reader, writer = os.pipe()
        os.close(reader)
        started = [sys.executable, "-m", "mbc_cli", *command]
        assert subprocess.run(started, stdout=writer, stderr=writer).returncode == code
        os.close(writer)
