"""How much of something is done, as a bar that needs no colour."""

from typing import Final

from rich.text import Text
from textual.widget import Widget

from mbc_cli.tui.widgets.bars import drawn_bar

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
