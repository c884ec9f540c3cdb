"""What is wrong with a command is reported before torch and transformers, which take seconds, are imported."""

import subprocess
import sys

# Runs commands, each in a fork of a process that has loaded the command line; prints their exit codes and which heavy
# libraries they have imported.
RUN = """
import os, sys
from mbc_cli.app import main
for command in sys.argv[1:]:
    if child := os.fork():
        os.waitpid(child, 0)
        continue
    sys.argv[1:] = command.split()
    try:
        main()
    except SystemExit as end:
        print(end.code, *sorted({"torch", "transformers"} & {*sys.modules}), flush=True)
    sys.stderr.flush()
    os._exit(0)
"""
ERRORS = (
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
)


def test_an_error_comes_before_the_heavy_libraries(home, make_bank, record):
    make_bank("memory.mbc", record("/a.txt", "Ada"))
    (home / "empty").mkdir()
    (home / "notes").mkdir()
    (home / "notes" / "ada.txt").write_text("Ada moved to Aalen.")
    (home / "questions.jsonl").write_text('{"text": "Ada moved.", "question": "Who?", "answers": ["Ada"]}')
    commands = [command for command, _, _ in ERRORS]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *commands], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    for (command, code, message), line, error in zip(ERRORS, done.stdout.splitlines(), errors, strict=True):
        assert (line, error) == (str(code), f"Error: {message}"), command
