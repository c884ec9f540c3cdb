"""A plot of a few curves with axes, that draws itself anew only when they have changed.

The curves are drawn here, in braille, rather than by a plotting widget: the dashboard shows a dozen plots that move
every second, and one that sets its characters one by one took fifteen milliseconds for each of them.

Plots side by side, as many as there is room for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.color import Color
from textual.containers import Grid
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from mbc_cli.tui.widgets.plot import AXIS, Cells, Points, plot

# A diverging training gets beyond what can be calculated with.
_TINIEST: Final = 1e-200
_LARGEST: Final = 1e200


@dataclass(frozen=True)
class Curve:
    """One curve.

    Attributes:
        x, y: its points; those that are no numbers, or none to calculate with, are left out.
        colour: a variable of the theme, such as `text-primary`.
        marker: draws each point as this character instead of a line, so that curves differ without colour.
    """

    x: ArrayLike
    y: ArrayLike
    colour: str = "text-primary"
    marker: str | None = None


@dataclass(frozen=True)
class _Shown:
    """Everything in a plot, such that two can be compared: arrays as the bytes of float64 numbers."""

    curves: tuple[tuple[bytes, bytes, str, str | None], ...] = ()
    note: str = ""
    lowest: float | None = None
    lines: bytes = b""
    pointers: bytes = b""


class Chart(Widget, can_focus=False):
    """Curves over one axis, as large as its box.

    Args:
        title: what the curves are, in the border.
        empty: what stands there as long as there is nothing to draw.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"chart--axis", "chart--event"}
    DEFAULT_CSS = """
    Chart {
        border: round $surface-lighten-2;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
        & > .chart--axis { color: $text-muted; }
        & > .chart--event { color: $text-muted; }
    }
    """

    def __init__(self, title: str, empty: str = "nothing yet", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title, self._value, self._empty = title, "", empty
        self.border_title = Content(title)
        self._shown = _Shown()
        self._strips: list[Strip] | None = None

    def show(
        self,
        curves: Sequence[Curve],
        note: str = "",
        *,
        value: str = "",
        lowest: float | None = None,
        lines: ArrayLike = (),
        pointers: ArrayLike = (),
    ) -> None:
        """Draw these curves instead of the ones before.

        Args:
            curves: may be empty.
            note: a few words at the lower edge.
            value: a few words beside the title, such as the last number.
            lowest: where the vertical axis begins at the latest; None to let the curves say.
            lines: where something happened, [places]; a dashed line from top to bottom each.
            pointers: where something happened that may have happened often, [places]; marked at the axis.
        """
        told = ((*_finite(own), own.colour, own.marker) for own in curves)
        shown = _Shown(tuple(own for own in told if own[0]), note, lowest, _bytes(lines), _bytes(pointers))
        if value != self._value:
            self._value = value
            self.border_title = Content.assemble(self._title, "  ", (value, "bold")) if value else Content(self._title)
        if shown != self._shown:
            self._shown = shown
            self.border_subtitle = Content(note if shown.curves else "")
            self._draw_anew()

    def notify_style_update(self) -> None:
        """Take up the colours of another theme."""
        super().notify_style_update()
        self._draw_anew()

    def on_resize(self) -> None:
        """Fill the box."""
        self._draw_anew()

    def render_line(self, y: int) -> Strip:
        """A line of the plot; all of it is drawn with the first."""
        if self._strips is None:
            self._strips = self._drawn()
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.content_size.width, self.rich_style)

    def _draw_anew(self) -> None:
        self._strips = None
        self.refresh()

    def _drawn(self) -> list[Strip]:
        width, height = self.content_size
        cells, shown = Cells(width, height), self._shown
        if shown.curves and width and height:
            curves = [Points(np.frombuffer(x), np.frombuffer(y), marker) for x, y, _, marker in shown.curves]
            plot(cells, curves, shown.lowest, np.frombuffer(shown.lines), np.frombuffer(shown.pointers))
        elif height:
            cells.write(max(0, (width - len(self._empty)) // 2), height // 2, self._empty, AXIS)
        own = (self.get_component_rich_style(name) for name in ("chart--axis", "chart--event"))
        return cells.strips([self.rich_style, *own, *(self._style(colour) for _, _, colour, _ in shown.curves)])

    def _style(self, colour: str) -> Style:
        return self.rich_style + Style(color=Color.parse(self.app.theme_variables[colour]).rich_color)


def _finite(curve: Curve) -> tuple[bytes, bytes]:
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    shown = _is_drawable(x) & _is_drawable(y)
    return x[shown].tobytes(), y[shown].tobytes()


def _is_drawable(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which are numbers, and such that their differences and quotients are numbers too."""
    size = np.abs(values)
    is_drawable: NDArray[np.bool_] = (values == 0) | ((size >= _TINIEST) & (size <= _LARGEST))
    return is_drawable


def _bytes(numbers: ArrayLike) -> bytes:
    return np.asarray(numbers, float).tobytes()


# Cells below which a plot says too little.
_LEAST_WIDTH: Final = 38
_LEAST_HEIGHT: Final = 9
# Cells of a chart's width that its border and its numbers take.
_FRAME: Final = 6
# Where there is room for fewer, one large plot is better.
_FEW: Final = 6


class Plots(Grid, can_focus=True):
    """Charts in rows. Where they have no room, some are shown, and the others are turned to.

    Args:
        titles: of all charts by their ids.
    """

    DEFAULT_CSS = """
    Plots { width: 1fr; height: 1fr; }
    Plots Chart { display: none; }
    Plots Chart.-in-sight { display: block; }
    """

    class Turned(Message):
        """Other charts are in sight."""

    def __init__(self, titles: dict[str, str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._charts = [Chart(title, id=name) for name, title in titles.items()]
        self._first, self._shape = 0, (0, 0)
        self._is_single: bool | None = None  # None as long as nobody has chosen

    def compose(self) -> ComposeResult:
        yield from self._charts

    @property
    def in_sight(self) -> Sequence[Chart]:
        """The charts that are shown now."""
        rows, columns = self._shape
        return self._charts[self._first : self._first + rows * columns]

    @property
    def columns_each(self) -> int:
        """About how many characters wide each of them is inside."""
        return max(_LEAST_WIDTH, self.size.width // max(1, self._shape[1])) - _FRAME

    @property
    def place(self) -> str:
        """Which of the charts are shown, in words; "" if all are."""
        shown = len(self.in_sight)
        if shown == len(self._charts):
            return ""
        last = f"-{self._first + shown}" if shown > 1 else ""
        return f"{self._first + 1}{last} of {len(self._charts)}"

    def turn(self, by: int) -> None:
        """Show the charts after those in sight, or before."""
        rows, columns = self._shape
        if by > 0:
            self._first = self._first + rows * columns if self._first + rows * columns < len(self._charts) else 0
        else:
            self._first = self._first - rows * columns if self._first else len(self._charts) - 1
        self._arrange()

    def zoom(self, chart: Chart | None = None) -> None:
        """Show a chart alone, the first in sight unless it is given, or as many as there is room for again."""
        if chart is not None:
            self._first = self._charts.index(chart)
        self._is_single = self._shape != (1, 1)
        self._arrange()

    def on_resize(self) -> None:
        """Fill the room there is."""
        self._arrange()

    def on_click(self, event: events.Click) -> None:
        """A click on a chart shows it alone, another one all of them again."""
        if isinstance(event.widget, Chart):
            self.zoom(event.widget)

    def _arrange(self) -> None:
        self._shape = rows, columns = self._fitting()
        page = rows * columns
        self._first = min(self._first // page * page, (len(self._charts) - 1) // page * page)
        self.styles.grid_size_rows, self.styles.grid_size_columns = rows, columns
        for place, chart in enumerate(self._charts):
            chart.set_class(self._first <= place < self._first + page, "-in-sight")
        self.post_message(self.Turned())

    def _fitting(self) -> tuple[int, int]:
        """Rows and columns."""
        rows, columns = max(1, self.size.height // _LEAST_HEIGHT), max(1, self.size.width // _LEAST_WIDTH)
        if rows * columns < _FEW if self._is_single is None else self._is_single:
            return 1, 1
        # No more columns than it takes to show all.
        columns = min(columns, -(-len(self._charts) // rows))
        return min(rows, -(-len(self._charts) // columns)), columns
