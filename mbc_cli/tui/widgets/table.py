"""A grid of cells with a cursor, and a table of any number of rows that draws only the visible ones.

Textual's DataTable takes 27 seconds to add 100,000 rows.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mbc_cli.text import sanitise

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
        self.titles, self.rows, self._can_mark = tuple(titles), list[Row](), can_mark

    def show(self, rows: list[Row], titles: Sequence[Column] | None = None) -> None:
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
