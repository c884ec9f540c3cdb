"""What is wrong with a command is reported before torch and transformers, which take seconds, are imported."""

import subprocess
import sys

import pytest

# Runs a command; tells its exit code and which heavy libraries it has imported.
RUN = """
import sys
from mbc_cli.app import main
try:
    main()
except SystemExit as end:
    print(end.code, *sorted({"torch", "transformers"} & {*sys.modules}))
"""


def run(*command):
    """The exit code, the heavy libraries that were imported, and stderr."""
    started = [sys.executable, "-c", RUN, *map(str, command)]
    done = subprocess.run(started, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    code, *heavy = done.stdout.split()
    return int(code), heavy, done.stderr


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("ask Who? --bank memory.mbc --model nobody", 4, "There is no model 'nobody'."),
        ("ask Who? --bank memory.mbc --device abacus", 2, "'abacus' is not a device."),
        ("ask Who? --bank missing.mbc", 5, "No bank at missing.mbc."),
        ("ingest notes --model nobody", 4, "There is no model 'nobody'."),
        ("ingest empty", 3, "No files to ingest in empty."),
        ("demo --keep kept --model nobody", 4, "There is no model 'nobody'."),
        ("calibrate --data questions.jsonl --device abacus", 2, "'abacus' is not a device."),
        ("eval --data questions.jsonl --device abacus", 2, "'abacus' is not a device."),
        ("train --preset smollm2-135m --data questions.jsonl --device abacus", 2, "'abacus' is not a device."),
        ("train --preset smollm2-135m --data questions.jsonl --from nobody", 4, "There is no model 'nobody'."),
        ("bank reencode --bank memory.mbc --model nobody", 4, "There is no model 'nobody'."),
        ("mcp --bank memory.mbc --model nobody", 4, "There is no model 'nobody'."),
        ("mcp --bank notes", 5, "notes is a folder, not a bank."),
        ("serve --bank memory.mbc --port 0 --model nobody", 4, "There is no model 'nobody'."),
        ("serve --bank memory.mbc --bank missing.mbc --port 0", 5, "No bank at missing.mbc."),
    ],
)
def test_an_error_comes_before_the_heavy_libraries(home, make_bank, record, command, code, told):
    make_bank("memory.mbc", record("/a.txt", "Ada"))
    (home / "empty").mkdir()
    (home / "notes").mkdir()
    (home / "notes" / "ada.txt").write_text("Ada moved to Aalen.")
    (home / "questions.jsonl").write_text('{"text": "Ada moved.", "question": "Who?", "answers": ["Ada"]}')
    ended, heavy, stderr = run(*command.split())
    assert (ended, heavy) == (code, []), stderr
    assert stderr.startswith(f"Error: {told}\n")
