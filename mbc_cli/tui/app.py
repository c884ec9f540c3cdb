"""The dashboard's app: it keeps what is known, hands messages on, and has the view in sight drawn anew."""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, TabbedContent, Tabs

from mbc_cli.paths import activity_log
from mbc_cli.tui.jobs.polling import BankWatch, IngestWatch, Lookout, RunsWatch, RunWatch
from mbc_cli.tui.jobs.processes import Crashed, start_thread
from mbc_cli.tui.state import (
    Attached,
    BankChanged,
    BankMissing,
    IngestLogged,
    Known,
    Places,
    RunLogged,
    RunsChanged,
    UsageSeen,
)
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.views.ingest import IngestView
from mbc_cli.tui.views.overview import OverviewView
from mbc_cli.tui.views.train import TrainView
from mbc_cli.tui.views.view import View
from mbc_cli.tui.widgets.code_sheet import CodeSheet
from mbc_engine.runs.ingests import IngestHistory
from mbc_engine.runs.training_runs import RunHistory

# The views in the order of their tabs and of the keys 1, 2, 3, ...
VIEWS: Final[tuple[type[View], ...]] = (OverviewView, CodesView, TrainView, IngestView, AskView, DocumentsView)
# Seconds between two drawings of what changes by itself. Drawing is most of what the dashboard does.
_DRAW_EVERY: Final = 0.5


class Dashboard(App[None]):
    """Watch and use a memory.

    Attributes:
        error: what it ended over, if nobody had expected that.

    Args:
        places: where to look.
        view: the name of the view to begin with.
    """

    TITLE = "mbc"
    CSS_PATH = "dashboard.tcss"
    ENABLE_COMMAND_PALETTE = True
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  # as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(key), f"view('{view.NAME}')", view.TITLE, show=False) for key, view in enumerate(VIEWS, 1)),
        Binding("ctrl+pageup", "turn(-1)", "Previous view", show=False, priority=True),
        Binding("ctrl+pagedown", "turn(1)", "Next view", show=False, priority=True),
        Binding("question_mark", "show_keys", "Keys"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, places: Places, view: str = OverviewView.NAME) -> None:
        super().__init__()
        self.places, self._first = places, view
        self.known = Known()
        self.lookout = Lookout(self.post_message)
        self._is_stale = False
        self.error: Exception | None = None

    def compose(self) -> ComposeResult:
        with TabbedContent(initial=self._first):
            for key, view in enumerate(VIEWS, 1):
                yield view(key, self.places)
        yield Footer()

    def on_mount(self) -> None:
        with suppress(NotImplementedError):  # where there are no signals
            # The terminal would be left in the state the dashboard draws in.
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, None, 128 + signal.SIGTERM)
        self.lookout.put("bank", BankWatch(self.places.bank))
        self.lookout.put("ingest", IngestWatch(activity_log(self.places.bank)))
        if self.places.run is not None:
            self.attach(self.places.run)  # before the others, which may be many
        self.lookout.put("runs", RunsWatch(self.places.runs))
        start_thread("lookout", self.lookout.run, self.post_message)
        self.set_interval(_DRAW_EVERY, self._draw_if_stale)

    def on_unmount(self) -> None:
        self.lookout.stop()

    @property
    def view(self) -> View:
        """The view in sight."""
        tabs = self.query_one(TabbedContent)
        return tabs.query_one(f"#{tabs.active}", View)

    def changed(self) -> None:
        """Something that is known has changed; what is in sight is drawn anew in a moment."""
        self._is_stale = True

    def attach(self, run: Path | None) -> None:
        """Follow a run, or none."""
        self.known.run = self._followed("run", run)
        self.changed()

    def compare(self, run: Path | None) -> None:
        """Follow a second run beside the first, or none."""
        self.known.other = self._followed("other", run)
        self.changed()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette offers."""
        yield from super().get_system_commands(screen)
        for view in VIEWS:
            yield SystemCommand(view.TITLE, view.ABOUT, lambda name=view.NAME: self.action_view(name))

    def action_view(self, name: str) -> None:
        """Go to a view."""
        self.query_one(TabbedContent).active = name

    def action_turn(self, by: int) -> None:
        """Go to the next view, or the one before."""
        names = [view.NAME for view in VIEWS]
        self.action_view(names[(names.index(self.view.NAME) + by) % len(names)])

    def action_show_keys(self) -> None:
        """Show or hide the keys that do something here."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        self.view.draw()
        if isinstance(self.focused, Tabs) or self.focused is None or self.view not in self.focused.ancestors:
            self.view.take_focus()

    def on_crashed(self, message: Crashed) -> None:
        """End as over an error of the app's own."""
        raise message.error

    def on_code_sheet_code_chosen(self, message: CodeSheet.CodeChosen) -> None:
        """Look at a code of a document among all codes."""
        self.action_view(CodesView.NAME)
        self.query_one(CodesView).show_code(message.level, message.position, message.code)

    def on_bank_changed(self, message: BankChanged) -> None:
        self.known.bank, self.known.trouble = message.bank, None
        self.changed()

    def on_bank_missing(self, message: BankMissing) -> None:
        self.known.bank, self.known.trouble = None, message.trouble
        self.changed()

    def on_ingest_logged(self, message: IngestLogged) -> None:
        if message.followed.is_anew:
            self.known.ingest = IngestHistory()
        self.known.ingest.add(message.followed.events)
        self.known.is_ingesting = message.at_work
        self.changed()

    def on_run_logged(self, message: RunLogged) -> None:
        attached = message.attached
        if message.followed.is_anew:
            attached.history = RunHistory()
        attached.history.add(message.followed.events)
        attached.at_work = message.at_work
        attached.is_behind, was_behind = message.followed.has_more, attached.is_behind
        self.changed()
        if was_behind and not attached.is_behind:
            self.call_next(self._draw_if_stale)  # a long log has been waited for

    def on_usage_seen(self, message: UsageSeen) -> None:
        message.attached.usage = message.usage
        self.changed()

    def on_runs_changed(self, message: RunsChanged) -> None:
        self.known.runs = message.runs
        if self.known.run is None and message.runs:
            self.attach(message.runs[0].folder)
        self.changed()

    def _fatal_error(self) -> None:
        """End; whoever runs the app tells of the error. Textual would print all variables, answers among them."""
        self.error = self._exception
        self._close_messages_no_wait()

    def _followed(self, name: str, run: Path | None) -> Attached | None:
        attached = None if run is None else Attached(run)
        self.lookout.put(name, None if attached is None else RunWatch(attached))
        return attached

    def _draw_if_stale(self) -> None:
        if self._is_stale and self.is_running:  # views come apart before the timer ends
            self._is_stale = False
            self.view.draw()
