import subprocess
import sys
import time

import pytest

from mbc_engine import __version__
from mbc_engine.errors import BankError, ConfigError, DataError, MBCError, ModelError, ModelMismatch

VERBS = (*("info", "list", "show", "verify", "remove", "merge", "compact", "export", "import", "reencode", "upgrade"),)
COMMANDS = (["demo"], ["ingest"], ["ask"], *(["bank", verb] for verb in VERBS), ["train"], ["eval"])


def test_version_is_the_engines(mbc):
    assert mbc("--version").stdout == f"mbc {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_examples_and_json(mbc, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = mbc(*command, "--help")
    assert result.exit_code == 0
    assert f"mbc {' '.join(command)}" in result.stdout.split("Examples:")[1]
    assert "--json" in result.stdout


def test_help_keeps_the_colons_of_generated_data(mbc):
    assert "newswire:train:5000" in mbc("train", "--help").stdout


def test_without_a_command_help_is_shown(mbc):
    assert "ingest" in mbc().output


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
def test_an_error_is_two_lines_on_stderr_and_its_own_exit_code(mbc, monkeypatch, error, code):
    _raise(monkeypatch, error("Something is wrong.", hint="Do something else."))
    result = mbc("bank", "info")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "Error: Something is wrong.\n  Do something else.\n"


def test_an_interruption_is_one_line(mbc, monkeypatch):
    _raise(monkeypatch, KeyboardInterrupt())
    result = mbc("bank", "info")
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_an_unexpected_error_points_to_debug(mbc, monkeypatch):
    _raise(monkeypatch, RuntimeError("boom"))
    result = mbc("bank", "info")
    assert result.exit_code == 1
    assert result.stderr.startswith("Unexpected error: RuntimeError: boom\n")
    assert "mbc --debug bank info" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("error", [RuntimeError("boom"), DataError("boom")], ids=["unexpected", "ours"])
def test_debug_shows_the_traceback(mbc, monkeypatch, error):
    _raise(monkeypatch, error)
    assert "Traceback" in mbc("--debug", "bank", "info").stderr


def test_a_wrong_option_is_a_usage_error(mbc):
    assert mbc("ask", "why?", "--bogus").exit_code == 2


def test_a_foreign_argument_is_never_markup(mbc):
    result = mbc("bank", "info", "--bank", "[/red]\x1b[31m.mbc")
    assert result.exit_code == 5
    assert "No bank at [/red]␛[31m.mbc." in result.stderr


@pytest.mark.parametrize(
    "commands",
    [
        [["--help"], ["--version"], ["train", "--list-presets"]],
        [
            ["bank", "info"],
            ["bank", "list"],
            ["bank", "show", "/a"],
            ["bank", "verify"],
            ["bank", "merge", "b.mbc", "--bank", "c.mbc"],
            ["bank", "export", "b.jsonl"],
            ["bank", "import", "b.jsonl", "--bank", "d.mbc"],
            ["bank", "remove", "/a", "--prove"],
            ["bank", "compact"],
        ],
    ],
    ids=["alone", "bank"],
)
def test_what_needs_no_model_imports_no_torch(commands, make_bank, record, monkeypatch):
    monkeypatch.setenv("MBC_BANK", str(make_bank("b.mbc", record("/a", "Ada"))))
    script = (
        "import sys; from mbc_cli.app import app\n"
        f"for arguments in {commands!r}:\n"
        "    try: app(arguments)\n"
        "    except SystemExit as end: assert not end.code, arguments\n"
        "print(sorted({'torch', 'transformers', 'peft'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_starts_fast():
    best = min(_seconds([sys.executable, "-m", "mbc_cli", "--help"]) for _ in range(3))
    assert best < 0.5


def test_main_prints_what_the_terminal_cannot_show_as_escapes(tmp_path):
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
def test_main_reads_what_is_not_text_as_marks(closing):
    script = f"import sys; from mbc_cli.app import main; {closing}sys.argv[1:] = ['--version']\ntry: main()\n"
    script += "finally: print(ascii(sys.stdin and sys.stdin.read()))"
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run([sys.executable, "-c", script], input=b"\xff?", capture_output=True, env=environment)
    assert done.stdout.split()[-1] == (b"None" if closing else b"'\\ufffd?'")


def _seconds(command):
    began = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - began


def _raise(monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("mbc_engine.bank.MemoryBank.open", fail)
