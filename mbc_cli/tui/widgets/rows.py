"""A table of many rows, of which only those in sight are drawn: new rows cost nothing but their drawing."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mbc_cli.text import plain

_GUTTER: Final = 3  # cells, for the signs of the cursor and of a mark


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        title: what stands above it.
        width: cells; None shares what the others leave. Texts that are longer are shortened in their middle.
        is_number: stands to the right.
    """

    title: str
    width: int | None = None
    is_number: bool = False


@dataclass(frozen=True)
class Row:
    """A row.

    Attributes:
        key: what tells it from all others, and is the same again when it is shown anew.
        cells: its texts, a column each; may be foreign.
    """

    key: Hashable
    cells: tuple[str, ...]


class Rows(ScrollView, can_focus=True):
    """Rows under fixed titles, with a cursor, and with marks where they are wanted.

    Attributes:
        cursor: the place of the row under the cursor.
        marked: keys of marked rows; such as are no longer shown are dropped.
        empty: what stands there where there are no rows.

    Args:
        columns: what stands in the cells of a row.
        can_mark: whether Space marks rows.
    """

    DEFAULT_CSS = """
    Rows {
        height: 1fr; overflow-x: hidden; scrollbar-size-vertical: 1;
        & > .rows--title { color: $text-muted; text-style: bold; }
        & > .rows--mark { color: $text-warning; text-style: bold; }
        & > .rows--cursor { background: $block-cursor-blurred-background; }
        &:focus > .rows--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--title", "rows--mark", "rows--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "turn(-1)", "Page up", show=False),
        Binding("pagedown", "turn(1)", "Page down", show=False),
        Binding("home", "go(0)", "First", show=False),
        Binding("end", "go(-1)", "Last", show=False),
        Binding("space", "mark", "Mark"),
    ]

    cursor: reactive[int] = reactive(0)
    empty: reactive[str] = reactive("")

    class Moved(Message):
        """Another row is under the cursor, or none."""

    class Marked(Message):
        """Other rows are marked than before."""

    @dataclass
    class TitleClicked(Message):
        """Someone clicked on the title of a column."""

        column: int

    def __init__(self, columns: Sequence[Column], *, can_mark: bool = False) -> None:
        super().__init__()
        self.columns, self._can_mark = tuple(columns), can_mark
        self.marked: set[Hashable] = set()
        self._rows: Sequence[Row] = ()
        self._told: Hashable | None = None

    @property
    def rows(self) -> Sequence[Row]:
        """What is shown."""
        return self._rows

    @property
    def key(self) -> Hashable | None:
        """The row under the cursor; None where there are none."""
        return self._rows[self.cursor].key if self.cursor < len(self._rows) else None

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows instead of the ones before. Cursor, marks and what is in sight stay as far as they can."""
        if rows == self._rows:
            return
        before, ahead = self.key, self.cursor - self.scroll_offset.y
        is_same_start = self.cursor < len(rows) and rows[self.cursor].key == before
        if bool(rows) != bool(self._rows):
            self.call_next(self.refresh_bindings)
        self._rows = rows
        keys = {row.key: place for place, row in enumerate(rows)} if self.marked or not is_same_start else {}
        if self.marked:
            self._remark({key for key in self.marked if key in keys})
        self.virtual_size = Size(self._room, len(rows) + 1)
        if not is_same_start:
            place = keys.get(before, min(self.cursor, max(0, len(rows) - 1)))
            self.set_reactive(Rows.cursor, place)
            self.scroll_to(y=max(0, place - ahead), animate=False, force=True)
        self._tell()
        self.refresh()

    def go(self, place: int) -> None:
        """Put the cursor on a row."""
        self.cursor = max(0, min(place, len(self._rows) - 1))

    def retitle(self, columns: Sequence[Column]) -> None:
        """Other titles or widths for the same columns."""
        if tuple(columns) != self.columns:
            self.columns = tuple(columns)
            self.refresh()

    def unmark(self) -> None:
        """Take all marks away."""
        self._remark(set())

    def watch_cursor(self, before: int, now: int) -> None:
        """Keep the cursor in sight, and tell of it."""
        self.scroll_to_region(Region(0, now, 1, 2), animate=False, force=True)
        self._tell()
        self.refresh_line(before + 1)
        self.refresh_line(now + 1)

    def action_move(self, by: int) -> None:
        """Move the cursor by rows."""
        self.go(self.cursor + by)

    def action_turn(self, by: int) -> None:
        """Move the cursor by what is in sight."""
        self.go(self.cursor + by * max(1, self.size.height - 2))

    def action_go(self, place: int) -> None:
        """Move the cursor to the first row, or the last."""
        self.go(place % max(1, len(self._rows)))

    def action_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away, and go on to the next."""
        if (key := self.key) is not None:
            self._remark(self.marked ^ {key})
            self.action_move(1)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Marking is offered where it is wanted and there is something to mark."""
        return self._can_mark and bool(self._rows) if action == "mark" else True

    def on_resize(self, event: events.Resize) -> None:
        self.virtual_size = Size(self._room, len(self._rows) + 1)

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            self._click_title(event.x)
        elif (place := event.y - 1 + self.scroll_offset.y) < len(self._rows):
            self.go(place)
            if self._can_mark and (event.ctrl or event.x < _GUTTER):
                self._remark(self.marked ^ {self._rows[place].key})

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        width = self._room
        if y == 0:
            line, style = self._titles(), self.get_component_rich_style("rows--title")
            return self._strip(line, style, width)
        place = y - 1 + self.scroll_offset.y
        if place >= len(self._rows):
            said = self.empty if place == 0 else ""
            return self._strip(" " * _GUTTER + said, self.rich_style, width)
        row, is_here = self._rows[place], place == self.cursor
        is_marked = row.key in self.marked
        signs = ("▸" if is_here else " ") + ("● " if is_marked else "  ")
        style = Style()
        if is_marked:
            style += self.get_component_rich_style("rows--mark", partial=True)
        if is_here:
            style += self.get_component_rich_style("rows--cursor")
        line = signs + self._line([plain(cell) for cell in row.cells])
        return self._strip(line, self.rich_style + style, width)

    @property
    def _room(self) -> int:
        """Cells of a line, beside the bar if there is one."""
        return self.scrollable_content_region.width

    def _strip(self, line: str, style: Style, width: int) -> Strip:
        return Strip([Segment(set_cell_size(line, width), style)], width)

    def _titles(self) -> str:
        return " " * _GUTTER + self._line([column.title for column in self.columns])

    def _line(self, cells: Sequence[str]) -> str:
        widths = self._widths()
        return " ".join(map(_fitted, cells, widths, (column.is_number for column in self.columns)))

    def _widths(self) -> list[int]:
        given = sum(column.width or 0 for column in self.columns) + len(self.columns) - 1
        sharing = sum(column.width is None for column in self.columns)
        rest = max(1, (self._room - _GUTTER - given) // max(1, sharing))
        return [rest if column.width is None else column.width for column in self.columns]

    def _click_title(self, x: int) -> None:
        end = _GUTTER
        for number, width in enumerate(self._widths()):
            end += width + 1
            if x < end:
                self.post_message(self.TitleClicked(number))
                return

    def _remark(self, marked: set[Hashable]) -> None:
        if marked != self.marked:
            self.marked = marked
            self.post_message(self.Marked())
            self.refresh()

    def _tell(self) -> None:
        if self.key != self._told:
            self._told = self.key
            self.post_message(self.Moved())


def middle(text: str, width: int) -> str:
    """A text in at most so many cells, shortened in its middle: of a path, most of what is kept is its end."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail, room = "", (width - 1) * 2 // 3
    for letter in reversed(text):
        if cell_len(letter + tail) > room:
            break
        tail = letter + tail
    head, room = "", width - 1 - cell_len(tail)
    for letter in text:
        if cell_len(head + letter) > room:
            break
        head += letter
    return f"{head}…{tail}"


def _fitted(text: str, width: int, is_number: bool) -> str:
    text = middle(text, width)
    return " " * (width - cell_len(text)) + text if is_number else set_cell_size(text, width)
