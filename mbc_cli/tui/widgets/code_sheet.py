"""A document's codes, as numbers and as dots: chunk below chunk, level below level, position beside position."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mbc_cli.tui.widgets.plot import BLANK

_GAP: Final = 2  # cells between numbers and dots


@dataclass(frozen=True)
class Cell:
    """A place on the sheet: its line below the titles, and the position of its code."""

    line: int
    position: int


class CodeSheet(ScrollView, can_focus=True):
    """The codes of a document's chunks.

    Equal dots stand for equal codes, as far as eight dots can tell them apart.
    """

    DEFAULT_CSS = """
    CodeSheet {
        height: 1fr; scrollbar-size: 1 1;
        & > .sheet--title { color: $text-muted; }
        & > .sheet--dots { color: $text-accent; }
        & > .sheet--cursor { background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold; }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"sheet--title", "sheet--dots", "sheet--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1, 0)", "Up", show=False),
        Binding("down", "move(1, 0)", "Down", show=False),
        Binding("left", "move(0, -1)", "Left", show=False),
        Binding("right", "move(0, 1)", "Right", show=False),
        Binding("pageup", "turn(-1)", "Page up", show=False),
        Binding("pagedown", "turn(1)", "Page down", show=False),
        Binding("home", "move(-1_000_000_000, 0)", "First", show=False),
        Binding("end", "move(1_000_000_000, 0)", "Last", show=False),
        Binding("enter", "choose", "Look at the code"),
    ]

    cursor: reactive[Cell] = reactive(Cell(0, 0))

    @dataclass
    class CodeChosen(Message):
        """Someone wants to know more of a code: where it stands, counted from 0, and which it is."""

        level: int
        position: int
        code: int

    def __init__(self) -> None:
        super().__init__()
        self._codes = np.zeros((0, 1, 1), np.uint16)
        self._num_codes = 2

    def show(self, codes: NDArray[np.uint16], num_codes: int) -> None:
        """Show other codes, [chunks, tokens, levels], each below `num_codes`."""
        if np.array_equal(codes, self._codes):
            return
        self._codes, self._num_codes = codes, num_codes
        self.set_reactive(CodeSheet.cursor, Cell(0, 0))
        self.virtual_size = Size(self._dots + self._tokens, self._lines + 1)
        self.scroll_to(0, 0, animate=False, force=True)
        self.refresh()

    def watch_cursor(self) -> None:
        """Keep the cursor in sight."""
        region = Region(self._column(self.cursor.position), self.cursor.line, self._digits, 2)
        self.scroll_to_region(region, animate=False, force=True)
        self.refresh()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """The cursor is shown where it can be moved."""
        super().watch_has_focus(_has_focus)
        self.refresh()

    def action_move(self, lines: int, positions: int) -> None:
        """Move the cursor."""
        line = min(max(0, self.cursor.line + lines), max(0, self._lines - 1))
        self.cursor = Cell(line, min(max(0, self.cursor.position + positions), self._tokens - 1))

    def action_turn(self, by: int) -> None:
        """Move the cursor by what is in sight."""
        self.action_move(by * max(1, self.size.height - 2), 0)

    def action_choose(self) -> None:
        """Tell of the code under the cursor."""
        if self._lines:
            chunk, level = divmod(self.cursor.line, self._levels)
            position = self.cursor.position
            self.post_message(self.CodeChosen(level, position, int(self._codes[chunk, position, level])))

    def on_click(self, event: events.Click) -> None:
        line = event.y - 1 + self.scroll_offset.y
        position = (event.x + self.scroll_offset.x - self._column(0)) // (self._digits + 1)
        if event.y > 0 and line < self._lines and 0 <= position < self._tokens:
            self.cursor = Cell(line, position)
            if event.chain > 1:
                self.action_choose()

    def render_line(self, y: int) -> Strip:
        """A line of what is in sight."""
        width, (scroll_x, scroll_y) = self.size.width, self.scroll_offset
        if not self._lines:
            return Strip.blank(width, self.rich_style)
        strip = self._titles() if y == 0 else self._line(y - 1 + scroll_y)
        return strip.crop_extend(scroll_x, scroll_x + width, self.rich_style)

    def _titles(self) -> Strip:
        style = self.get_component_rich_style("sheet--title")
        positions = " ".join(f"{position:>{self._digits}}" for position in range(1, self._tokens + 1))
        return Strip([Segment(f"{'chunk':>{self._label}}  {positions}", style)])

    def _line(self, line: int) -> Strip:
        chunk, level = divmod(line, self._levels)
        if chunk >= len(self._codes):
            return Strip([])
        codes = self._codes[chunk, :, level].tolist()
        muted, plain = self.get_component_rich_style("sheet--title"), self.rich_style
        label = f"{chunk + 1:,}" if level == 0 else f"·{level + 1}"
        segments = [Segment(f"{label:>{self._label}}  ", muted)]
        for position, code in enumerate(codes):
            is_here = self.has_focus and self.cursor == Cell(line, position)
            style = self.get_component_rich_style("sheet--cursor") if is_here else plain
            segments += [Segment(f"{code:>{self._digits}}", style), Segment(" ", plain)]
        dots = "".join(chr(BLANK + code * 255 // max(1, self._num_codes - 1)) for code in codes)
        segments += [Segment(" " * (_GAP - 1), plain), Segment(dots, self.get_component_rich_style("sheet--dots"))]
        return Strip(segments)

    @property
    def _lines(self) -> int:
        return len(self._codes) * self._levels

    @property
    def _tokens(self) -> int:
        return self._codes.shape[1]

    @property
    def _levels(self) -> int:
        return self._codes.shape[2]

    @property
    def _digits(self) -> int:
        return len(str(max(self._num_codes - 1, self._tokens)))

    @property
    def _label(self) -> int:
        return max(len("chunk"), len(f"{len(self._codes):,}"))

    def _column(self, position: int) -> int:
        return self._label + 2 + position * (self._digits + 1)

    @property
    def _dots(self) -> int:
        return self._column(self._tokens) + _GAP - 1
