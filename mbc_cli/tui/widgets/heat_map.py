"""Codes as cells: a heat map of how much each is used, and a sheet of those of a document."""

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
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mbc_cli.tui.widgets.chart import BLANK, short
from mbc_cli.tui.widgets.table import CURSOR_KEYS

MOST_STEPS: Final = 8
# Numbers this much smaller than the largest look alike, as a moving average never gets to zero; each step begins at
# least at this multiple of the one before.
_WIDEST, _NARROWEST = 1024.0, 1.25
_ROUND: Final = (16, 8)  # rows are multiples of one of these, so that their labels are round numbers
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"  # of the steps without colour
_EMPTY, _MARK, _CURSOR_WIDE, _CURSOR = "·", "◆", "[]", "□"
_PARTS: Final = ("empty", "mark", "cursor", "label")
_SHARE_OF_HEIGHT: Final = 0.45  # of the screen that a map may take before its cells become narrow


def steps(values: NDArray[Any]) -> NDArray[np.float64]:
    """Where each logarithmic step of brightness begins: ascending, at most `MOST_STEPS`, none without positive numbers.

    Few small whole numbers have a step each.
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
    starts = np.geomspace(low, high, count + 1)[:-1]
    return np.unique(np.ceil(starts) if are_whole else starts)


def levels(values: NDArray[Any], starts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The step of each number, from 1; 0 for those that are not above zero."""
    found = np.searchsorted(starts, values, side="right").clip(1 if len(starts) else 0)
    return np.where(values > 0, found, 0).astype(np.uint8)


