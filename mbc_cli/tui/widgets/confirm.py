"""A question in front of everything, answered yes or no."""

from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from mbc_cli.text import plain


class Confirm(ModalScreen[bool]):
    """Asks before something that matters. Escape, or a click beside it, means no.

    Args:
        question: what is about to happen; may hold foreign text.
        yes: what doing it is called.
        no: what leaving it is called; it has the focus, so that Enter alone does no harm.
    """

    DEFAULT_CSS = """
    Confirm {
        align: center middle;
        & > Vertical {
            width: 64; max-width: 90%; height: auto;
            padding: 1 2; border: round $warning; background: $surface;
        }
        & Horizontal { height: auto; align-horizontal: right; margin-top: 1; }
        & Button { margin-left: 2; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
        Binding("left,right", "app.focus_next", show=False),
    ]

    def __init__(self, question: str, yes: str = "Yes", no: str = "No") -> None:
        super().__init__()
        self._question, self._yes, self._no = question, yes, no

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(plain(self._question)))
            with Horizontal():
                yield Button(Text(plain(self._yes)), id="yes", variant="warning", compact=True)
                yield Button(Text(plain(self._no)), id="no", compact=True)

    def on_mount(self) -> None:
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(False)

    def action_answer(self, is_yes: bool) -> None:
        """Answer, and be gone."""
        self.dismiss(is_yes)
