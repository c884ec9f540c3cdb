"""A widget alone on the screen, and what it draws."""

from pathlib import Path

from textual.app import App

import mbc_cli.tui


class WidgetApp(App[None]):
    """A widget and nothing else, with the dashboard's stylesheet."""

    CSS_PATH = Path(mbc_cli.tui.__file__).parent / "dashboard.tcss"

    def __init__(self, widget):
        super().__init__()
        self.widget = widget

    def compose(self):
        yield self.widget

    def on_mount(self):
        self.widget.focus()


def lines(widget):
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
