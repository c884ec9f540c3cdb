"""Amounts beside each other as bars, the largest as long as there is room.

A box with a name in its border, around what belongs together.

Labelled values, one a line.

How much of something is done, as a bar that needs no colour.

Numbers as a row of bars, in a line of text.

The last of many lines, as many as there is room for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from rich.table import Table
from rich.text import Text
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from mbc_cli.text import plain
from mbc_cli.tui.widgets.rows import middle

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True)
class Bar:
    """An amount, its name, and how it is told."""

    label: str
    amount: float
    told: str


class Bars(Widget):
    """A bar a line. Even the smallest amount above zero is seen."""

    DEFAULT_CSS = """
    Bars { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._bars: tuple[Bar, ...] = ()

    def show(self, bars: Sequence[Bar]) -> None:
        """Show these instead of the ones before."""
        if tuple(bars) != self._bars:
            self._bars = tuple(bars)
            self.refresh(layout=True)

    def render(self) -> Text:
        """The lines."""
        if not self._bars:
            return Text()
        labels = max(len(bar.label) for bar in self._bars)
        told = max(len(bar.told) for bar in self._bars)
        width = max(1, self.content_size.width - labels - told - 3)
        most = max(bar.amount for bar in self._bars) or 1
        lines = []
        for bar in self._bars:
            drawn = drawn_bar(bar.amount / most, width)
            lines.append(
                Text.assemble((f"{bar.label:<{labels}} ", "dim"), f"{drawn:<{width}}  {bar.told:>{told}}", no_wrap=True)
            )
        return Text("\n").join(lines)


def drawn_bar(share: float, width: int) -> str:
    """A bar as long as a share of the width, in eighths of a cell; full only where the share is all."""
    eighths = int(share * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, part = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[part] if part else "")


class Box(Vertical):
    """A panel of several widgets, as high as these unless its view says otherwise.

    Args:
        title: what is in it.
    """

    DEFAULT_CSS = """
    Box { height: auto; }
    """

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="panel")
        self.border_title = title


# So that the values of boxes above each other stand in one line.
_LABEL: Final = 9


class Facts(Static):
    """A short table of labels and values. Values may hold foreign text."""

    def show(self, facts: Sequence[tuple[str, str | Text]]) -> None:
        """Show these instead of the ones before."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=_LABEL)
        table.add_column(overflow="fold")
        for label, value in facts:
            table.add_row(label, value if isinstance(value, Text) else Text(plain(value)))
        self.update(table)


_PERCENT: Final = 6  # cells that " 100 %" takes


class Gauge(Widget):
    """A bar, and the percentage behind it."""

    DEFAULT_CSS = """
    Gauge { height: 1; color: $text-success; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._share: float | None = None

    def show(self, share: float | None) -> None:
        """Show a share in [0, 1]; None where that is unknown."""
        if share != self._share:
            self._share = share
            self.refresh()

    def render(self) -> Text:
        """The bar, as long as there is room."""
        width = max(1, self.size.width - _PERCENT)
        if self._share is None:
            return Text("░" * width, no_wrap=True)
        share = min(1.0, max(0.0, self._share))
        bar = drawn_bar(share, width)
        # 100 % is said when all is done, not when it nearly is.
        return Text(f"{bar}{'░' * (width - len(bar))}{int(share * 100):>4} %", no_wrap=True)


_SPARK_EIGHTHS: Final = "▁▂▃▄▅▆▇█"


class Spark(Widget):
    """The last of some numbers from 0 upwards, the largest of them as high as a character, the newest on the right."""

    DEFAULT_CSS = """
    Spark { height: 1; color: $text-success; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: tuple[float, ...] = ()

    def show(self, values: Sequence[float]) -> None:
        """Show these numbers instead of the ones before."""
        if tuple(values) != self._values:
            self._values = tuple(values)
            self.refresh()

    def render(self) -> Text:
        """As many as there is room for."""
        width = self.size.width
        last = list(islice(self._values, max(0, len(self._values) - width), None))
        most = max(last, default=0) or 1
        bars = (_SPARK_EIGHTHS[max(0, min(7, round(value / most * 8) - 1))] for value in last)
        return Text("".join(bars).rjust(width), no_wrap=True)


class Tail(Widget):
    """Lines going by, the newest last. They may be foreign text."""

    DEFAULT_CSS = """
    Tail { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: tuple[str, ...] = ()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines instead of the ones before."""
        if tuple(lines) != self._lines:
            self._lines = tuple(lines)
            self.refresh()

    def render(self) -> Text:
        """The last of them."""
        width, height = self.size
        last = islice(self._lines, max(0, len(self._lines) - height), None)
        return Text("\n".join(middle(plain(line), width) for line in last), no_wrap=True)
