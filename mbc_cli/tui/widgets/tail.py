"""The last of many lines, as many as there is room for."""

from collections.abc import Sequence
from itertools import islice

from rich.text import Text
from textual.widget import Widget

from mbc_cli.text import plain
from mbc_cli.tui.widgets.rows import middle


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
