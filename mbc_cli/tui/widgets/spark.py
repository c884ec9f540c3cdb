"""Numbers as a row of bars, in a line of text."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from rich.text import Text
from textual.widget import Widget

_EIGHTHS: Final = "▁▂▃▄▅▆▇█"


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
        bars = (_EIGHTHS[max(0, min(7, round(value / most * 8) - 1))] for value in last)
        return Text("".join(bars).rjust(width), no_wrap=True)
