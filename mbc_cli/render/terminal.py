"""What commands print: data on `out`, notes that --quiet silences on `notes`, and `errors`; as text, tables or JSON."""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, is_dataclass
from typing import Any, Literal

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mbc_cli.text import sanitise


# No string is ever parsed as markup: most contain untrusted text.
def _console(*, stderr: bool = False) -> Console:
    console = Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.soft_wrap = not console.is_terminal  # Rich would otherwise break lines inside words
    return console


out, notes, errors = _console(), _console(stderr=True), _console(stderr=True)
_switches: set[str] = set()  # a process runs one command


def is_on(switch: Literal["quiet", "verbose", "debug"]) -> bool:
    """Whether the running command was given --quiet, --verbose or --debug."""
    return switch in _switches


@contextmanager
def verbosity(switches: Iterable[str]) -> Iterator[None]:
    _switches.update(switches)
    was_quiet, notes.quiet = notes.quiet, is_on("quiet")
    try:
        yield
    finally:
        _switches.clear()
        notes.quiet = was_quiet


def print_verbose(text: str) -> None:
    if is_on("verbose"):
        notes.print(Text(sanitise(text), "dim"))


def status_spinner(what: str) -> AbstractContextManager[object]:
    return notes.status(Text(f"{sanitise(what)}…")) if notes.is_terminal and not notes.quiet else nullcontext()


def print_json(value: Any) -> None:
    """Print one JSON value, indented on a terminal; ASCII only. Dataclasses become objects, paths strings."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None, default=_as_json), flush=True)


def print_json_lines(values: Iterable[Any]) -> None:
    for value in values:
        print(json.dumps(value, default=_as_json))
    sys.stdout.flush()


def _as_json(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str]) -> None:
    """Print a table on a terminal; tab-separated without headings in a pipe."""
    cells = [list(map(sanitise, row)) for row in rows]
    if not out.is_terminal:
        for row in cells:
            print("\t".join(row))  # Rich would turn tabs into spaces
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    out.print(table)


def print_rows(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> None:
    """Like `print_table`, but row by row; columns are headings with formats: `>7` is right-aligned, 7 wide."""
    if out.is_terminal:
        out.print("  ".join(format(name, layout) for name, layout in columns).rstrip(), style="bold")
    for row in rows:
        cells = list(map(sanitise, row))
        if out.is_terminal:
            print("  ".join(format(cell, layout) for cell, (_, layout) in zip(cells, columns, strict=True)).rstrip())
        else:
            print("\t".join(cells))


def print_indented(text: str | Text, *, by: int, style: str = "") -> None:
    """Print untrusted text, wrapped within its indentation on a terminal; a `Text` is already sanitised."""
    shown = text if isinstance(text, Text) else Text(sanitise(text), style)
    if out.is_terminal:
        out.print(Padding(shown, (0, 0, 0, by)))
    else:
        out.print(" " * by + shown.plain)


def print_facts(*facts: tuple[str, object]) -> None:
    """Print labels and values, unless None or False, in two columns; on a terminal, long values wrap within theirs."""
    shown = [(label, sanitise(value)) for label, value in facts if value is not None and value is not False]
    width = max((len(label) for label, _ in shown), default=0)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in shown:
        if out.is_terminal:
            table.add_row(label, Text(value))
        else:
            out.print(f"{label:<{width}}  {value}")
    if out.is_terminal:
        out.print(table)
