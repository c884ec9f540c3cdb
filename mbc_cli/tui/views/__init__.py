"""The views of the dashboard, one per tab: they draw its state and start jobs."""

from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from rich.table import Table as Grid
from rich.text import Text
from textual import events
from textual.containers import Vertical
from textual.widgets import Static, TabPane

from mbc_cli.formatting import sanitise
from mbc_cli.tui.jobs import start_thread
from mbc_cli.tui.state import DashboardOptions, DashboardState
from mbc_cli.tui.widgets.inputs import Confirm
from mbc_engine.errors import MBCError

if TYPE_CHECKING:
    from textual.timer import Timer

    from mbc_cli.tui.app import Dashboard

_LABEL_WIDTH: Final = 10  # aligns the values of stacked boxes
_BROAD: Final = 150  # cells: the width from which two panels of text fit side by side


class View(TabPane):
    """A tab; `draw` is called when it becomes visible and, at most twice a second, when the state has changed."""

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    ABOUT: ClassVar[str]
    HELP: ClassVar[str]  # Markdown; shown above the keys

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(f"{key} {self.TITLE}", id=self.NAME)
        self.options = options
        self._jobs: dict[str, object] = {}
        self._delayed: dict[str, Timer] = {}

    @property
    def dashboard(self) -> "Dashboard":
        return cast("Dashboard", self.app)

    @property
    def state(self) -> DashboardState:
        return self.dashboard.state

    def draw(self) -> None:
        raise NotImplementedError

    def available(self) -> dict[str, bool]:
        """Whether actions are possible now; those that are not named always are."""
        return {}

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.available().get(action, True)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _BROAD, "-broad")
        self.call_after_refresh(self.draw)  # there may be room for more, or less

    def take_focus(self) -> None:
        next(widget for widget in self.query("*") if widget.focusable).focus()

    def action_take_focus(self) -> None:
        self.take_focus()

    def debounce(self, name: str, delay: float, call: Callable[[], object]) -> None:
        """Call after `delay` seconds, replacing a pending call of that name."""
        if (timer := self._delayed.pop(name, None)) is not None:
            timer.stop()
        # Views are torn down before their timers stop.
        self._delayed[name] = self.set_timer(delay, lambda: self.app.is_running and call())

    def confirm(self, question: str, yes: str, no: str, do: Callable[[], object]) -> None:
        """Ask a question, and do something if the answer is yes."""

        def end(is_sure: bool | None) -> None:
            if is_sure:
                do()

        self.app.push_screen(Confirm(question, yes, no), end)

    def run_job(self, name: str, job: Callable[[], object], done: Callable[[Any], object]) -> Thread:
        """Run a job in a thread, replacing one of that name.

        `done` gets its result, or each one if it is an iterator, or its `MBCError`.
        """
        later = self.app.call_later
        self._jobs[name] = current = object()

        def finish(result: object) -> None:
            if self._jobs[name] is current:
                done(result)

        def work() -> None:
            try:
                result = job()
                for each in result if isinstance(result, Iterator) else [result]:
                    if self._jobs[name] is not current:
                        return
                    later(finish, each)
            except MBCError as error:
                later(finish, error)

        return start_thread(work, later)


def box(title: str, *, id: str | None = None) -> Vertical:
    """A panel with a title in its border, for a `with` statement in `compose`."""
    panel = Vertical(id=id, classes="panel box")
    panel.border_title = title
    return panel


class Facts(Static):
    """A short table of labels and values, but for None and False. Values may be untrusted text."""

    def show(self, facts: Iterable[tuple[str, object]]) -> None:
        table = Grid.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True, min_width=_LABEL_WIDTH)
        table.add_column(overflow="fold")
        for label, value in facts:
            if value is not None and value is not False:
                table.add_row(label, Text(sanitise(value)))
        self.update(table)


def message_text(message: str, *hints: str | None) -> Text:
    """What is wrong and what to do, one line each. All of it may be untrusted text."""
    return Text("\n").join([Text(sanitise(message), "bold"), *(Text(sanitise(hint)) for hint in hints if hint)])


def error_text(error: MBCError) -> Text:
    """An engine error and its hint."""
    return message_text(error.message, error.hint)


def no_bank_text(error: MBCError) -> Text:
    """Why there is no bank, and the keys for what to do next."""
    keys = (("3", "ingest your files"), ("D", "demo with ten made-up stories"), (":", "all commands"))
    lines = [Text.assemble((f"{key}  ", "bold"), words) for key, words in keys]
    return Text("\n").join([error_text(error), Text(), *lines])
