"""Steps of brightness for numbers that differ by orders of magnitude, such as how often codes are used.

The scale is logarithmic: each step begins at the same multiple of the one before, and numbers that are nearly alike
look alike. Few small whole numbers have a step each.

How many cells go side by side: the layout of a grid of cells, with a label before each row.

Numbers as cells of a grid, the brighter the larger, with a cursor and marked cells.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.color import Gradient
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mbc_cli.tui.widgets.plot import short

MOST_STEPS: Final = 8
# What is smaller than the largest number by more than this looks alike. A moving average never gets to zero.
_WIDEST: Final = 1024.0
# A step begins a quarter higher than the one before, at least.
_NARROWEST: Final = 1.25


def steps(values: NDArray[Any]) -> NDArray[np.float64]:
    """Where each step begins, ascending, at most `MOST_STEPS`; none where no number is above zero.

    Args:
        values: numbers of any shape, finite; steps are whole numbers if these are.
    """
    positive = values[values > 0].astype(np.float64)
    if not positive.size:
        return np.zeros(0)
    low, high = positive.min(), positive.max()
    are_whole = bool((positive == np.floor(positive)).all())
    if are_whole and high <= MOST_STEPS:
        return np.arange(low, high + 1)
    low = max(low, high / _WIDEST)
    count = min(MOST_STEPS, max(1, math.floor(math.log(high / low) / math.log(_NARROWEST))))
    begins = np.geomspace(low, high, count + 1)[:-1]
    return np.unique(np.ceil(begins) if are_whole else begins)


def levels(values: NDArray[Any], begins: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The step of each number, from 1; 0 for those that are not above zero."""
    found = np.searchsorted(begins, values, side="right").clip(1 if len(begins) else 0)
    return np.where(values > 0, found, 0).astype(np.uint8)


# Rows are multiples of one of these, so that they begin with numbers to count on from.
_ROUND: Final = (16, 8)


