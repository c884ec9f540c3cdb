"""Commands that need no model import no heavy library, and wrong input is reported before one is imported."""

import subprocess
import sys

import pytest

from mbc_engine import ingest, load_model, open_bank
from mbc_engine.events import TrainStarted
from tests.conftest import write_log
from tests.needs import embedded_encoder

HEAVY = {"torch", "transformers", "peft", "accelerate", "textual", "ray"}

# Runs commands, one after the other in a process; prints their exit codes and which of the modules are imported by then.
# A command that begins with "complete" is completed.
RUN = f"""
import os, sys
from mbc_cli.app import main
stdout, sys.stdout = sys.stdout, open(os.devnull, "w")
print(*sorted({{"numpy", *{HEAVY!r}}} & {{*sys.modules}}), file=stdout)
for command in sys.argv[1:]:
    words = command.split()
    if words[0] == "complete":
        os.environ |= {{"_MBC_COMPLETE": "complete_bash", "COMP_WORDS": f"mbc {{command[9:]}} ", "COMP_CWORD": "3"}}
        words = []
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        print(end.code or 0, *sorted({HEAVY!r} & {{*sys.modules}}), file=stdout)
    os.environ.pop("_MBC_COMPLETE", None)
"""
SUCCESSFUL = (
    *("--help", "--version", "ask --help", "train --list-presets", "runs list", "runs show first"),
    *("models list", "config set bank b.mbc", "config list", "config get bank", "config unset bank", "config path"),
    *("bank info", "bank list", "bank show /a.txt", "bank verify", "bank merge b.mbc --bank c.mbc", "bank compact"),
    *("bank export b.jsonl", "bank import b.jsonl --bank d.mbc", "bank remove /a.txt --prove"),
    *("complete ask --bank", "complete ask --model", "complete eval --method", "complete eval --suite"),
    *("complete eval --run", "complete train --preset", "complete train --run", "complete config set"),
)
WRONG = (
    ("ask Who? --model nobody", 4, "There is no model 'nobody'."),
    ("ask Who? --bank missing.mbc", 5, "No bank at missing.mbc."),
    ("ask Who? --since soon", 2, "--since 'soon' is not a date."),
    ("ask --questions none.txt", 3, "none.txt cannot be read: no such file or directory."),
    ("ingest notes --model nobody", 4, "There is no model 'nobody'."),
    ("ingest empty", 3, "No files to ingest in empty."),
    ("demo --keep kept --model nobody", 4, "There is no model 'nobody'."),
    ("calibrate --data questions.jsonl --device abacus", 2, "'abacus' is not a device."),
    ("eval --data questions.jsonl --device abacus", 2, "'abacus' is not a device."),
    ("train --preset smollm2-135m --data questions.jsonl --from nobody", 4, "There is no model 'nobody'."),
    ("bank reencode --model nobody", 4, "There is no model 'nobody'."),
    ("mcp --model nobody", 4, "There is no model 'nobody'."),
    ("mcp --bank notes", 5, "notes is a folder, not a bank."),
    ("serve --port 0 --model nobody", 4, "There is no model 'nobody'."),
    ("serve --bank b.mbc --bank missing.mbc --port 0", 5, "No bank at missing.mbc."),
)


def test_no_heavy_imports(home, make_bank, record, monkeypatch):
    monkeypatch.setenv("MBC_BANK", str(make_bank("b.mbc", record("/a.txt", "Ada"))))
    (home / "empty").mkdir()
    (home / "notes").mkdir()
    (home / "notes" / "ada.txt").write_text("Ada moved to Aalen.")
    (home / "questions.jsonl").write_text('{"text": "Ada moved.", "question": "Who?", "answers": ["Ada"]}')
    run = home / "XDG_DATA_HOME" / "mbc" / "runs" / "first"
    write_log(run / "events.jsonl", TrainStarted(0, 10, 40, 38, 1000))
    commands = [*(command for command, _, _ in WRONG), *SUCCESSFUL]
    command = [sys.executable, "-c", RUN, *commands]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    at_start, *outcomes = done.stdout.splitlines()
    assert at_start == ""
    expected = [*(str(code) for _, code, _ in WRONG), *("0" for _ in SUCCESSFUL)]
    assert dict(zip(commands, outcomes, strict=True)) == dict(zip(commands, expected, strict=True)), done.stderr
    errors = [line.removeprefix("Error: ") for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert errors == [message for _, _, message in WRONG]


# What only some commands need.
OPTIONAL = {
    *(f"mbc_cli.{name}" for name in ("http", "mcp", "tui", "model_thread", "request_fields")),
    *(f"mbc_engine.{name}" for name in ("evaluation", "training", "ingestion", "datasets", "paper", "events")),
    *(f"mbc_engine.{name}" for name in ("bank.exchange", "mini", "mini.writer", "shards")),
    *("numpy", "numpy.ma", "pydantic", "filelock", "http.client", "huggingface_hub.file_download", "bitsandbytes"),
    *HEAVY,
}
PRINT_MODULES = """
import sys
from mbc_cli.app import main
try:
    main()
finally:
    sys.stderr.write("\\n" + " ".join(sys.modules))
"""


@pytest.fixture(scope="module")
def mini_bank(tmp_path_factory):
    """A bank of the embedded model."""
    folder = tmp_path_factory.mktemp("mini")
    (folder / "ada.txt").write_text("Ada moved to Aalen.")
    model = load_model("mini", reader="small")
    with open_bank(model, folder / "b.mbc") as bank:
        list(ingest(model, bank, [folder / "ada.txt"]))
    return folder / "b.mbc"


@embedded_encoder
@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("--help", set()),
        ("ask --help", {"mbc_cli.commands.ask"}),
        ("config path", {"mbc_cli.commands.config"}),
        ("ask Who moved?", {"mbc_cli.commands.ask", "mbc_engine.mini", "numpy", "pydantic"}),
        ("search Ada", {"mbc_cli.commands.ask", "mbc_engine.mini", "numpy", "pydantic"}),
        ("bank info", {"mbc_cli.commands.bank", "mbc_engine.events", "numpy"}),
    ],
)
def test_a_command_imports_nothing_that_only_others_need(command, needed, mini_bank, monkeypatch):
    monkeypatch.setenv("MBC_BANK", str(mini_bank))
    done = subprocess.run([sys.executable, "-c", PRINT_MODULES, *command.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    modules = set(done.stderr.splitlines()[-1].split())
    optional = OPTIONAL | {name for name in modules if name.startswith("mbc_cli.commands.")}
    assert modules & optional <= needed
    assert needed <= modules
