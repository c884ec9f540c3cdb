"""One of a few things to choose, in a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static


class Choice(Static, can_focus=True):
    """Names in a row, the chosen one in brackets and reversed; left and right or a click choose.

    Args:
        names: what there is to choose, short.
        label: what is chosen, before the names.
        is_folded: show the chosen name alone, between arrows.
    """

    DEFAULT_CSS = """
    Choice {
        width: auto; height: 1;
        color: $text-muted;
        &:focus { background: $boost; color: $foreground; }
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Before", show=False),
        Binding("right,space,enter", "step(1)", "Next", show=False),
    ]

    @dataclass
    class Changed(Message):
        """Another one is chosen, the one at this place."""

        at: int

    def __init__(self, names: Sequence[str], *, label: str = "", is_folded: bool = False, id: str) -> None:
        super().__init__(id=id)
        self._label, self._names, self._is_folded = f"{label} " if label else "", names, is_folded
        self.at = 0

    def on_mount(self) -> None:
        self._draw()

    def choose(self, at: int) -> None:
        """Choose one by its place; past the last comes the first."""
        at %= len(self._names)
        if at != self.at:
            self.at = at
            self._draw()
            self.post_message(self.Changed(at))

    def action_step(self, by: int) -> None:
        """Choose the next, or the one before."""
        self.choose(self.at + by)

    def on_click(self, event: events.Click) -> None:
        end = len(self._label)
        if self._is_folded:
            self.choose(self.at + (-1 if event.x <= end else 1))
            return
        for at, name in enumerate(self._names):
            end += len(name) + 2
            if event.x < end:
                if event.x >= len(self._label):
                    self.choose(at)
                return

    def _draw(self) -> None:
        told = Text(self._label)
        if self._is_folded:
            self.update(told.append("◂ ").append(self._names[self.at], "bold").append(" ▸"))
            return
        for at, name in enumerate(self._names):
            if at == self.at:
                told.append(f"[{name}]", "bold reverse")
            else:
                told.append(f" {name} ")
        self.update(told)
