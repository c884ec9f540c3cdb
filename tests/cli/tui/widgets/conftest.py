"""A widget alone on the screen, and what it draws."""

from textual.app import App, ComposeResult
from textual.widget import Widget

HOSTILE = "[red]\x1b[31m\u202eb"


class Alone(App[None]):
    """A widget and nothing else."""

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self._widget = widget
        self.told: list[object] = []

    def compose(self) -> ComposeResult:
        yield self._widget

    def on_mount(self) -> None:
        self._widget.focus()


def lines(widget: Widget) -> list[str]:
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]
