"""Progress of long work on stderr: live bars on a terminal, a plain line every half minute elsewhere."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rich.text import Text

from mbc_cli.render.terminal import errors, notes, out
from mbc_cli.text import format_duration, format_size

if TYPE_CHECKING:
    from rich.progress import TaskID

    from mbc_engine.events import TextsRecoded

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

    def __init__(self, *, in_bytes: bool = False, is_shown: bool = True) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Column

        self._in_bytes, self._is_shown = in_bytes, is_shown
        self._bars: dict[str, _Bar] = {}
        is_narrow = notes.width < _NARROW
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            # On a narrow terminal, the bar takes the remaining width, then the note is cut.
            BarColumn(bar_width=None, table_column=Column(ratio=1)) if is_narrow else BarColumn(),
            TextColumn("{task.fields[amount]}", markup=False),
            TextColumn(
                "{task.fields[note]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis"),
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

    def bar(
        self, name: str, total: int | None, *, completed: int = 0, note: str = "", in_bytes: bool | None = None
    ) -> None:
        """Set the bar `name`, created on first use, to `completed` of `total`, None if unknown.

        A smaller value than before starts it over.
        """
        is_size = self._in_bytes if in_bytes is None else in_bytes
        now, amount = time.monotonic(), format_size if is_size else "{:,}".format
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
        speed = (
            f"{amount(round(done / spent))}/s" if done >= 10 * spent else f"{done / spent:.1f}/s" if done > 0 else ""
        )
        self._progress.update(bar.task, total=total, completed=completed, note=note or speed, amount=shown)
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
        self.bar("Recoding texts", event.chunks, completed=event.done, note=note, in_bytes=False)

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