@dataclass(frozen=True)
class CellGrid:
    """Rows of cells of `width` characters after a label of `label`; without labels, these are the first cells."""

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
            room = (width - label) // each
            step = next((step for step in _ROUND if step <= room), 1)
            columns = min(max(1, room // step * step), max(1, cells))
            grids.append(cls(each, columns, -(-cells // columns), label))
        return next((grid for grid in grids if grid.rows <= most_rows), grids[-1])

    @classmethod
    def labelled(cls, cells: int, width: int, labels: Sequence[str]) -> Self | None:
        """A row for each label; None if they are longer than the width."""
        columns, label = -(-cells // len(labels)), max(map(len, labels)) + 1
        each = next((each for each in (2, 1) if each * columns <= width - label), None)
        return None if each is None else cls(each, columns, len(labels), label, labels)

    def row(self, cell: int) -> int:
        return cell // self.columns

    def name(self, row: int) -> str:
        name = str(row * self.columns) if self.labels is None else self.labels[row]
        return f"{name:>{self.label - 1}} "

    def cell(self, x: int, y: int) -> int | None:
        column = (x - self.label) // self.width
        return y * self.columns + column if 0 <= column < self.columns else None


class HeatMap(ScrollView, can_focus=True):
    """A scrollable grid of numbers, brighter for larger ones; a zero is a dot."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"heat-map--{name}" for name in ("warm", "hot", *_PARTS)}
    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS, Binding("n", "next_mark", "Next marked", show=False)]

    cursor: reactive[int] = reactive(0)

    def __init__(self, title: str = "", *, id: str | None = None, can_focus: bool = True) -> None:
        super().__init__(id=id, classes="panel")
        self.border_title = Content(title)
        self.can_focus = can_focus
        self._starts, self._levels = np.zeros(0), np.zeros(0, np.uint8)
        self._marks: frozenset[int] = frozenset()
        self._labels: Sequence[str] | None = None
        self._grid = CellGrid(1, 1, 0, 0)
        self._cells: list[tuple[str, Style]] = []  # characters and styles of the steps
        self._styles: dict[str, Style] = {}  # of the other parts

    def show(self, values: NDArray[Any], marks: Collection[int] = (), *, labels: Sequence[str] | None = None) -> None:
        """Replace the numbers, [cells], finite and not negative; rows are labelled if there is room for whole ones."""
        starts = steps(values)
        new, marked = levels(values, starts), frozenset(marks)
        is_other_size = len(new) != len(self._levels) or labels != self._labels
        is_other_scale = not np.array_equal(starts, self._starts) or bool(marked) != bool(self._marks)
        if not (is_other_size or is_other_scale or marked != self._marks) and np.array_equal(new, self._levels):
            return
        self._starts, self._levels, self._marks, self._labels = starts, new, marked, labels
        if is_other_size or is_other_scale:
            self._show_legend()
        if is_other_size:
            self.cursor = min(self.cursor, max(0, len(new) - 1))
            self.on_resize()
        self.refresh(layout=is_other_size)

    def go(self, cell: int) -> None:
        self.cursor = max(0, min(cell, len(self._levels) - 1))

    def watch_cursor(self) -> None:
        self.scroll_to_region(Region(0, self._grid.row(self.cursor), 1, 1), animate=False)

    def action_move(self, x: int, y: int) -> None:
        cell = self.cursor + x + y * self._grid.columns
        if 0 <= cell < len(self._levels):
            self.go(cell)

    def action_page(self, pages: int) -> None:
        rows = min(max(1, self.size.height - 1), max(1, self._grid.rows - 1))
        row = self._grid.row(self.cursor)
        self.go(self.cursor + (max(0, min(row + pages * rows, self._grid.rows - 1)) - row) * self._grid.columns)

    def action_go(self, cell: int) -> None:
        self.go(cell if cell >= 0 else len(self._levels) + cell)

    def action_next_mark(self) -> None:
        if self._marks:
            self.go(min(self._marks, key=lambda cell: (cell <= self.cursor, cell)))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self.can_focus:
            return
        cell = self._grid.cell(offset.x, offset.y + self.scroll_offset.y)
        if cell is not None and cell < len(self._levels):
            self.go(cell)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._cells = []
        if self.is_mounted:
            self.call_after_refresh(self._show_legend)  # the styles of its parts come after its own

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._grid_for(width, viewport.height).rows

    def render_line(self, y: int) -> Strip:
        return self._row(y + self.scroll_offset.y).adjust_cell_length(self.size.width, self.rich_style)

    def on_resize(self) -> None:
        width, height = self.content_region.size
        grid = self._grid_for(width, self.app.size.height)
        if grid.rows > height:  # it will be scrolled
            grid = self._grid_for(width - self.styles.scrollbar_size_vertical, self.app.size.height)
        if grid != self._grid:
            self._grid = grid
            self.virtual_size = Size(grid.label + grid.width * grid.columns, grid.rows)
            self.scroll_to_region(Region(0, grid.row(self.cursor), 1, 1), animate=False)
            self.refresh()

    def _grid_for(self, width: int, screen: int) -> CellGrid:
        cells = max(1, len(self._levels))
        labelled = CellGrid.labelled(cells, width, self._labels) if self._labels else None
        return labelled or CellGrid.numbered(cells, width, int(screen * _SHARE_OF_HEIGHT))

    def _row(self, row: int) -> Strip:
        self._update_styles()
        grid, styles = self._grid, self._styles
        first = row * grid.columns
        own = self._levels[first : first + grid.columns].tolist()
        if not own:
            return Strip([])
        segments = [Segment(grid.name(row), styles["label"])]
        for cell, level in enumerate(own, first):
            if cell == self.cursor and self.can_focus:
                text, style = _CURSOR_WIDE if grid.width == 2 else _CURSOR, styles["cursor"]
            elif cell in self._marks:
                text, style = _MARK.ljust(grid.width), styles["mark"]
            elif level:
                text, style = self._cells[level - 1]
                text *= grid.width
            else:
                text, style = _EMPTY.ljust(grid.width), styles["empty"]
            if segments[-1].style is style:
                text = segments.pop().text + text
            segments.append(Segment(text, style))
        return Strip(segments)

    def _update_styles(self) -> None:
        count = len(self._starts)
        if self._styles and len(self._cells) == count > 0:
            return
        base, hot = self.background_colors[1], self.get_component_styles("heat-map--hot").color
        warm = self.get_component_styles("heat-map--warm").color
        shades = Gradient((0.0, base.blend(warm, 0.2)), (0.65, warm), (1.0, base.blend(hot, 0.9)))
        self._cells = [(" ", Style(bgcolor=shades.get_color(step / count).rich_color)) for step in range(1, count + 1)]
        if self.app.no_color:
            style = Style(color=hot.rich_color, bgcolor=base.rich_color)
            self._cells = [(_HEIGHTS[step * len(_HEIGHTS) // count - 1], style) for step in range(1, count + 1)]
        self._styles = {name: self.get_component_rich_style(f"heat-map--{name}") for name in _PARTS}

    def _show_legend(self) -> None:
        self._update_styles()
        legend = Text()
        if len(self._starts):
            legend.append(_EMPTY, self._styles["empty"]).append(" 0")
        for start, (character, style) in zip(self._starts.tolist(), self._cells, strict=True):
            rough = short(start) if start >= 100 or start == int(start) else f"{start:.2g}"
            legend.append("  ").append(character, style).append(f" {rough}")
        if self._marks:
            legend.append("  ").append(_MARK, self._styles["mark"]).append(" read last")
        self.border_subtitle = Content.from_rich_text(legend)


class CodeSheet(ScrollView, can_focus=True):
    """The codes of a document as numbers and dots: a line each chunk and level, a column each position.

    Equal codes have equal dots, as far as eight dots can distinguish them. The cursor is (line, position).
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"sheet--title", "sheet--dots", "sheet--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_KEYS]

    cursor: reactive[tuple[int, int]] = reactive((0, 0))

    def __init__(self) -> None:
        super().__init__()
        self._codes: NDArray[np.uint16] = np.zeros((0, 1, 1), np.uint16)
        self._lines, self._num_codes, self._digits, self._label = 0, 2, 1, len("chunk")

    def show(self, codes: NDArray[np.uint16], num_codes: int) -> None:
        """Replace the codes: [chunks, tokens, levels], each below `num_codes`."""
        if np.array_equal(codes, self._codes):
            return
        self._codes, self._num_codes = codes, num_codes
        chunks, tokens, num_levels = codes.shape
        self._lines = chunks * num_levels
        self._digits = len(str(max(num_codes - 1, tokens)))
        self._label = max(len("chunk"), len(f"{chunks:,}"))
        self.set_reactive(CodeSheet.cursor, (0, 0))
        self.virtual_size = Size(self._column(tokens) + 1 + tokens, self._lines + 1)
        self.scroll_to(0, 0, animate=False, force=True)
        self.refresh()

    @property
    def code_at_cursor(self) -> tuple[int, int, int] | None:
        """Its level, position and number; None without codes."""
        if not len(self._codes):
            return None
        line, position = self.cursor
        chunk, level = divmod(line, self._codes.shape[2])
        return level, position, int(self._codes[chunk, position, level])

    def watch_cursor(self) -> None:
        line, position = self.cursor
        self.scroll_to_region(Region(self._column(position), line, self._digits, 2), animate=False, force=True)

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.refresh()  # the cursor is shown only where it can be moved

    def action_move(self, x: int, y: int) -> None:
        line, position = self.cursor
        line = min(max(0, line + y), max(0, self._lines - 1))
        self.cursor = (line, min(max(0, position + x), self._codes.shape[1] - 1))

    def action_page(self, by: int) -> None:
        self.action_move(0, by * max(1, self.size.height - 2))

    def action_go(self, place: int) -> None:
        self.cursor = (place % max(1, self._lines), self.cursor[1])

    def on_click(self, event: events.Click) -> None:
        line = event.y - 1 + self.scroll_offset.y
        position = (event.x + self.scroll_offset.x - self._column(0)) // (self._digits + 1)
        if event.y > 0 and line < self._lines and 0 <= position < self._codes.shape[1]:
            self.cursor = (line, position)

    def render_line(self, y: int) -> Strip:
        width, (scroll_x, scroll_y) = self.size.width, self.scroll_offset
        if not len(self._codes):
            return Strip.blank(width, self.rich_style)
        strip = self._titles() if y == 0 else self._line(y - 1 + scroll_y)
        return strip.crop_extend(scroll_x, scroll_x + width, self.rich_style)

    def _titles(self) -> Strip:
        positions = " ".join(f"{position:>{self._digits}}" for position in range(1, self._codes.shape[1] + 1))
        return Strip([Segment(f"{'chunk':>{self._label}}  {positions}", self.get_component_rich_style("sheet--title"))])

    def _line(self, line: int) -> Strip:
        chunk, level = divmod(line, self._codes.shape[2])
        if chunk >= len(self._codes):
            return Strip([])
        codes, plain = self._codes[chunk, :, level].tolist(), self.rich_style
        label = f"{chunk + 1:,}" if level == 0 else f"·{level + 1}"
        segments = [Segment(f"{label:>{self._label}}  ", self.get_component_rich_style("sheet--title"))]
        for position, code in enumerate(codes):
            is_here = self.has_focus and self.cursor == (line, position)
            style = self.get_component_rich_style("sheet--cursor") if is_here else plain
            segments += [Segment(f"{code:>{self._digits}}", style), Segment(" ", plain)]
        dots = "".join(chr(BLANK + code * 255 // max(1, self._num_codes - 1)) for code in codes)
        return Strip([*segments, Segment(" ", plain), Segment(dots, self.get_component_rich_style("sheet--dots"))])

    def _column(self, position: int) -> int:
        return self._label + 2 + position * (self._digits + 1)
