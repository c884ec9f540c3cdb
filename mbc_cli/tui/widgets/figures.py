"""Small figures: labelled values, and bars and lines of text drawn to the size of their widget."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from rich.table import Table as Grid
from rich.text import Text
from textual.containers import Vertical
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from mbc_cli.text import plain
from mbc_cli.tui.widgets.table import shorten

_LABEL_WIDTH: Final = 9  # aligns the values of boxes above each other
_PERCENT_WIDTH: Final = 6  # " 100 %"
_EIGHTHS_ACROSS, _EIGHTHS_UP = " ▏▎▍▌▋▊▉", "▁▂▃▄▅▆▇█"


def box(title: str, *, id: str | None = None) -> Vertical:
    """A panel with a title in its border, for a `with` statement in `compose`."""
    panel = Vertical(id=id, classes="panel box")
    panel.border_title = title
    return panel


class Facts(Static):
    """A short table of labels and values. Values may be untrusted text."""

    def show(self, facts: Sequence[tuple[str, str | Text]]) -> None:
        table = Grid.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=_LABEL_WIDTH)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(label, value if isinstance(value, Text) else Text(plain(value)))
        self.update(table)


class DrawnText(Widget):
    """A value as text that is drawn for the size of the widget, by one of the functions below."""

    def __init__(
        self, draw: Callable[[Any, Size], Text], value: object, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._draw, self._value = draw, value

    def show(self, value: object) -> None:
        if value != self._value:
            self._value = value
            self.refresh(layout=self.styles.auto_dimensions)

    def render(self) -> Text:
        return self._draw(self._value, self.size)


def bar(share: float, width: int) -> str:
    """A bar in eighths of a cell; never empty above 0, full only at 1."""
    eighths = max(int(share * width * 8), int(share > 0))
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS_ACROSS[part] if part else "")


def gauge(share: float | None, size: Size) -> Text:
    """A share in [0, 1] as a bar and a percentage, without need of colour; None where it is unknown."""
    width = max(1, size.width - _PERCENT_WIDTH)
    if share is None:
        return Text("░" * width, no_wrap=True)
    share = min(1.0, max(0.0, share))
    # Rounded down: 100 % means that all is done.
    return Text(f"{bar(share, width).ljust(width, '░')}{int(share * 100):>4} %", no_wrap=True)


def sparkline(values: Sequence[float], size: Size) -> Text:
    """The last numbers, of at least 0, as bars of a cell each, the newest on the right."""
    last = list(islice(values, max(0, len(values) - size.width), None))
    largest = max(last, default=0) or 1
    bars = (_EIGHTHS_UP[max(0, min(7, round(value / largest * 8) - 1))] for value in last)
    return Text("".join(bars).rjust(size.width), no_wrap=True)


def tail(lines: Sequence[str], size: Size) -> Text:
    """The last lines, the newest at the bottom. They may be untrusted text."""
    last = islice(lines, max(0, len(lines) - size.height), None)
    return Text("\n".join(shorten(plain(line), size.width) for line in last), no_wrap=True)


def bars(rows: Sequence[tuple[str, float, str]], size: Size) -> Text:
    """Labelled amounts as bars of one scale: (label, amount, amount in words)."""
    if not rows:
        return Text()
    labels, words = max(len(row[0]) for row in rows), max(len(row[2]) for row in rows)
    width, largest = max(1, size.width - labels - words - 3), max(row[1] for row in rows) or 1
    lines = [
        Text.assemble((f"{label:<{labels}} ", "dim"), f"{bar(amount / largest, width):<{width}}  {word:>{words}}")
        for label, amount, word in rows
    ]
    return Text("\n", no_wrap=True).join(lines)
