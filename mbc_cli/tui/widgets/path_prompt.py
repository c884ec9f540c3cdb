"""A question in front of everything, answered with a path."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mbc_cli.text import plain


class PathPrompt(ModalScreen[Path | None]):
    """Asks for a path until it is a good one. Escape gives None.

    Args:
        question: what is asked for.
        example: stands in the empty field.
        found: makes a path of what was typed, or raises ValueError with why it is none.
    """

    DEFAULT_CSS = """
    PathPrompt {
        align: center middle;
        & > Vertical {
            width: 76; max-width: 96%; height: auto;
            padding: 1 2; border: round $accent; background: $surface;
        }
        & Input { margin: 1 0; }
        & #words { height: auto; min-height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, question: str, example: str, found: Callable[[str], Path]) -> None:
        super().__init__()
        self._question, self._example, self._found = question, example, found

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question))
            yield Input(placeholder=self._example, compact=True)
            yield Static(Text("Enter opens it, Escape closes.", "dim"), id="words")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        try:
            self.dismiss(self._found(event.value.strip()))
        except ValueError as error:
            self.query_one("#words", Static).update(Text(plain(error)))


def existing_path(typed: str) -> Path:
    """The file or folder that is meant by what was typed; ~ stands for one's home.

    Raises:
        ValueError: there is none that can be looked at.
    """
    try:
        path = Path(typed or ".").expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ValueError(f"{typed}: {reason}") from error
    return path
