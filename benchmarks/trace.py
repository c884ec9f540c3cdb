"""Which functions a command runs through, in which files, and what it asks of SQLite: how much of the code a reader of it
has to know, and how often it looks at the bank.

    python benchmarks/trace.py ask|ingest

Runs `mbc ingest` or `mbc ask` with mini in a temporary folder and prints how many functions of both packages ran in
this process, then every file in which one did, with its number of lines and of these functions; and how many
connections to SQLite it opened, with the statements on them. What a module does while it is imported is not counted,
nor what other processes do.
"""

import argparse
import contextlib
import inspect
import io
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = tuple(f"{_ROOT / name}{os.sep}" for name in ("mbc_engine", "mbc_cli"))
_NOTES = {
    "ada.txt": "Ada Lovelace wrote the first program in 1843. She lived in London.\n",
    "towers.md": "# Towers\n\nThe Eiffel Tower was finished in 1889. It stands in Paris.\n",
    "trips.csv": "place,text\nOslo,We took the ferry to Oslo in May.\nRome,The train to Rome was late.\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("ask", "ingest"))
    traced, statements = trace(parser.parse_args().command)
    _report(traced)
    print("SQLite: " + ", ".join(f"{count} {name}" for name, count in sorted(statements.items())))


def counts(command: str) -> dict[str, int]:
    """The figures of the section in docs/performance.md, by their headings."""
    traced, statements = trace(command)
    return {
        "functions": len(traced),
        "files": len({code.co_filename for code in traced}),
        "connections": statements["connections"],
        "SELECTs": statements["SELECT"],
    }


def trace(command: str) -> tuple[set[CodeType], Counter[str]]:
    """Run `mbc ask` or `mbc ingest` in a folder of its own: the functions that ran, and SQLite's statements."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        os.environ |= {f"XDG_{kind}_HOME": f"{name}/{kind.lower()}" for kind in ("CONFIG", "DATA", "STATE")}
        notes = Path("notes")
        notes.mkdir()
        for file, text in _NOTES.items():
            (notes / file).write_text(text)
        ingest = ["ingest", "notes", "--bank", "trace.mbc", "--codec", "zstd"]
        if command == "ask":
            # In a process of its own, so that nothing is loaded or kept from it.
            run = [sys.executable, "-m", "mbc_cli", "--quiet", *ingest]
            subprocess.run(run, env=os.environ | {"PYTHONPATH": str(_ROOT)}, stdout=subprocess.DEVNULL, check=True)
            return _traced(["ask", "When was the Eiffel Tower finished?", "--bank", "trace.mbc"])
        return _traced(ingest)


def _traced(arguments: list[str]) -> tuple[set[CodeType], Counter[str]]:
    """The functions of both packages that run in this process while `mbc` does a command, and SQLite's statements."""
    sys.path.insert(0, str(_ROOT))
    from mbc_cli.app import main as mbc

    statements: Counter[str] = Counter()
    connect = sqlite3.connect

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **options)
        statements["connections"] += 1
        connection.set_trace_callback(lambda text: statements.update([text.split()[0].upper()]))
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]

    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code not in seen and _is_ours(frame):
            seen.add(frame.f_code)

    sys.argv = ["mbc", *arguments]
    output = io.StringIO()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(output):
            mbc()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # its stub forgets that None ends it
    return seen, statements


def _is_ours(frame: FrameType | None) -> bool:
    """Whether this is a function of ours, and not one that a module calls while it is imported."""
    assert frame is not None
    code = frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name[0] != "<"
    if not (is_function and code.co_filename.startswith(_PACKAGES)):
        return False
    caller = frame.f_back
    while caller is not None:
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(_PACKAGES):
            return False
        caller = caller.f_back
    return True


def _report(seen: set[CodeType]) -> None:
    functions = Counter(code.co_filename for code in seen)
    lines = {file: len(Path(file).read_text().splitlines()) for file in functions}
    print(f"{len(seen)} functions in {len(functions)} files of {sum(lines.values()):,} lines")
    for file in sorted(functions):
        print(f"{lines[file]:6,} lines  {functions[file]:3} functions  {Path(file).relative_to(_ROOT)}")


if __name__ == "__main__":
    main()
