"""A line to type questions into, with those of before at the arrow keys."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import Input


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
