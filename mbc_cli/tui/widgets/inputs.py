"""One of a few things to choose, in a line.

A choice of yes or no that is told by a sign, not by a colour.

A line to type questions into, with those of before at the arrow keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Checkbox, Input, Static


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


class Option(Checkbox):
    """A name behind [x] or [ ]."""

    DEFAULT_CSS = """
    Option, Option:focus { border: none !important; padding: 0; height: 1; width: auto; background: transparent; }
    Option > .toggle--button, Option.-on > .toggle--button { color: $foreground; background: transparent; }
    """
    BUTTON_LEFT, BUTTON_RIGHT = "", ""

    def __init__(self, label: str, *, id: str) -> None:
        super().__init__(label, id=id, compact=True)

    @property
    def BUTTON_INNER(self) -> str:  # type: ignore[override]  # noqa: N802  # as Textual names it
        """The sign."""
        return "[x]" if self.value else "[ ]"


class QuestionInput(Input):
    """Up brings the questions asked before, down the later ones and what was being typed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "recall(-1)", "Question before", show=False),
        Binding("down", "recall(1)", "Later question", show=False),
    ]

    def __init__(self, *, placeholder: str, id: str) -> None:
        super().__init__(placeholder=placeholder, id=id, select_on_focus=False)
        self._asked: list[str] = []
        self._at, self._typed = 0, ""

    def remember(self, questions: Sequence[str]) -> None:
        """Take in questions that were asked, the first one asked first."""
        self._asked += [question for question in questions if self._asked[-1:] != [question]]
        self._at = len(self._asked)

    def action_recall(self, by: int) -> None:
        """Go back or forth in what was asked."""
        at = self._at + by
        if not 0 <= at <= len(self._asked):
            return
        if self._at == len(self._asked):
            self._typed = self.value
        self._at = at
        self.value = self._typed if at == len(self._asked) else self._asked[at]
        self.cursor_position = len(self.value)
