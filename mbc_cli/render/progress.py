"""Progress of long work on stderr: a live bar on a terminal, a plain line now and then elsewhere."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from mbc_cli.render.terminal import errors, notes, out
from mbc_cli.text import seconds, size

# Seconds between two lines where no bar is drawn.
LINE_EVERY: Final = 30.0
_NARROW: Final = 100


class _Pace(ProgressColumn):
    """What the work says of its pace, or how much of it is done in a second."""

    def render(self, task: Task) -> Text:
        """The column's text."""
        if note := task.fields["note"]:
            return Text(note, "dim")
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed and speed >= 10 else f"{speed:.1f}/s" if speed else "", "dim")


@dataclass
class _Bar:
    """A bar, when it was first seen and where it stood then, and when a line last told of it."""

    task: TaskID
    began: float
    start: int
    told: float


class ProgressView:
    """Bars by name. Where stderr is no terminal, lines tell every half a minute how far they are.

    Args:
        in_bytes: the bars count bytes.
        is_shown: False for work whose output shares the terminal with the bars.
    """

    def __init__(self, *, in_bytes: bool = False, is_shown: bool = True) -> None:
        self._in_bytes, self._is_shown = in_bytes, is_shown
        self._bars: dict[str, _Bar] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20 if notes.width < _NARROW else 40),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            _Pace(),
            TimeRemainingColumn(),
            console=notes,
            # What is printed on a terminal goes above the bars; in a pipe it must stay what it is.
            redirect_stdout=out.is_terminal,
            disable=not (notes.is_terminal and is_shown) or notes.quiet,
        )

    @property
    def is_live(self) -> bool:
        """Whether bars are drawn."""
        return not self._progress.disable

    def bar(self, name: str, total: int | None, *, completed: int = 0, note: str = "") -> None:
        """Move the bar `name`, made on first use, to `completed` of `total`, None if that is unknown."""
        now = time.monotonic()
        if name in self._bars:
            self._progress.update(self._bars[name].task, total=total, completed=completed, note=note)
        else:
            task = self._progress.add_task(name, total=total, completed=completed, note=note)
            self._bars[name] = _Bar(task, now, completed, now)
        bar = self._bars[name]
        if not self.is_live and self._is_shown and now - bar.told >= LINE_EVERY:
            bar.told = now
            self.line(f"{name}: {self._told(completed, total)}{_left(bar, completed, total)}{note and f' · {note}'}")

    def remove_bar(self, name: str) -> None:
        """Draw a bar no longer."""
        if name in self._bars:
            self._progress.remove_task(self._bars.pop(name).task)

    def line(self, text: str, style: str = "") -> None:
        """One line, above the bars if there are any."""
        notes.print(Text(text, style))

    def tell(self, text: str) -> None:
        """A line that --quiet does not silence: the answer to Ctrl-C."""
        (errors if notes.quiet else notes).print(Text(text))

    def _told(self, completed: int, total: int | None) -> str:
        amount = size if self._in_bytes else "{:,}".format
        return amount(completed) + (f" of {amount(total)}" if total is not None else "")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()


def _left(bar: _Bar, completed: int, total: int | None) -> str:
    done = completed - bar.start
    if total is None or done <= 0:
        return ""
    return f", {seconds((bar.told - bar.began) * (total - completed) / done)} left"
