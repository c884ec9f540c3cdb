"""What all views have in common: a tab of the dashboard that draws what is known.

What is wrong, and what to do about it.
"""

from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.widgets import TabPane

from mbc_cli.text import plain
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from mbc_cli.tui.app import Dashboard
    from mbc_cli.tui.state import Known, Places


class View(TabPane):
    """A tab.

    `draw` is called when the tab comes into sight and, at most twice a second, when something known has changed while
    it is. It must be cheap where nothing changed that the view shows.

    Args:
        key: the digit that leads to it.
        places: where the dashboard looks.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    ABOUT: ClassVar[str]
    HELP: ClassVar[str]  # Markdown; stands above the keys

    def __init__(self, key: int, places: "Places") -> None:
        super().__init__(f"{key} {self.TITLE}", id=self.NAME)
        self.places = places

    @property
    def dashboard(self) -> "Dashboard":
        """The app."""
        return cast("Dashboard", self.app)

    @property
    def known(self) -> "Known":
        """What there is to draw."""
        return self.dashboard.known

    def draw(self) -> None:
        """Show what is known now."""
        raise NotImplementedError

    def on_resize(self) -> None:
        """There may be room for more, or less."""
        self.call_after_refresh(self.draw)

    def take_focus(self) -> None:
        """Let keys go to what a person would use first here: the first widget that takes them, unless overridden."""
        for widget in self.query("*"):
            if widget.focusable:
                widget.focus()
                return


def told(message: str, *hints: str | None) -> Text:
    """What is wrong, and what to do, a line each. All of it may be foreign text."""
    return Text("\n").join([Text(plain(message), "bold"), *(Text(plain(hint)) for hint in hints if hint)])


def told_trouble(trouble: MBCError) -> Text:
    """An error of the engine and its way out."""
    return told(trouble.message, trouble.hint)


def told_no_bank(trouble: MBCError) -> Text:
    """Why there is no bank to see, its way out, and the ways out there are here."""
    return told(trouble.message, trouble.hint, "Fill one in Ingest (4), or try `mbc demo`.")
