"""The dashboard's app: it holds the state, has it updated by polls, and draws the visible view again."""

import asyncio
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, TabbedContent, Tabs

from mbc_cli.config import activity_log
from mbc_cli.tui.jobs import Poll, poll_bank, poll_log, poll_run, poll_runs, poll_terminal, start_polling
from mbc_cli.tui.state import AttachedRun, DashboardState, Places, RunSummary
from mbc_cli.tui.views import View
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.views.ingest import IngestTab
from mbc_cli.tui.views.overview import OverviewView
from mbc_cli.tui.views.train import TrainView
from mbc_engine.runs.event_log import Followed
from mbc_engine.runs.ingests import is_recorded

# In the order of their tabs and of the keys 1, 2, 3, ...
VIEWS: Final[tuple[type[View], ...]] = (OverviewView, CodesView, TrainView, IngestTab, AskView, DocumentsView)
_DRAW_INTERVAL: Final = 0.5  # seconds; drawing is most of what the dashboard does


class Dashboard(App[None]):
    """Watch and use a memory; ends with its `terminal`, a file descriptor, or with an unexpected `error`."""

    TITLE = "mbc"
    CSS_PATH = "dashboard.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  # as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(key), f"view('{view.NAME}')", view.TITLE, show=False) for key, view in enumerate(VIEWS, 1)),
        Binding("ctrl+pageup", "turn(-1)", "Previous view", show=False, priority=True),
        Binding("ctrl+pagedown", "turn(1)", "Next view", show=False, priority=True),
        Binding("question_mark", "show_keys", "Keys"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, places: Places, view: str = OverviewView.NAME, terminal: int | None = None) -> None:
        super().__init__()
        self.places, self._first, self._terminal = places, view, terminal
        self.state = DashboardState()
        self._polls: dict[str, Callable[[], None]] = {}  # how to stop them
        self._is_stale = False
        self._keys: set[Binding] = set()  # that the footer shows
        self.error: Exception | None = None

    def compose(self) -> ComposeResult:
        with TabbedContent(initial=self._first):
            for key, view in enumerate(VIEWS, 1):
                yield view(key, self.places)
        yield Footer()

    def on_mount(self) -> None:
        with suppress(NotImplementedError):  # where there are no signals
            # Else the terminal would be left in the state the dashboard draws in.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, None, 128 + signal.SIGTERM)
        log = activity_log(self.places.bank)
        self._poll("bank", poll_bank(self.places.bank, self._updating(self.state.update_bank)))
        self._poll("ingest", poll_log(log, lambda: is_recorded(log), self._updating(self.state.update_ingest)))
        if self._terminal is not None:
            self._poll("terminal", poll_terminal(self._terminal))
        if self.places.run is not None:
            self.attach(self.places.run)
        self._poll("runs", poll_runs(self.places.runs, self._updating(self._update_runs)))
        self.set_interval(_DRAW_INTERVAL, self._draw_if_stale)

    def on_unmount(self) -> None:
        for stop in self._polls.values():
            stop()

    @property
    def view(self) -> View:
        tabs = self.query_one(TabbedContent)
        return tabs.query_one(f"#{tabs.active}", View)

    def draw(self) -> None:
        """Draw the visible view, and its keys if others can be used now."""
        self.view.draw()
        keys = {own.binding for own in self.screen.active_bindings.values()}
        if keys != self._keys:
            self._keys = keys
            self.screen.refresh_bindings()

    def changed(self) -> None:
        """The state has changed: have the visible view drawn again soon."""
        self._is_stale = True

    def attach(self, run: Path | None) -> None:
        self.state.run = self._follow("run", run)
        self.changed()

    def compare(self, run: Path | None) -> None:
        self.state.other = self._follow("other", run)
        self.changed()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for view in VIEWS:
            yield SystemCommand(view.TITLE, view.ABOUT, lambda name=view.NAME: self.action_view(name))

    def action_view(self, name: str) -> None:
        self.query_one(TabbedContent).active = name

    def action_turn(self, by: int) -> None:
        names = [view.NAME for view in VIEWS]
        self.action_view(names[(names.index(self.view.NAME) + by) % len(names)])

    def action_show_keys(self) -> None:
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        self.draw()
        if isinstance(self.focused, Tabs) or self.focused is None or self.view not in self.focused.ancestors:
            self.view.take_focus()

    def _updating(self, update: Callable[..., object]) -> Callable[..., object]:
        """The same for other threads: it runs in the app's own, and the visible view is drawn again."""

        def run(*arguments: object) -> None:
            update(*arguments)
            self.changed()

        return lambda *arguments: self.call_later(run, *arguments)

    def _poll(self, name: str, poll: Poll | None) -> None:
        if stop := self._polls.pop(name, None):
            stop()
        if poll is not None:
            self._polls[name] = start_polling(poll, self.call_later)

    def _follow(self, name: str, folder: Path | None) -> AttachedRun | None:
        if folder is None:
            self._poll(name, None)
            return None
        run = AttachedRun(folder)

        def update(followed: Followed, at_work: bool, usage: NDArray[np.float32] | None) -> None:
            was_behind = run.is_behind
            run.update(followed, at_work, usage)
            if was_behind and not run.is_behind:
                self.call_next(self._draw_if_stale)  # a long log has been waited for

        self._poll(name, poll_run(folder, self._updating(update)))
        return run

    def _update_runs(self, runs: tuple[RunSummary, ...]) -> None:
        self.state.runs = runs
        if self.state.run is None and runs:
            self.attach(runs[0].folder)

    def _fatal_error(self) -> None:
        """The caller reports the error; Textual would print all variables, answers among them."""
        self.error = self._exception
        self._close_messages_no_wait()

    def _draw_if_stale(self) -> None:
        if self._is_stale and self.is_running:  # views come apart before the timer ends
            self._is_stale = False
            self.draw()
