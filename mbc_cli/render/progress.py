"""Progress of long work on stderr: a live bar on a terminal, a plain line now and then elsewhere."""

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from mbc_cli.render.consoles import notes


class ProgressView:
    """Bars by name. Where stderr is no terminal they are not drawn, and only `line` is seen."""

    def __init__(self) -> None:
        self._bars: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            TimeRemainingColumn(),
            console=notes,
            disable=not notes.is_terminal,
        )

    @property
    def is_live(self) -> bool:
        """Whether bars are drawn."""
        return not self._progress.disable

    def bar(self, name: str, total: int, *, completed: int = 0, note: str = "") -> None:
        """Move the bar `name`, made on first use, to `completed` of `total`."""
        if name in self._bars:
            self._progress.update(self._bars[name], total=total, completed=completed, note=note)
        else:
            self._bars[name] = self._progress.add_task(name, total=total, completed=completed, note=note)

    def line(self, text: str, style: str = "") -> None:
        """One line, above the bars if there are any."""
        notes.print(Text(text, style))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()
