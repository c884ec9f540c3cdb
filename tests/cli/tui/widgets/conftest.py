"""A widget alone on the screen, and what it draws."""

from pathlib import Path

from textual.app import App, ComposeResult
from textual.widget import Widget

import mbc_cli.tui

HOSTILE = "[red]\x1b[31m\u202eb"


class WidgetApp(App[None]):
    """A widget and nothing else, with the dashboard's stylesheet."""

    CSS_PATH = Path(mbc_cli.tui.__file__).parent / "dashboard.tcss"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget
        self.received: list[object] = []

    def compose(self) -> ComposeResult:
        yield self.widget

    def on_mount(self) -> None:
        self.widget.focus()


def lines(widget: Widget) -> list[str]:
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
