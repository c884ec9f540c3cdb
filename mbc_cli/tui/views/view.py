"""What all views have in common: a tab of the dashboard that draws what is known."""

from typing import TYPE_CHECKING, ClassVar, cast

from textual.widgets import TabPane

if TYPE_CHECKING:
    from mbc_cli.tui.app import Dashboard
    from mbc_cli.tui.known import Known
    from mbc_cli.tui.places import Places


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
