"""Progress of long work on stderr: live bars on a terminal, a plain line every half minute elsewhere."""

import time
from typing import Final, Self

from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from mbc_cli.render.terminal import errors, notes, out
from mbc_cli.text import format_duration, format_size
from mbc_engine.events import TextsRecoded

_SECONDS_A_LINE: Final = 30.0
_NARROW: Final = 100


class _Note(TextColumn):
    def render(self, task: Task) -> Text:
        note = super().render(task)
        note.no_wrap, note.overflow = True, "ellipsis"
        return note


class ProgressView:
    """Bars by name; `is_shown` is False if the work itself prints on the terminal."""

    def __init__(self, *, in_bytes: bool = False, is_shown: bool = True) -> None:
        self._in_bytes, self._is_shown = in_bytes, is_shown
        self._bars: dict[str, TaskID] = {}
        # When each bar was created and its value then, and when a line last reported it.
        self._starts: dict[str, tuple[float, int]] = {}
        self._lines: dict[str, float] = {}
        is_narrow = notes.width < _NARROW
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            # On a narrow terminal, the bar takes the remaining width, then the note is cut.
            BarColumn(bar_width=None, table_column=Column(ratio=1)) if is_narrow else BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            _Note("{task.fields[note]}", style="dim", markup=False, table_column=Column()),
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

    def bar(
        self, name: str, total: int | None, *, completed: int = 0, note: str = "", in_bytes: bool | None = None
    ) -> None:
        """Set the bar `name`, created on first use, to `completed` of `total`, None if unknown."""
        now, amount = (
            time.monotonic(),
            format_size if (self._in_bytes if in_bytes is None else in_bytes) else "{:,}".format,
        )
        shown = amount(completed) if total is None else f"{amount(completed)}/{amount(total)}"
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, note="", amount="")
            self._starts[name], self._lines[name] = (now, completed), now
        began, start = self._starts[name]
        done, spent = completed - start, max(now - began, 1e-3)
        speed = (
            f"{amount(round(done / spent))}/s" if done >= 10 * spent else f"{done / spent:.1f}/s" if done > 0 else ""
        )
        self._progress.update(self._bars[name], total=total, completed=completed, note=note or speed, amount=shown)
        if self.is_live or not self._is_shown or now - self._lines[name] < _SECONDS_A_LINE:
            return
        self._lines[name] = now
        line = f"{name}: {amount(completed)}"
        if total is not None:
            line += f" of {amount(total)}"
            if done > 0:
                line += f", {format_duration(spent * (total - completed) / done)} left"
        self.line(f"{line}{note and f' · {note}'}")

    def recoding_bar(self, event: TextsRecoded) -> None:
        sizes = f"{format_size(event.before_bytes)} → {format_size(event.after_bytes)}"
        note = f"{event.done / max(event.seconds, 1e-3):.1f} texts/s · {sizes}" if event.done else ""
        self.bar("Recoding texts", event.chunks, completed=event.done, note=note, in_bytes=False)

    def remove_bar(self, name: str) -> None:
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name))

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
