"""Ingesting: the file or folder, the progress, what was read last and what was skipped."""

import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, ProgressBar, Sparkline, Static, Tree

from mbc_cli.formatting import display_path, format_duration, format_size, format_time_left, pluralise, sanitise
from mbc_cli.render.bank import content_summary, holdings
from mbc_cli.tui.jobs import ChildProcess
from mbc_cli.tui.state import DashboardOptions, DashboardState
from mbc_cli.tui.views import Facts, View, box
from mbc_cli.tui.widgets.cells import Column, RowTable, shorten
from mbc_cli.tui.widgets.inputs import FolderTree, Form, PlainCheckbox, existing_path
from mbc_engine.runs.ingests import IngestHistory

_STATES: Final = {
    None: ("Nothing ingested yet. Choose a folder or a file and press i.", ""),
    "running": ("", ""),
    "finished": ("✓ Finished", "bold"),
    "stopped": ("■ Stopped. Everything counted here is saved; ingest the same folder to continue.", "bold"),
    "interrupted": ("✗ Interrupted. Everything saved is kept; ingest the same folder to continue.", "bold"),
}
_TITLE_WIDTH, _MAX_REASONS, _MAX_NAMES = 30, 3, 60


class IngestView(View):
    NAME, TITLE, ABOUT = "ingest", "Ingest", "Ingest files and folders, and follow the progress"
    HELP = """
    `i` ingests the file or folder under the cursor. **watch** keeps watching and ingests changes until cancelled.
    **prune** removes documents whose files are gone. Exclusions are written as in a `.gitignore`. An ingest continues
    after the dashboard closes; a watch does not.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "ingest", "Ingest"),
        Binding("escape", "take_focus", "Leave", show=False),
        Binding("s", "cancel", "Stop"),
        Binding("slash", "go_to", "Go to"),
        Binding("backspace", "go_up", "Parent folder", show=False),
        Binding("f5", "read_again", "Refresh", show=False),
    ]

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(key, options)
        # The last ingest started here: its process, its path, and how often it was interrupted.
        self._child: ChildProcess | None = None
        self._path: Path | None = None
        self._is_watch, self._stops, self._error = False, 0, ""
        self._last_began: float | None = None  # of the ingest before that
        self._ended = 0.0  # when `_error` was reported

    def compose(self) -> ComposeResult:
        try:
            folder = existing_path(".")
        except ValueError:  # the working folder was deleted
            folder = Path.home()
        with Horizontal():
            with box("", id="choose"):
                yield FolderTree(folder)
                with Horizontal(id="options"):
                    yield PlainCheckbox("watch", id="watch", compact=True)
                    yield PlainCheckbox("prune", id="prune", compact=True)
                yield Input(placeholder="exclude, e.g. drafts/ *.csv", compact=True, id="ignore")
                yield Button("Ingest", compact=True, variant="primary", id="start")
            with Vertical(id="work"):
                with box("Ingest", id="now"):
                    yield Static(id="state", markup=False)
                    yield ProgressBar(total=1, show_eta=False, id="gauge")
                    yield Facts()
                    yield Sparkline(id="spark")
                with Vertical(id="lists"):
                    with box("Recent files", id="by"):
                        yield Static(id="names", markup=False)
                    with box("Skipped", id="skipped"):
                        yield RowTable((Column("file"), Column("reason", is_text=True)))
                        yield Static(id="reason", markup=False)

    def on_mount(self) -> None:
        self.query_one("#watch").tooltip = "Keep watching and ingest changes until cancelled"
        self.query_one("#prune").tooltip = "Remove documents whose files are gone"
        self.watch(self.query_one("#skipped RowTable", RowTable), "key", self._show_reason, init=False)
        self._show_root()

    def on_unmount(self) -> None:
        # An ingest continues to its end; a watch has none.
        if self._child is not None and self._is_watch:
            self._child.interrupt()

    def take_focus(self) -> None:
        self.query_one(FolderTree).focus()

    def draw(self) -> None:
        ingest = self.state.ingest
        self.query_one("#state", Static).update(self._state_line())
        bar, started = self.query_one(ProgressBar), ingest.started
        bar.display = started is not None and started.size > 0 and self.state.ingest_state == "running"
        if ingest.recoded is not None:
            bar.update(total=ingest.recoded.chunks, progress=ingest.recoded.done)
        elif started is not None:
            bar.update(total=started.size, progress=ingest.size_done)
        # Until the ingest started here begins, which it may fail to, the log is of the one before.
        is_earlier = self._child is not None and ingest.began == self._last_began
        self.query_one(Facts).show([] if is_earlier else _ingest_facts(self.state))
        spark = self.query_one(Sparkline)
        spark.display, spark.data = len(ingest.pace) > 1 and not is_earlier, list(ingest.pace)
        self.query_one("#now").border_subtitle = "▁▅▇ chunks per second" if spark.display else ""
        names, width = self.query_one("#names", Static), self.query_one("#by").content_size.width
        newest = list(ingest.sources)[: -_MAX_NAMES - 1 : -1]
        names.update("\n".join(shorten(self._shown_name(name), width) for name in newest), layout=False)
        self._draw_skipped(ingest)
        self.query_one("#start").disabled = not self._can_start

    def available(self) -> dict[str, bool]:
        return {
            "take_focus": not self.query_one(FolderTree).has_focus,
            "ingest": self._can_start and self.query_one(FolderTree).chosen is not None,
            "cancel": self._is_running,
        }

    @on(Button.Pressed, "#start")
    def action_ingest(self) -> None:
        path = self.query_one(FolderTree).chosen
        if path is None or not self._can_start:
            return
        options = self.options.arguments("bank", "model", "device")
        options += [f"--ignore={pattern}" for pattern in self.query_one("#ignore", Input).value.split()]
        # Also what is not chosen: the config file may turn it on.
        options += [f"--{'' if choice.value else 'no-'}{choice.id}" for choice in self.query(PlainCheckbox)]
        self._path, self._is_watch, self._stops, self._error = path, "--watch" in options, 0, ""
        self._last_began = self.state.ingest.began
        arguments = ["ingest", *options, "--", str(path.absolute())]  # which may begin with a dash
        self._child = ChildProcess(arguments, partial(self.app.call_later, self._on_ingest_end))
        self.draw()

    def action_cancel(self) -> None:
        if self._stops == 0:
            question = "Stop? Everything ingested so far is kept; ingest the same folder to continue."
            self.confirm(question, "Stop", "Continue", self._stop)
        else:
            question = "Still stopping. End it now? Only what has been saved is kept."
            self.confirm(question, "End now", "Wait", self._stop)

    def action_go_to(self) -> None:
        def open_path(typed: dict[str, str]) -> str:
            self._go_to(existing_path(typed["path"]))
            return ""

        self.app.push_screen(Form("Go to", {"path": ("Path", "~/notes")}, open_path, button="Go"))

    def action_go_up(self) -> None:
        here = Path(self.query_one(FolderTree).path)
        self._go_to(next((folder for folder in here.parents if folder.is_dir()), here))  # that may be gone

    def action_read_again(self) -> None:
        self.query_one(FolderTree).reload()

    @on(Tree.NodeHighlighted)
    def _show_chosen(self) -> None:
        chosen = self.query_one(FolderTree).chosen
        name = "" if chosen is None else chosen.name or str(chosen)
        self.query_one("#start", Button).label = Text(f"Ingest {sanitise(name)}", no_wrap=True, overflow="ellipsis")

    @property
    def _is_running(self) -> bool:
        return self._child is not None and self._child.is_running

    @property
    def _can_start(self) -> bool:
        return not (self._is_running or self.state.is_ingesting)

    def _on_ingest_end(self, error: str) -> None:
        if not self._is_running:  # otherwise an earlier one has ended
            self._error, self._ended = error, time.time()
        self.dashboard.request_redraw()

    def _stop(self) -> None:
        if self._child is not None:
            self._stops += 1
            self._child.interrupt()
            self.draw()

    @work(group="tree", exclusive=True)
    async def _go_to(self, path: Path) -> None:
        tree = self.query_one(FolderTree)
        await tree.show(path)
        self._show_root()
        self._show_chosen()
        tree.focus()

    def _show_root(self) -> None:
        root = Path(self.query_one(FolderTree).path)
        title = Path("~", root.relative_to(Path.home())) if root.is_relative_to(Path.home()) else root
        self.query_one("#choose").border_title = Text(shorten(sanitise(title), _TITLE_WIDTH))

    def _shown_name(self, name: str) -> str:
        root = Path(self.query_one(FolderTree).path)
        return sanitise(name.removeprefix(f"{root}{os.sep}"))

    def _state_line(self) -> Text:
        state, path = self.state.ingest_state, "" if self._path is None else display_path(self._path)
        began, bank = self.state.ingest.began, self.state.bank
        is_logged = bank is None or bank.header.keeps_origins
        if self._is_running and self._stops:
            return Text("Stopping…", "bold")
        if self._is_running and is_logged and began in (None, self._last_began):
            return Text("Loading the model…", "bold")
        if self._is_running and self._is_watch and state != "running":
            return Text.assemble(("Watching ", "bold"), f"{path} for changes; press s to stop")
        if state == "running" or (self._is_running and not is_logged):
            is_recoding = self.state.ingest.recoded is not None
            where = path if self._is_running else "in another process"
            return Text.assemble(("Recoding texts " if is_recoding else "Ingesting ", "bold"), where)
        if self._error and (began is None or began <= self._ended):  # else another ingest followed
            return Text.assemble(("Failed. ", "bold"), sanitise(self._error.removeprefix("Error: ")))
        return Text(*_STATES[state])

    def _show_reason(self) -> None:
        """Show the row at the cursor in full."""
        table = self.query_one("#skipped RowTable", RowTable)
        row = dict(table.rows).get(table.key, ())
        self.query_one("#reason", Static).update(sanitise(" ".join(row)))

    def _draw_skipped(self, ingest: IngestHistory) -> None:
        panel = self.query_one("#skipped")
        panel.display = ingest.skips > 0
        self.set_class(ingest.skips > 0 and not self.state.is_ingesting, "-skipped")
        skipped = enumerate(ingest.skipped, ingest.skips - len(ingest.skipped))
        rows = [(number, (self._shown_name(skip.source), skip.reason)) for number, skip in skipped]
        self.query_one(RowTable).show(rows)
        panel.border_title = f"Skipped {ingest.skips:,}"
        reasons = Counter(skip.reason for skip in ingest.skipped).most_common(_MAX_REASONS)
        panel.border_subtitle = Text("; ".join(f"{count:,}x {sanitise(reason)}" for reason, count in reasons))


def _ingest_facts(state: DashboardState) -> list[tuple[str, object]]:
    ingest, finished, recoded = state.ingest, state.ingest.finished, state.ingest.recoded
    started, done = ingest.started, finished or ingest.reported
    removed = f", {finished.removed:,} removed" if finished and finished.removed else ""
    unchanged = f", {done.unchanged:,} unchanged" if done and done.unchanged else ""
    rate = (None if finished else ingest.rate) or (done.chunks / max(done.seconds, 0.001) if done else 0.0)
    speed = f"{rate:,.{0 if rate >= 10 else 1}f}/s"
    read = started and f"{format_size(ingest.size_done)} of {format_size(started.size)}"
    sizes = recoded and f"{format_size(recoded.before_bytes)} → {format_size(recoded.after_bytes)}"
    left = None if finished or not state.is_ingesting else ingest.seconds_left
    return [
        ("read", started and started.size > 0 and f"{read} in {pluralise(started.files, 'file')}"),
        ("documents", done and f"{done.documents:,} ingested{unchanged}{removed}"),
        # Without chunks, none is encoded yet, or all are unchanged.
        ("chunks", done and done.chunks > 0 and f"{done.chunks:,} in {format_duration(done.seconds)}, {speed}"),
        ("recoded", recoded and (recoded.problem or f"{recoded.done:,} of {recoded.chunks:,}, {sizes}")),
        ("bank", finished and content_summary(holdings(finished)[0])),
        ("time left", left is not None and format_time_left(left)),
    ]
