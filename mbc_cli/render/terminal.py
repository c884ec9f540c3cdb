"""What commands print: data on `out`, notes and progress that --quiet silences on `notes`, and `errors`."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mbc_cli.formatting import format_duration, format_size, sanitise

if TYPE_CHECKING:
    from rich.progress import TaskID

    from mbc_engine.events import TextsRecoded


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


_SECONDS_A_LINE: Final = 30.0
_NARROW: Final = 100


@dataclass
class _Bar:
    task: "TaskID"
    started: float
    first: int  # its value then
    last: int
    reported: float  # when a line last showed it


class ProgressView:
    """Bars by name; `is_shown` is False if the work itself prints on the terminal."""

    def __init__(self, *, is_shown: bool = True) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._is_shown = is_shown
        self._bars: dict[str, _Bar] = {}
        is_narrow = notes.width < _NARROW
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            # On a narrow terminal, the bar takes the remaining width, then the note is cut.
            BarColumn(bar_width=None, table_column=Column(ratio=1)) if is_narrow else BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TextColumn(
                "{task.fields[note]}", style="dim", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
            ),
            TimeRemainingColumn(),
            expand=is_narrow,
            console=notes,
            # On a terminal, output is printed above the bars; piped output must not be altered.
            redirect_stdout=out.is_terminal,
            disable=not (notes.is_terminal and is_shown) or notes.quiet,
        )

    @property
    def is_live(self) -> bool:
        return not self._progress.disable

    def bar(self, name: str, total: int | None, *, completed: int = 0, note: str = "", in_bytes: bool = False) -> None:
        """Set the bar `name`, created on first use, to `completed` of `total`, None if unknown.

        A smaller value than before starts it over.
        """
        now, amount = time.monotonic(), format_size if in_bytes else "{:,}".format
        shown = amount(completed) if total is None else f"{amount(completed)}/{amount(total)}"
        bar = self._bars.get(name)
        if bar is None:
            task = self._progress.add_task(name, note="", amount="")
            bar = self._bars[name] = _Bar(task, now, completed, completed, now)
        elif completed < bar.last:
            self._progress.reset(bar.task)
            bar.started, bar.first = now, completed
        bar.last = completed
        done, spent = completed - bar.first, max(now - bar.started, 1e-3)
        speed = amount(round(done / spent)) if done >= 10 * spent else f"{done / spent:.1f}"
        note_or_speed = note or (f"{speed}/s" if done > 0 else "")
        self._progress.update(bar.task, total=total, completed=completed, note=note_or_speed, amount=shown)
        if self.is_live or not self._is_shown or now - bar.reported < _SECONDS_A_LINE:
            return
        bar.reported = now
        line = f"{name}: {amount(completed)}"
        if total is not None:
            line += f" of {amount(total)}"
            if done > 0:
                line += f", {format_duration(spent * (total - completed) / done)} left"
        self.line(f"{line}{note and f' · {note}'}")

    def recoding_bar(self, event: "TextsRecoded") -> None:
        sizes = f"{format_size(event.before_bytes)} → {format_size(event.after_bytes)}"
        note = f"{event.done / max(event.seconds, 1e-3):.1f} texts/s · {sizes}" if event.done else ""
        self.bar("Recoding texts", event.chunks, completed=event.done, note=note)

    def remove_bar(self, name: str) -> None:
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name).task)

    def line(self, text: str, style: str = "") -> None:
        notes.print(Text(text, style))

    def announce(self, text: str) -> None:
        """Print a line that --quiet does not silence: the response to Ctrl-C."""
        (errors if notes.quiet else notes).print(Text(text))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
