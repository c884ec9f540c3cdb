import subprocess
import sys

import pytest
import typer

from mbc_cli.app import app
from mbc_cli.config import default_bank, walk_commands
from mbc_engine import __version__
from mbc_engine.errors import BankError, ConfigError, DataError, MBCError, ModelError, ModelMismatch
from tests.newswire import STORIES

COMMANDS = [list(words) for words, _ in walk_commands(typer.main.get_command(app))]
SILENT = (["chat"], ["tui"], ["serve"], ["mcp"])  # they print no data of their own


def test_version_is_the_engines(mbc):
    assert mbc("--version").stdout == f"mbc {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_examples_and_json(mbc, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = mbc(*command, "--help")
    assert result.exit_code == 0
    assert f"mbc {' '.join(command)}" in result.stdout.split("Examples:")[1]
    assert all(f"--{name}" in result.stdout for name in ("quiet", "verbose", "debug"))
    assert ("--json" in result.stdout) is (command not in SILENT)


def test_the_help_of_a_group_has_the_first_paragraph_of_each_command():
    def first_paragraphs():
        return {words: command.help.split("\n\n")[0] for words, command in walk_commands(program)}

    program = typer.main.get_command(app)
    before_their_modules_are_imported = first_paragraphs()
    for _, command in walk_commands(program):
        assert command.params
    assert before_their_modules_are_imported == first_paragraphs()


@pytest.mark.parametrize("command", [[], ["bank"], ["config"]], ids=["mbc", "bank", "config"])
def test_without_a_command_help_is_shown(mbc, command):
    result = mbc(*command)
    assert result.exit_code == 0
    assert result.stdout.strip() == mbc(*command, "--help").stdout.strip()
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("remove x", "Error: There is no command 'remove'.\n  Use `mbc bank remove`.\n"),
        ("list", "Error: There is no command 'list'.\n  Use `mbc bank list`.\n"),
        ("undo", "Error: There is no command 'undo'.\n  Use `mbc bank undo`.\n"),
        ("bank rm x", "Error: There is no command 'rm'.\n  Use `mbc bank remove`.\n"),
        ("ask x --sources abc", "Error: Invalid value for '--sources': it has to be a whole number, such as 5.\n"),
        ("ask x --min-confidence 150%", "Error: --min-confidence 1.5 is not between 0 and 1.\n  0.9 means 90%.\n"),
        (
            "ask x --min-confidence high",
            "Error: Invalid value for '--min-confidence': it has to be a probability, such as 0.9 or 90%.\n",
        ),
    ],
)
def test_hints_for_typed_commands(mbc, typed, message):
    result = mbc(*typed.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(message)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MBCError, 1),
        (ConfigError, 2),
        (DataError, 3),
        (ModelError, 4),
        (ModelMismatch, 4),
        (BankError, 5),
    ],
)
def test_errors_have_two_lines_and_an_exit_code(mbc, monkeypatch, error, code):
    _raise(monkeypatch, error("Something is wrong.", hint="Do something else."))
    result = mbc("bank", "info")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "Error: Something is wrong.\n  Do something else.\n"


def test_an_interruption_has_a_message(mbc, make_bank, record, monkeypatch):
    path = make_bank("b.mbc", record("/a", "Ada"))
    _raise(monkeypatch, KeyboardInterrupt())
    result = mbc("bank", "export", "e.jsonl", "--bank", path)
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "Interrupted. The export is incomplete; run the same command to start over.\n"


def test_an_unexpected_error_points_to_debug(mbc, monkeypatch):
    _raise(monkeypatch, RuntimeError("boom"))
    result = mbc("bank", "info")
    assert result.exit_code == 1
    assert result.stderr.startswith("Unexpected error: RuntimeError: boom\n")
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("error", [RuntimeError("boom"), DataError("boom")], ids=["unexpected", "ours"])
@pytest.mark.parametrize("command", ["--debug bank info", "bank --debug info", "bank info --debug"])
def test_debug_shows_the_traceback(mbc, monkeypatch, error, command):
    _raise(monkeypatch, error)
    assert "Traceback" in mbc(*command.split()).stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ask why? --bogus", "Error: No such option: --bogus"),
        ("bogus", "Error: No such command 'bogus'"),
        ("bank bogus", "Error: No such command 'bogus'"),
        ("ingest", "Error: Missing argument 'PATH'"),
        ("eval", "Error: There is nothing to evaluate on."),
        ("ask why? --sources many", "Error: Invalid value for '--sources'"),
        ("ask why? --read backwards", "Error: Invalid value for '--read': There is no read mode 'backwards'"),
        ("bank info --quiet --verbose", "Error: --quiet and --verbose contradict each other."),
    ],
)
def test_usage_errors_have_two_lines(mbc, command, said):
    result = mbc(*command.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(said)
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "command",
    [
        "ask why?",
        *(f"bank {name}" for name in ["info", "list", "verify", "compact", "export", "reencode"]),
        "bank show x",
        "bank remove x",
    ],
)
def test_a_missing_default_bank_has_a_hint(mbc, command):
    result = mbc(*command.split())
    assert (result.exit_code, result.stdout) == (5, "")
    assert "XDG_DATA_HOME/mbc/memory.mbc" in result.stderr
    assert result.stderr.splitlines()[1] == (
        "  Nothing has been memorised yet. Start with `mbc ingest FOLDER`; `mbc demo` shows how it works."
    )


def test_a_missing_bank_is_named(mbc):
    assert "mbc ingest FOLDER --bank other.mbc" in mbc("bank", "info", "--bank", "other.mbc").stderr
    longer = f"{default_bank()}.bak"
    assert f"mbc ingest FOLDER --bank {longer}" in mbc("bank", "info", "--bank", longer).stderr


@pytest.mark.parametrize(
    "command",
    [
        "config set ask.model {}/x",
        f"train --preset distilgpt2 --data {STORIES} --from {{}}",
        f"train --preset distilgpt2 --data {STORIES} --base {{}}",
        "bank remove {} --ignore --bank memory.mbc",
    ],
)
def test_overlong_names_are_handled(mbc, bank, command):
    assert "Unexpected" not in mbc(*command.format("a" * 300).split()).stderr


def test_unencodable_output_is_escaped(tmp_path):
    script = (
        "import sys; from mbc_cli.app import main; sys.argv[1:] = ['bank', 'info', '--bank', 'caf\\u00e9.mbc']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 5
    assert b"caf\\xe9.mbc" in done.stderr


@pytest.mark.parametrize("closing", ["", "sys.stdin = None; "])
def test_invalid_utf8_in_stdin_is_replaced(closing):
    script = f"import sys; from mbc_cli.app import main; {closing}sys.argv[1:] = ['--version']\ntry: main()\n"
    script += "finally: print(ascii(sys.stdin.read()))"
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run([sys.executable, "-c", script], input=b"\xff?", capture_output=True, env=environment)
    assert done.stdout.split()[-1] == (b"''" if closing else b"'\\ufffd?'")


def _raise(monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("mbc_engine.bank.MemoryBank.open", fail)


def test_typer_leaves_unreadable_files_to_commands():
    """Typer would call a file that cannot be read a wrong option, exit code 2, where documents have 3 and banks 5."""
    root = typer.main.get_command(app)
    options = [param for _, command in walk_commands(root) for param in command.params]
    assert options
    assert not any(param.type_descriptor.parameter_info.readable for param in options)
