"""What all commands have in common: help, errors, verbosity, interruptions, and output that cannot be written."""

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import typer

from mbc_cli.app import app, main
from mbc_cli.command_line import interrupt_message, stop_on_interrupt
from mbc_cli.config import walk_commands
from mbc_engine.bank import MemoryBank
from mbc_engine.errors import BankError, ConfigError, DataError, MBCError, ModelError, ModelMismatch
from tests.needs import PATIENCE

COMMANDS = [list(words) for words, _ in walk_commands(typer.main.get_command(app))]
SILENT = (["chat"], ["tui"], ["serve"], ["mcp"])  # they print no data of their own


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_examples_and_json(mbc, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = mbc(*command, "--help")
    assert f"   mbc {' '.join(command)}" in result.stdout.split("Examples:")[1]
    assert all(f"--{name}" in result.stdout for name in ("quiet", "verbose", "debug"))
    assert ("--json" in result.stdout) is (command not in SILENT)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("bank rm x", "Error: There is no command 'rm'.\n  Use `mbc bank remove`.\n"),
        ("ask why? --bogus", "Error: No such option: --bogus"),
        ("bank bogus", "Error: No such command 'bogus'"),
        ("ingest", "Error: Missing argument 'PATH'"),
        ("ask why? --read backwards", "Error: Invalid value for '--read': There is no read mode 'backwards'"),
        ("bank info --quiet --verbose", "Error: --quiet and --verbose contradict each other."),
        ("ask x --sources abc", "Error: Invalid value for '--sources': it has to be a whole number, such as 5.\n"),
        ("search x --top 0", "Error: Invalid value for '--top': it has to be at least 1.\n"),
        ("serve --port 99999", "Error: Invalid value for '--port': it has to be at most 65535.\n"),
        ("ask x --min-confidence 150%", "Error: --min-confidence 1.5 is not between 0 and 1.\n  0.9 means 90%.\n"),
        ("ask x --min-confidence high", "Error: Invalid value for '--min-confidence': it has to be a probability"),
    ],
)
def test_usage_errors_have_two_lines(refusal, typed, message):
    assert refusal(2, *typed.split()).startswith(message)


@pytest.mark.parametrize("error", [MBCError, ConfigError, DataError, ModelError, ModelMismatch, BankError])
def test_errors_have_two_lines_and_an_exit_code(refusal, monkeypatch, error):
    raised = error("Something is wrong.", hint="Do something else.")
    monkeypatch.setattr(MemoryBank, "open", Mock(side_effect=raised))
    assert refusal(error.exit_code, "bank", "info") == "Error: Something is wrong.\n  Do something else.\n"


def test_an_interruption_has_a_message(mbc, make_bank, record, monkeypatch):
    path = make_bank("b.mbc", record("/a", "Ada"))
    monkeypatch.setattr(MemoryBank, "open", Mock(side_effect=KeyboardInterrupt))
    result = mbc("bank", "export", "e.jsonl", "--bank", path, code=130)
    message = "Interrupted. The export is incomplete; run the same command to start over.\n"
    assert (result.stdout, result.stderr) == ("", message)


def test_debug_shows_the_traceback_of_an_unexpected_error(mbc, monkeypatch):
    monkeypatch.setattr(MemoryBank, "open", Mock(side_effect=RuntimeError("boom")))
    hint = "  Run the command again with --debug for a traceback.\n"
    assert mbc("bank", "info", code=1).stderr == f"Unexpected error: RuntimeError: boom\n{hint}"
    for command in ("--debug bank info", "bank --debug info", "bank info --debug"):
        assert "Traceback" in mbc(*command.split(), code=1).stderr


@pytest.mark.parametrize("command", ["ask why?", "bank info", "bank export", "bank reencode", "bank remove x"])
def test_a_missing_default_bank_has_a_hint(refusal, command):
    error, hint = refusal(5, *command.split()).splitlines()
    assert error.endswith("XDG_DATA_HOME/mbc/memory.mbc.")
    assert hint == ("  Nothing has been memorised yet. Start with `mbc ingest FOLDER`; `mbc demo` shows how it works.")


def test_what_cannot_be_encoded_or_decoded_is_escaped_or_replaced(monkeypatch):
    monkeypatch.setattr("mbc_cli.app.app", lambda prog_name: print("caf\u00e9", ascii(sys.stdin.read())))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff?"), "utf-8"))
    monkeypatch.setattr(sys, "stdout", printed := io.TextIOWrapper(io.BytesIO(), "ascii"))
    main()
    monkeypatch.setattr(sys, "stdin", None)
    main()
    sys.stdin.close()
    printed.flush()
    assert printed.buffer.getvalue() == b"caf\\xe9 '\\ufffd?'\ncaf\\xe9 ''\n"


QUESTION = "Where did Ada move?"


def test_quiet_prints_only_data(mbc, memory):
    command = ["ask", QUESTION]
    loud = mbc(*command)
    assert loud.stderr
    for place in (0, 1, 2):
        quiet = mbc(*command[:place], "--quiet", *command[place:])
        assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")


def test_verbose_shows_where_options_came_from(mbc, small_bank, home, monkeypatch):
    config = home / "config.toml"
    config.write_text(f'bank = "{small_bank}"')
    monkeypatch.setenv("MBC_CONFIG", str(config))
    lines = mbc("--verbose", "bank", "info").stderr.splitlines()
    assert lines[:2] == [f"config file: {config}", f"from the config: --bank {small_bank}"]
    monkeypatch.setenv("MBC_BANK", str(small_bank))
    lines = mbc("bank", "info", "--verbose").stderr.splitlines()
    assert lines[1] == f"from the environment: --bank {small_bank}"
    assert lines[-1].startswith("mbc bank info: 0.")
    assert "--bank" not in mbc("bank", "info", "--verbose", "--bank", small_bank).stderr


FULL = Path("/dev/full")


def test_closed_pipe_and_full_disk(make_bank, record):
    make_bank("memory.mbc", record("/a.txt", "Ada"))

    def run(stdout):
        command = [sys.executable, "-m", "mbc_cli", "bank", "list", "--bank", "memory.mbc"]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "500"})
        return done.returncode, done.stderr.decode()

    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody_reads:
        assert run(nobody_reads) == (141, "")
    if FULL.exists():
        message = "Error: The output cannot be written: no space left on device.\n  Free some disk space.\n"
        with FULL.open("wb", buffering=0) as full:
            assert run(full) == (1, message)


@pytest.mark.parametrize("number", [1, 2])
def test_closed_streams_keep_the_exit_code(number, home):
    command = f"exec {sys.executable} -m mbc_cli bank info --json --bank missing.mbc {number}>&-"
    assert subprocess.run(["sh", "-c", command], capture_output=True).returncode == 5


def test_innermost_message_is_used():
    with pytest.raises(KeyboardInterrupt, match="inner"), interrupt_message("outer"), interrupt_message("inner"):
        raise KeyboardInterrupt


def test_second_interrupt_ends():
    before, announced = signal.getsignal(signal.SIGINT), threading.Event()
    view = SimpleNamespace(announce=lambda _: announced.set())
    with pytest.raises(KeyboardInterrupt), stop_on_interrupt(view, "Stopping.") as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set() and announced.wait(PATIENCE)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_second_interrupt_under_a_launcher(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    with stop_on_interrupt(view := Mock(), "Stopping.") as stop:
        signal.raise_signal(signal.SIGINT)  # by the terminal
        signal.raise_signal(signal.SIGINT)  # by the launcher
        assert stop.is_set()
    view.announce.assert_called_once_with("Stopping.")