@dataclass(frozen=True)
class CellGrid:
    """Cells in rows.

    Attributes:
        width: characters a cell.
        columns, rows: how many cells.
        label: characters before the cells of a row.
        labels: what rows are called; None if by their first cells.
    """

    width: int
    columns: int
    rows: int
    label: int
    labels: Sequence[str] | None = None

    @classmethod
    def numbered(cls, cells: int, width: int, most_rows: int) -> Self:
        """So many cells within a width: of two characters if that takes at most so many rows, else of one."""
        label = len(str(max(0, cells - 1))) + 1
        grids = []
        for each in (2, 1):
            columns = min(_columns((width - label) // each), max(1, cells))
            grids.append(cls(each, columns, -(-cells // columns), label))
        return next((grid for grid in grids if grid.rows <= most_rows), grids[-1])

    @classmethod
    def labelled(cls, cells: int, width: int, labels: Sequence[str]) -> Self | None:
        """One row for each label, all of the same length; None if that is longer than the width."""
        columns, label = -(-cells // len(labels)), max(map(len, labels)) + 1
        each = next((each for each in (2, 1) if each * columns <= width - label), None)
        return None if each is None else cls(each, columns, len(labels), label, labels)

    def row(self, cell: int) -> int:
        """The row of a cell."""
        return cell // self.columns

    def name(self, row: int) -> str:
        """What stands before a row."""
        name = str(row * self.columns) if self.labels is None else self.labels[row]
        return f"{name:>{self.label - 1}} "

    def cell(self, x: int, y: int) -> int | None:
        """The cell at a place, if a row has one there."""
        column = (x - self.label) // self.width
        return y * self.columns + column if 0 <= column < self.columns else None


def _columns(room: int) -> int:
    """How many cells a row has where there is room for so many."""
    step = next((step for step in _ROUND if step <= room), 1)
    return max(1, room // step * step)


# Where there is no colour, a step is told by its height.
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"
_EMPTY, _MARK, _CURSOR_WIDE, _CURSOR = "·", "◆", "[]", "□"
_OTHERS: Final = ("empty", "mark", "cursor", "label")
# What a map may take of the screen's height before its cells become narrow.
_ROOMY: Final = 0.45


@dataclass(frozen=True)
class _Palette:
    """Characters and styles of the steps of brightness; styles of a zero, of marks, of the cursor and of labels."""

    steps: Sequence[tuple[str, Style]]
    empty: Style
    mark: Style
    cursor: Style
    label: Style


class HeatMap(ScrollView, can_focus=True):
    """A grid of numbers, as wide as its box; what does not fit is scrolled to.

    Cells are two characters wide where that leaves half of the screen to others, else one. A zero is a dot; marked
    cells and the cursor's have a shape and colours of their own.

    Args:
        title: what the numbers are, in the border.
    """

    DEFAULT_CSS = """
    HeatMap {
        height: auto;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .heat-map--label { color: $text-muted; }
        & > .heat-map--empty { color: $text-muted; }
        & > .heat-map--warm { color: $primary; }
        & > .heat-map--hot { color: $foreground; }
        & > .heat-map--mark { color: $background; background: $warning; text-style: bold; }
        & > .heat-map--cursor { color: $background; background: $success; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"heat-map--{name}" for name in ("warm", "hot", *_OTHERS)}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "Left", show=False),
        Binding("right", "move(1, 0)", "Right", show=False),
        Binding("up", "move(0, -1)", "Up", show=False),
        Binding("down", "move(0, 1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
        Binding("n", "next_mark", "Next marked", show=False),
        Binding("enter", "choose", "Choose", show=False),
    ]

    class Moved(Message):
        """The cursor is on another cell."""

    @dataclass
    class Chosen(Message):
        """Enter was pressed on the cell at the cursor."""

        map: "HeatMap"

        @property
        def control(self) -> "HeatMap":
            """The map."""
            return self.map

    def __init__(self, title: str = "", *, id: str | None = None, can_focus: bool = True) -> None:
        super().__init__(id=id, classes="panel")
        self.border_title = Content(title)
        self.can_focus = can_focus
        self.cursor = 0
        self._begins, self._levels = np.zeros(0), np.zeros(0, np.uint8)
        self._marks: frozenset[int] = frozenset()
        self._labels: Sequence[str] | None = None
        self._grid = CellGrid(1, 1, 0, 0)
        self._strips: dict[int, Strip] = {}
        self._palette: _Palette | None = None

    def show(self, values: NDArray[Any], marks: Collection[int] = (), *, labels: Sequence[str] | None = None) -> None:
        """Draw these numbers instead of the ones before.

        Args:
            values: [cells], finite and not negative.
            marks: cells to light up.
            labels: of the rows, shown where there is room for whole ones; None to number them.
        """
        begins = steps(values)
        own, marked = levels(values, begins), frozenset(marks)
        is_other_size = len(own) != len(self._levels) or labels != self._labels
        is_other_scale = not np.array_equal(begins, self._begins) or bool(marked) != bool(self._marks)
        self._begins, self._labels = begins, labels
        if is_other_size or is_other_scale:
            self._levels, self._marks = own, marked
            self._tell_steps()
            self._strips.clear()
            if is_other_size:
                self.cursor = min(self.cursor, max(0, len(own) - 1))
                self._lay_out()
                self.refresh(layout=True)
            else:
                self.refresh()
            return
        changed = {*np.flatnonzero(own != self._levels).tolist(), *(marked ^ self._marks)}
        self._levels, self._marks = own, marked
        for row in {self._grid.row(cell) for cell in changed}:
            self._redraw(row)

    def go(self, cell: int) -> None:
        """Put the cursor on a cell, or on the nearest there is."""
        cell = max(0, min(cell, len(self._levels) - 1))
        if cell == self.cursor:
            return
        before, self.cursor = self.cursor, cell
        for row in {self._grid.row(before), self._grid.row(cell)}:
            self._redraw(row)
        self.scroll_to_region(Region(0, self._grid.row(cell), 1, 1), animate=False)
        self.post_message(self.Moved())

    def action_move(self, x: int, y: int) -> None:
        """Move the cursor by cells and rows; it stays where it would leave the map."""
        cell = self.cursor + x + y * self._grid.columns
        if 0 <= cell < len(self._levels):
            self.go(cell)

    def action_page(self, pages: int) -> None:
        """Move the cursor by as many rows as are in sight."""
        rows = min(max(1, self.size.height - 1), max(1, self._grid.rows - 1))
        row = self._grid.row(self.cursor)
        self.go(self.cursor + (max(0, min(row + pages * rows, self._grid.rows - 1)) - row) * self._grid.columns)

    def action_go(self, cell: int) -> None:
        """Go to a cell, counted from the end if negative."""
        self.go(cell if cell >= 0 else len(self._levels) + cell)

    def action_next_mark(self) -> None:
        """Go to the next marked cell; after the last comes the first."""
        if self._marks:
            self.go(min(self._marks, key=lambda cell: (cell <= self.cursor, cell)))

    def action_choose(self) -> None:
        """Say that the cursor's cell is meant."""
        if len(self._levels):
            self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.can_focus:
            return
        cell = self._grid.cell(offset.x, offset.y + self.scroll_offset.y)
        if cell is not None and cell < len(self._levels):
            self.go(cell)

    def on_resize(self) -> None:
        self._lay_out()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None
        self._strips.clear()
        if self.is_mounted:
            self.call_after_refresh(self._tell_steps)  # the styles of its parts come after its own

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._grid_for(width, viewport.height).rows

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        strip = self._strips.get(row)
        if strip is None:
            strip = self._strips[row] = self._row(row)
        return strip.adjust_cell_length(self.size.width, self.rich_style)

    def _lay_out(self) -> None:
        width, height = self.content_region.size
        grid = self._grid_for(width, self.app.size.height)
        if grid.rows > height:  # it will be scrolled
            grid = self._grid_for(width - self.styles.scrollbar_size_vertical, self.app.size.height)
        if grid != self._grid:
            self._grid = grid
            self._strips.clear()
            self.virtual_size = Size(grid.label + grid.width * grid.columns, grid.rows)
            self.scroll_to_region(Region(0, grid.row(self.cursor), 1, 1), animate=False)
            self.refresh()

    def _grid_for(self, width: int, screen: int) -> CellGrid:
        cells = max(1, len(self._levels))
        labelled = CellGrid.labelled(cells, width, self._labels) if self._labels else None
        return labelled or CellGrid.numbered(cells, width, int(screen * _ROOMY))

    def _redraw(self, row: int) -> None:
        self._strips.pop(row, None)
        self.refresh_line(row)

    def _row(self, row: int) -> Strip:
        """A row of cells, neighbours that look alike in one piece."""
        grid = self._grid
        first = row * grid.columns
        own = self._levels[first : first + grid.columns].tolist()
        if not own:
            return Strip([])
        palette = self._colours()
        segments = [Segment(grid.name(row), palette.label)]
        for cell, level in enumerate(own, first):
            if cell == self.cursor and self.can_focus:
                text, style = _CURSOR_WIDE if grid.width == 2 else _CURSOR, palette.cursor
            elif cell in self._marks:
                text, style = _MARK.ljust(grid.width), palette.mark
            elif level:
                text, style = palette.steps[level - 1]
                text *= grid.width
            else:
                text, style = _EMPTY.ljust(grid.width), palette.empty
            if segments[-1].style is style:
                text = segments.pop().text + text
            segments.append(Segment(text, style))
        return Strip(segments)

    def _colours(self) -> _Palette:
        count = len(self._begins)
        if self._palette is None or len(self._palette.steps) != count:
            base, hot = self.background_colors[1], self.get_component_styles("heat-map--hot").color
            warm = self.get_component_styles("heat-map--warm").color
            shades = Gradient((0.0, base.blend(warm, 0.2)), (0.65, warm), (1.0, base.blend(hot, 0.9)))
            steps = [(" ", Style(bgcolor=shades.get_color(step / count).rich_color)) for step in range(1, count + 1)]
            if self.app.no_color:
                style = Style(color=hot.rich_color, bgcolor=base.rich_color)
                steps = [(_HEIGHTS[step * len(_HEIGHTS) // count - 1], style) for step in range(1, count + 1)]
            others = (self.get_component_rich_style(f"heat-map--{name}") for name in _OTHERS)
            self._palette = _Palette(steps, *others)
        return self._palette

    def _tell_steps(self) -> None:
        """Say in the border what the steps begin with."""
        palette, told = self._colours(), Text()
        if len(self._begins):
            told.append(_EMPTY, palette.empty).append(" 0")
        for begin, (character, style) in zip(self._begins.tolist(), palette.steps, strict=True):
            told.append("  ").append(character, style).append(f" {_rough(begin)}")
        if self._marks:
            told.append("  ").append(_MARK, palette.mark).append(" read last")
        self.border_subtitle = Content.from_rich_text(told)


def _rough(value: float) -> str:
    """A number as exact as brightness is."""
    return short(value) if value >= 100 or value == int(value) else f"{value:.2g}"
