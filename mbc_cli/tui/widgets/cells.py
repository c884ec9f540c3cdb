"""Grids of cells with a cursor: a table that draws only the visible of its rows, and a heat map of how much codes are used.

Textual's DataTable takes 27 seconds to add 100,000 rows.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
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

from mbc_cli.formatting import sanitise
from mbc_cli.tui.widgets.chart import format_number

# A key that identifies the row across updates, and its cells, which may be untrusted text.
Row = tuple[Hashable, tuple[str, ...]]

_GUTTER: Final = 3  # cells for the cursor and mark signs


class CellView(ScrollView, can_focus=True):
    """Cells in rows of `columns`, numbered row by row, with a cursor, below `TITLES` lines of titles."""

    TITLES: ClassVar[int] = 1
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", "Left", show=False),
        Binding("right", "move(1, 0)", "Right", show=False),
        Binding("up,k", "move(0, -1)", "Up", show=False),
        Binding("down,j", "move(0, 1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home,g", "go(0)", "First", show=False),
        Binding("end,G", "go(-1)", "Last", show=False),
    ]

    cursor: reactive[int] = reactive(0)

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.cells, self.columns = 0, 1
        self._left, self._pitch = 0, 1  # where the first column begins, and characters from one to the next

    def go(self, cell: int) -> None:
        if 0 <= cell < self.cells:
            self.cursor = cell

    def watch_cursor(self) -> None:
        row, column = divmod(self.cursor, self.columns)
        region = Region(self._left + column * self._pitch, row, self._pitch, 1 + self.TITLES)
        self.scroll_to_region(region, animate=False, force=True)

    def cell_at(self, event: events.Click) -> int | None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y < self.TITLES:
            return None
        column = (offset.x + self.scroll_offset.x - self._left) // self._pitch if self.columns > 1 else 0
        cell = (offset.y - self.TITLES + self.scroll_offset.y) * self.columns + column
        return cell if 0 <= column < self.columns and cell < self.cells else None

    def on_click(self, event: events.Click) -> None:
        if self.can_focus and (cell := self.cell_at(event)) is not None:
            self.go(cell)

    def action_move(self, x: int, y: int) -> None:
        if 0 <= self.cursor % self.columns + x < self.columns:
            self.go(self.cursor + x + y * self.columns)

    def action_page(self, by: int) -> None:
        row, last = self.cursor // self.columns, (self.cells - 1) // self.columns
        to = max(0, min(row + by * max(1, self.size.height - self.TITLES - 1), last))
        self.go(min(self.cursor + (to - row) * self.columns, self.cells - 1))

    def action_go(self, cell: int) -> None:
        self.go(cell % max(1, self.cells))


@dataclass(frozen=True)
class Column:
    """A column; without a width it shares the remaining space. Long cells are cut in the middle, texts at the end."""

    title: str
    width: int | None = None
    is_number: bool = False
    is_text: bool = False

    def fit(self, cell: str, width: int) -> str:
        """A cell in exactly `width` cells of the terminal."""
        text = shorten(cell, width)
        if self.is_text and text != cell:
            text = set_cell_size(cell, width - 1).rstrip() + "…"
        return " " * (width - cell_len(text)) + text if self.is_number else set_cell_size(text, width)


class RowTable(CellView):
    """Rows under fixed titles, with a cursor and, if `can_mark`, marks; `empty`, which may have several lines,
    is shown without rows.

    `key` is that of the row under the cursor, `marked` those of marked rows; a removed row loses its mark.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--title", "table--mark", "table--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "mark", "Mark")]

    key: reactive[Hashable | None] = reactive(None)
    marked: reactive[frozenset[Hashable]] = reactive(frozenset())
    empty: reactive[str] = reactive("")

    def __init__(self, titles: Sequence[Column], *, can_mark: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.titles, self._can_mark = tuple(titles), can_mark
        self.rows: Sequence[Row] = []

    def show(self, rows: Sequence[Row], titles: Sequence[Column] | None = None) -> None:
        """Replace the rows. The cursor and marks stay on their rows, and the scroll position is kept if possible."""
        if titles is not None and tuple(titles) != self.titles:
            self.titles = tuple(titles)
            self.refresh()
        if rows == self.rows:
            return
        offset, self.rows, self.cells = self.cursor - self.scroll_offset.y, rows, len(rows)
        indices = {key: index for index, (key, _) in enumerate(rows)}
        self.marked = frozenset(self.marked & indices.keys())
        self.on_resize()
        index = indices.get(self.key, min(self.cursor, max(0, len(rows) - 1)))
        if index != self.cursor:
            self.set_reactive(RowTable.cursor, index)
            self.scroll_to(y=max(0, index - offset), animate=False, force=True)
        self._update_key()
        self.refresh()

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self._update_key()

    def action_mark(self) -> None:
        if self.key is not None:
            self.marked ^= {self.key}
            self.action_move(0, 1)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._can_mark and bool(self.rows) if action == "mark" else True

    def on_resize(self) -> None:
        self.virtual_size = Size(self._line_width, len(self.rows) + 1)

    def on_click(self, event: events.Click) -> None:
        if (index := self.cell_at(event)) is not None and self._can_mark and (event.ctrl or event.x < _GUTTER):
            self.marked ^= {self.rows[index][0]}

    def render_line(self, y: int) -> Strip:
        style, index, signs = self.rich_style, y - 1 + self.scroll_offset.y, " " * _GUTTER
        if y == 0:
            style = self.get_component_rich_style("table--title")
            line = self._line([column.title for column in self.titles])
        elif index < len(self.rows):
            key, cells = self.rows[index]
            if key in self.marked:
                style += self.get_component_rich_style("table--mark", partial=True)
            if index == self.cursor:
                style += self.get_component_rich_style("table--cursor")
            signs = ("▸" if index == self.cursor else " ") + ("● " if key in self.marked else "  ")
            line = self._line([sanitise(cell) for cell in cells])
        else:
            line = sanitise("".join([] if self.rows else self.empty.splitlines()[index : index + 1]))
        return Strip([Segment(set_cell_size(signs + line, self._line_width), style)], self._line_width)

    @property
    def _line_width(self) -> int:
        return self.scrollable_content_region.width

    def _line(self, cells: Sequence[str]) -> str:
        taken = _GUTTER + sum(column.width or 0 for column in self.titles) + len(self.titles) - 1
        sharing = sum(column.width is None for column in self.titles)
        share = max(1, (self._line_width - taken) // max(1, sharing))
        return " ".join(
            column.fit(cell, share if column.width is None else column.width)
            for cell, column in zip(cells, self.titles, strict=True)
        )

    def _update_key(self) -> None:
        self.key = self.rows[self.cursor][0] if self.rows else None


def shorten(text: str, width: int) -> str:
    """A text in at most `width` cells, shortened in the middle, keeping more of the end, as paths differ there."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    end = set_cell_size(text[::-1], (width - 1) * 2 // 3).rstrip()[::-1]
    return f"{set_cell_size(text, width - 1 - cell_len(end)).rstrip()}…{end}"


MAX_STEPS: Final = 8
# Numbers smaller than the largest by this factor look alike, as a moving average never reaches zero; each step begins
# at least at this multiple of the one before.
_WIDEST, _NARROWEST = 1024.0, 1.25
_ROUND: Final = (16, 8, 1)  # row lengths are multiples of one of these, so that row labels are round numbers
_HEIGHTS: Final = "▁▂▃▄▅▆▇█"  # the steps when there is no colour
_EMPTY, _MARK, _CURSOR_WIDE, _CURSOR = "·", "◆", "[]", "□"
_CORNERS: Final = 6  # cells of the border beside a legend
_SHARE_OF_HEIGHT: Final = 0.45  # of the screen that a map may take before its cells become narrow


def steps(values: NDArray[Any]) -> NDArray[np.float64]:
    """The start of each logarithmic brightness step, ascending: at most `MAX_STEPS`, or each whole number if few."""
    positive = values[values > 0].astype(np.float64)
    if not positive.size:
        return np.zeros(0)
    low, high = positive.min(), positive.max()
    are_whole = bool((positive == np.floor(positive)).all())
    if are_whole and high <= MAX_STEPS:
        return np.arange(low, high + 1)
    low = max(low, high / _WIDEST)
    count = min(MAX_STEPS, max(1, math.floor(math.log(high / low) / math.log(_NARROWEST))))
    starts = np.geomspace(low, high, count + 1)[:-1]
    return np.unique(np.ceil(starts) if are_whole else starts)


def levels(values: NDArray[Any], starts: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The step of each number, from 1; 0 for those that are not above zero."""
    step = np.searchsorted(starts, values, side="right").clip(1 if len(starts) else 0)
    return np.where(values > 0, step, 0).astype(np.uint8)


class HeatMap(CellView):
    """A scrollable grid of numbers, brighter for larger ones; a zero is a dot."""

    TITLES = 0
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"heat-map--{name}" for name in ("warm", "hot", "empty", "mark", "cursor", "label")
    }
    BINDINGS: ClassVar[list[BindingType]] = [Binding("m", "next_mark", "Next marked", show=False)]

    def __init__(self, *, id: str | None = None, can_focus: bool = True) -> None:
        super().__init__(id=id, classes="panel")
        self.can_focus = can_focus
        self._starts: list[float] = []
        self._levels: list[int] = []
        self._marks: frozenset[int] = frozenset()
        self._marked = ""
        self._row = 0  # cells in a row, 0 if not given
        self._steps: list[tuple[str, Style]] = []  # characters and styles of an empty cell and of each step

    def show(
        self, values: NDArray[Any], marks: Collection[int] = (), *, marked: str = "last question", row: int = 0
    ) -> None:
        """Replace the numbers, [cells], finite and not negative; `row` of them in each row, if there is room.

        `marked` says what the `marks` stand for.
        """
        starts = steps(values)
        new = (starts.tolist(), levels(values, starts).tolist(), frozenset(marks), marked, row)
        if new == (self._starts, self._levels, self._marks, self._marked, self._row):
            return
        is_other_size = len(values) != self.cells or row != self._row
        self._starts, self._levels, self._marks, self._marked, self._row = new
        if is_other_size:
            self.cells = len(values)
            self.cursor = min(self.cursor, max(0, self.cells - 1))
            self.on_resize()
            self.refresh(layout=True)
        self._show_legend()

    def action_move(self, x: int, y: int) -> None:
        self.go(self.cursor + x + y * self.columns)  # wraps at the end of a row

    def action_next_mark(self) -> None:
        if self._marks:
            self.go(min(self._marks, key=lambda cell: (cell <= self.cursor, cell)))

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self.is_mounted:
            self.call_after_refresh(self._show_legend)  # component styles are updated after its own

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._lay_out(width)

    def on_resize(self) -> None:
        rows = self._lay_out(self.content_region.width)
        self.virtual_size = Size(self._left + self._pitch * self.columns, rows)
        self.watch_cursor()
        self._show_legend()

    def _lay_out(self, width: int) -> int:
        """Choose the number of cells per row, wide ones if the rows stay few; returns the number of rows."""
        self._left = len(str(max(0, self.cells - 1))) + 1
        room = width - self._left - self.styles.scrollbar_size_vertical
        max_rows = self.app.size.height * _SHARE_OF_HEIGHT
        for self._pitch in (2, 1):
            fitting = max(1, room // self._pitch)
            whole = next(fitting // step * step for step in _ROUND if step <= fitting)
            self.columns = self._row if 0 < self._row <= fitting else min(whole, max(1, self.cells))
            rows = -(-self.cells // self.columns)
            if rows <= max_rows and self._row in (0, self.columns):
                break
        return max(1, rows)

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        first, width = row * self.columns, self._pitch
        cells = range(first, min(first + self.columns, self.cells))
        if not cells:
            return Strip.blank(self.size.width, self.rich_style)
        # Rows of a given length are numbered from 1, like their cells; others show the number of their first cell.
        number = row + 1 if self.columns == self._row else first + (self._row > 0)
        segments = [Segment(f"{number:>{self._left - 1}} ", self._style("label"))]
        for cell in cells:
            text, style = self._steps[self._levels[cell]]
            if cell == self.cursor and self.can_focus:
                text, style = _CURSOR_WIDE if width == 2 else _CURSOR, self._style("cursor")
            elif cell in self._marks:
                text, style = _MARK.ljust(width), self._style("mark")
            segments.append(Segment(text * width if text in _HEIGHTS else text.ljust(width), style))
        return Strip(segments).simplify().adjust_cell_length(self.size.width, self.rich_style)

    def _style(self, part: str) -> Style:
        return self.get_component_rich_style(f"heat-map--{part}")

    def _show_legend(self) -> None:
        count = len(self._starts)
        base, hot = self.background_colors[1], self.get_component_styles("heat-map--hot").color
        warm = self.get_component_styles("heat-map--warm").color
        shades = Gradient((0.0, base.blend(warm, 0.2)), (0.65, warm), (1.0, base.blend(hot, 0.9)))
        if self.app.no_color:
            style = Style(color=hot.rich_color, bgcolor=base.rich_color)
            drawn = [(_HEIGHTS[step * len(_HEIGHTS) // count - 1], style) for step in range(1, count + 1)]
        else:
            # If all are alike, none is the brightest.
            brightness = [step / count for step in range(1, count + 1)] if count > 1 else [0.5]
            drawn = [(" ", Style(bgcolor=shades.get_color(share).rich_color)) for share in brightness]
        self._steps = [(_EMPTY, self._style("empty")), *drawn]
        self.border_subtitle = Content.from_rich_text(self._legend())
        self.refresh()

    def _legend(self) -> Text:
        """What the steps stand for, as many as fit in the border, including the first and the last."""
        steps, legend = list(zip([0.0, *self._starts] if self._starts else [], self._steps, strict=False)), Text()
        for every in range(1, max(1, len(steps)) + 1):
            legend = Text()
            for start, (character, style) in [*steps[:-1:every], *steps[-1:]]:
                rough = format_number(start) if start >= 100 or start == int(start) else f"{start:.2g}"
                legend.append("  " if legend else "").append(character, style).append(f" {rough}")
            if self._marks:
                legend.append("  ").append(_MARK, self._style("mark")).append(f" {self._marked}")
            if legend.cell_len <= self.size.width - _CORNERS:
                break
        return legend
