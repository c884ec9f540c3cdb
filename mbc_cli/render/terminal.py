"""How much is said beside data and errors: less with --quiet, more with --verbose, tracebacks with --debug.

The consoles: `out` for data, `notes` for what --quiet silences, `errors`; and data on stdout as JSON or a table.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mbc_cli.text import plain


@dataclass(frozen=True)
class Verbosity:
    """What was asked for.

    Attributes:
        quiet: nothing but data and errors.
        verbose: also what was taken from where, how long things took, and what the libraries warn of.
        debug: the traceback of an error.
    """

    quiet: bool = False
    verbose: bool = False
    debug: bool = False


_current = Verbosity()


def verbosity() -> Verbosity:
    """What holds now."""
    return _current


@contextmanager
def held(chosen: Verbosity) -> Iterator[None]:
    """Inside, this holds, also in other threads."""
    global _current  # noqa: PLW0603  # a process does one command
    before, _current = _current, chosen
    try:
        yield
    finally:
        _current = before


# No string is ever read as markup: most of them hold text from outside.
out = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
notes = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)
errors = Console(stderr=True, markup=False, emoji=False, highlight=False, soft_wrap=True)


@contextmanager
def talking(chosen: Verbosity) -> Iterator[None]:
    """Inside, as much is said as is chosen; the console of notes obeys."""
    was_quiet, notes.quiet = notes.quiet, chosen.quiet
    try:
        with held(chosen):
            yield
    finally:
        notes.quiet = was_quiet


def detail(text: str) -> None:
    """A line on stderr where --verbose asks for it; it may hold foreign text."""
    if verbosity().verbose:
        notes.print(Text(plain(text), "dim"))


def working(what: str) -> AbstractContextManager[object]:
    """Show on a terminal that something is under way whose end cannot be told."""
    return notes.status(f"{plain(what)}…") if notes.is_terminal and not notes.quiet else nullcontext()


def print_json(value: Any) -> None:
    """One JSON value on stdout, laid out for a terminal, on one line for a pipe. Only ASCII: nothing to inject."""
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None), flush=True)


def print_json_lines(values: Iterable[Any]) -> None:
    """JSON values on stdout as they come, one a line; ASCII as well."""
    for value in values:
        print(json.dumps(value))
    sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table on a terminal; lines of tab-separated values without a heading in a pipe.

    Args:
        columns: headings.
        rows: cells, which may hold foreign text.
        right: headings of the columns to align on the right.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    if not out.is_terminal:
        for row in cells:
            print("\t".join(row))  # Rich would turn tabs into spaces
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    out.print(table, soft_wrap=False)


def print_rows(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[object]]) -> None:
    """A table as `print_table` prints it, but row by row as they come, for tables of any length.

    Args:
        columns: headings, and how cells are aligned on a terminal: `>7` is on the right of 7 places.
        rows: cells, which may hold foreign text.
    """
    if not out.is_terminal:
        for row in rows:
            print("\t".join(map(plain, row)))
        return
    out.print("  ".join(format(name, places) for name, places in columns).rstrip(), style="bold")
    for row in rows:
        cells = (format(plain(cell), places) for cell, (_, places) in zip(row, columns, strict=True))
        print("  ".join(cells).rstrip())


def print_indented(text: str, *, by: int, style: str = "") -> None:
    """Foreign text on stdout, wrapped within its indentation on a terminal."""
    if out.is_terminal:
        out.print(Padding(Text(plain(text), style), (0, 0, 0, by)), soft_wrap=False)
    else:
        out.print(" " * by + plain(text))


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Labelled values on stdout, one a line; values may hold foreign text."""
    width = max(len(label) for label, _ in facts)
    for label, value in facts:
        out.print(Text.assemble((f"{label:<{width}}  ", "dim"), plain(value)))
