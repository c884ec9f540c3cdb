"""A choice of yes or no that is told by a sign, not by a colour."""

from textual.widgets import Checkbox


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
