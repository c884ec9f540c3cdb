"""The dashboard's app: it holds the state, polls for updates, and redraws the visible view."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import platformdirs
from numpy.typing import NDArray
from textual.app import App, ComposeResult, SuspendNotSupported, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, TabbedContent, Tabs

from mbc_cli.formatting import sanitise
from mbc_cli.paths import DEFAULT_MODEL, activity_log
from mbc_cli.render.answer import open_file
from mbc_cli.render.terminal import notes
from mbc_cli.tui import jobs
from mbc_cli.tui.state import DashboardOptions, DashboardState, RunSummary
from mbc_cli.tui.views import View
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.views.codes import CodesView
from mbc_cli.tui.views.documents import DocumentsView
from mbc_cli.tui.views.ingest import IngestView
from mbc_cli.tui.views.overview import OverviewView
from mbc_cli.tui.views.train import TrainView
from mbc_cli.tui.widgets.inputs import Form, Keys, existing_path
from mbc_engine.bank import CodeShape, StoredDocument
from mbc_engine.errors import MBCError
from mbc_engine.runs.event_log import LogUpdate
from mbc_engine.runs.ingests import is_recorded
from mbc_engine.runs.training_runs import FollowedRun

# In the order of their tabs and of the keys 1, 2, 3, ...
VIEWS: Final[tuple[type[View], ...]] = (AskView, DocumentsView, IngestView, OverviewView, CodesView, TrainView)
_OF_OWN_MODELS: Final = (CodesView.NAME, TrainView.NAME)  # with the built-in model, they get tabs once opened
_AT_WORK: Final = ("running", "training")
_ENDS: Final = ("finished", "stopped", "interrupted")
_DRAW_INTERVAL: Final = 0.5  # seconds; drawing is most of what the dashboard does
_END_SECONDS: Final = 3.0  # allowed for closing before the process is killed


class Dashboard(App[Path]):
    """Watch and use a memory; returns the bank to open next, if any.

    Ends when `stdin`, a file descriptor, hangs up, or on an unexpected `error`.
    """

    TITLE = "mbc"
    CSS_PATH = "dashboard.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012  # as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (36, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(key), f"view('{view.NAME}')", view.TITLE, show=False) for key, view in enumerate(VIEWS, 1)),
        Binding("ctrl+pageup", "turn(-1)", "Previous view", show=False, priority=True),
        Binding("ctrl+pagedown", "turn(1)", "Next view", show=False, priority=True),
        Binding("D", "demo", "Demo"),
        Binding("ctrl+p", "command_palette", "palette", show=False, priority=True),
        Binding("colon", "command_palette", "Commands", show=False),
        Binding("question_mark", "show_help_panel", "Keys"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(
        self,
        options: DashboardOptions,
        view: str = AskView.NAME,
        stdin: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        settings = settings or {}
        if settings.get("theme") in [*self.available_themes]:
            self.theme = settings["theme"]
        self.options, self._first, self._stdin = options, view, stdin
        self.state = DashboardState()
        if settings.get("bank") == str(options.bank):
            self.state.transcript.extend(_turns(settings.get("transcript")))
        self._polls: dict[str, Callable[[], None]] = {}  # functions that stop them
        self._is_stale = False
        self._keys: set[Binding] = set()  # shown in the footer
        self._demo: jobs.ChildProcess | None = None
        self.error: Exception | None = None

    def compose(self) -> ComposeResult:
        with TabbedContent(initial=self._first):
            for key, view in enumerate(VIEWS, 1):
                yield view(key, self.options)
        yield Footer(compact=True)

    def on_load(self) -> None:
        # The dashboard owns the terminal: a spinner of the thread that loads a model would replace `sys.stdout`, and
        # put Textual's back whenever it ends.
        self._was_quiet, notes.quiet = notes.quiet, True

    def on_mount(self) -> None:
        # Not through the event loop's signal handlers, which wait until the loop is idle.
        self._event_loop = asyncio.get_running_loop()
        self._previous = signal.signal(signal.SIGTERM, lambda number, _: self._end(128 + number))
        if self.options.model == DEFAULT_MODEL:
            for name in {view.NAME for view in VIEWS}.intersection(_OF_OWN_MODELS) - {self._first}:
                self.query_one(TabbedContent).hide_tab(name)
        log = activity_log(self.options.bank)
        self._poll("bank", jobs.poll_bank(self.options.bank, self._updating(self.state.update_bank)))
        self._poll("ingest", jobs.poll_log(log, lambda: is_recorded(log), self._updating(self._update_ingest)))
        if self._stdin is not None:
            jobs.start_thread(partial(jobs.await_hangup, self._stdin, self._hang_up), self.call_later)
        if self.options.run is not None:
            self.attach(self.options.run)
        self._poll("runs", jobs.poll_runs(self.options.runs, self._updating(self._update_runs)))
        self.set_interval(_DRAW_INTERVAL, self._draw_if_stale)

    def on_unmount(self) -> None:
        notes.quiet = self._was_quiet
        signal.signal(signal.SIGTERM, self._previous)
        for stop in self._polls.values():
            stop()

    @property
    def view(self) -> View:
        tabs = self.query_one(TabbedContent)
        return tabs.query_one(f"#{tabs.active}", View)

    def draw(self) -> None:
        """Draw the visible view, and its keys if the available ones have changed."""
        self.view.draw()
        keys = {active.binding for active in self.screen.active_bindings.values()}
        if keys != self._keys:
            self._keys = keys
            self.screen.refresh_bindings()

    def request_redraw(self) -> None:
        """Mark the state as changed: the visible view is redrawn soon."""
        self._is_stale = True

    def attach(self, run: Path | None) -> None:
        self.state.run = self._follow("run", run)
        self.request_redraw()

    def compare(self, run: Path | None) -> None:
        self.state.other = self._follow("other", run)
        self.request_redraw()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for view in VIEWS:
            yield SystemCommand(view.TITLE, view.ABOUT, lambda name=view.NAME: self.action_view(name))
        yield SystemCommand("Open bank", "Switch to another bank", self.action_open_bank)
        yield SystemCommand("Demo", "Ingest ten made-up stories and ask about them", self.action_demo)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "demo" or (self.state.bank is None and self.state.bank_error is not None)

    def action_open_bank(self) -> None:
        def switch(typed: dict[str, str]) -> str:
            path = existing_path(typed["path"])
            if not path.is_file():
                return f"{path} is not a bank."
            self.exit(path)
            return ""

        beside = sorted(map(str, self.options.bank.parent.glob("*.mbc")))
        fields = {"path": ("Bank", str(self.options.bank))}
        self.push_screen(Form("Open bank", fields, switch, button="Open", suggestions={"path": beside}))

    def action_demo(self) -> None:
        folder = platformdirs.user_data_path("mbc") / "demo"
        bank = folder / "demo.mbc"

        def end(error: str) -> None:
            if error:
                self.notify(sanitise(error), severity="error", markup=False)
            else:
                self.exit(bank)

        if self._demo is not None and self._demo.is_running:
            return
        if bank.exists():
            self.exit(bank)
            return
        self.notify("Preparing the demo: memorising ten stories.", timeout=20)
        arguments = ["demo", f"--keep={folder}", *self.options.arguments("model", "device")]
        self._demo = jobs.ChildProcess(arguments, partial(self.call_later, end))

    def open_file(self, path: Path, line: int | None = None) -> None:
        """Show a file in the user's editor or pager, which takes over the terminal."""
        # Ctrl-C is meant for the program that shows the file. It would inherit SIG_IGN, but not a handler.
        previous, problem = signal.signal(signal.SIGINT, lambda *_: None), ""
        try:
            with self.suspend():
                try:
                    open_file(path, line)
                except MBCError as error:  # which would leave the app suspended
                    problem = f"{error.message} {error.hint or ''}"
        except SuspendNotSupported:
            problem = "Files can only be opened in a terminal."
        finally:
            signal.signal(signal.SIGINT, previous)
        if problem:
            self.notify(sanitise(problem), severity="error", markup=False)

    def show_document(self, name: str) -> None:
        self.action_view(DocumentsView.NAME)
        self.query_one(DocumentsView).show_only(name)

    def show_codes(self, document: StoredDocument, shape: CodeShape) -> None:
        self.action_view(CodesView.NAME)
        self.query_one(CodesView).mark(document, shape)

    def copy(self, text: str) -> None:
        self.copy_to_clipboard(text)
        self.notify(f"Copied {sanitise(text)}", markup=False)

    @property
    def settings(self) -> dict[str, Any]:
        """What the next start restores."""
        return {"theme": self.theme, "bank": str(self.options.bank), "transcript": list(self.state.transcript)}

    def action_help_quit(self) -> None:
        """Respond to Ctrl+C, which copies; Textual would name the other of the two keys."""
        self.notify("Press q to quit, or Ctrl+Q while typing.", markup=False)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save to the working folder; Textual's default, a downloads folder, may not exist."""
        return super().deliver_screenshot(filename, path or os.getcwd(), time_format)  # noqa: PTH109

    def action_view(self, name: str) -> None:
        tabs = self.query_one(TabbedContent)
        tabs.show_tab(name)
        tabs.active = name

    def action_turn(self, by: int) -> None:
        tabs = self.query_one(TabbedContent)
        names = [view.NAME for view in VIEWS if tabs.get_tab(view.NAME).display]
        self.action_view(names[(names.index(self.view.NAME) + by) % len(names)])

    def action_show_help_panel(self) -> None:
        self.push_screen(Keys(self.view.HELP, self.screen.active_bindings.values()))

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        self.draw()
        if isinstance(self.focused, Tabs) or self.focused is None or self.view not in self.focused.ancestors:
            self.view.take_focus()

    def _hang_up(self) -> None:
        if self.is_running:
            self._end(128 + signal.SIGHUP)

    def _end(self, code: int) -> None:
        """Close the dashboard, from any thread; if it is stuck, end the process."""
        timer = threading.Timer(_END_SECONDS, os._exit, (code,))
        timer.daemon = True
        timer.start()
        self._event_loop.call_soon_threadsafe(self.exit, None, code)

    def _updating(self, update: Callable[..., object]) -> Callable[..., object]:
        """Wrap `update` for other threads: it runs in the app's thread, and the visible view is redrawn.

        Does nothing while the dashboard closes, as its views are being torn down.
        """

        def run(*arguments: object) -> None:
            if self.is_running:
                update(*arguments)
                self.request_redraw()

        return lambda *arguments: self.call_later(run, *arguments)

    def _poll(self, name: str, poll: jobs.Poll | None) -> None:
        if stop := self._polls.pop(name, None):
            stop()
        if poll is not None:
            self._polls[name] = jobs.start_polling(poll, self.call_later)

    def _follow(self, name: str, folder: Path | None) -> FollowedRun | None:
        if folder is None:
            self._poll(name, None)
            return None
        run = FollowedRun(folder)

        def update(log_update: LogUpdate, at_work: bool, usage: NDArray[np.float32] | None) -> None:
            was_behind, before = run.is_behind, run.state
            run.add(log_update, at_work, usage)
            if name == "run" and not was_behind:
                self._notify_end("Training", before, run.state, TrainView.NAME)
            if was_behind and not run.is_behind:
                self.call_next(self._draw_if_stale)  # a long log is now read

        self._poll(name, jobs.poll_run(folder, self._updating(update)))
        return run

    def _update_ingest(self, log_update: LogUpdate, at_work: bool) -> None:
        before, began, was_read = self.state.ingest_state, self.state.ingest.began, self.state.is_ingest_read
        self.state.update_ingest(log_update, at_work)
        if was_read and self.state.ingest.began not in (None, began):
            before = "running"  # a short ingest may begin and end between two polls
        self._notify_end("Ingest", before, self.state.ingest_state, IngestView.NAME)

    def _notify_end(self, work: str, before: str | None, now: str | None, view: str) -> None:
        if before in _AT_WORK and now in _ENDS and view != self.view.NAME:
            self.notify(f"{work} {now}.", severity="information" if now == "finished" else "warning")

    def _update_runs(self, runs: tuple[RunSummary, ...]) -> None:
        self.state.runs = runs
        if self.state.run is None and runs:
            self.attach(runs[0].folder)

    def _fatal_error(self) -> None:
        """Leave the error to the caller; Textual would print all variables, including answers."""
        self.error = self._exception
        self._close_messages_no_wait()

    def _draw_if_stale(self) -> None:
        if self._is_stale and self.is_running:  # views are torn down before the timer stops
            self._is_stale = False
            self.draw()


def _turns(saved: object) -> Iterable[tuple[str, str]]:
    for turn in saved if isinstance(saved, list) else ():
        match turn:
            case [str(question), str(answer)]:
                yield question, answer
