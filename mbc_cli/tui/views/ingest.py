"""Memorising: which folder or file, how far it is, what went by and what was left out."""

import os
from collections import Counter
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Input, Static, Tree

from mbc_cli.render.bank import holdings
from mbc_cli.text import counted, near, plain, seconds, size
from mbc_cli.tui.jobs.processes import IngestEnded, Ingesting, IngestPlan
from mbc_cli.tui.state import Known, Places
from mbc_cli.tui.views.view import View
from mbc_cli.tui.widgets.chart import Chart, Curve
from mbc_cli.tui.widgets.dialogs import Confirm, FolderTree, PathPrompt, existing_path
from mbc_cli.tui.widgets.figures import Box, Facts, Gauge, Spark, Tail
from mbc_cli.tui.widgets.inputs import Option
from mbc_cli.tui.widgets.rows import Column, Row, Rows, middle
from mbc_engine.bank import BankTotals
from mbc_engine.runs.ingests import IngestHistory, IngestState

_STATES: Final = {
    None: ("Nothing was memorised yet. Choose a folder or a file and press i.", ""),
    IngestState.RUNNING: ("", ""),
    IngestState.FINISHED: ("✓ Finished", "bold"),
    IngestState.STOPPED: ("■ Stopped. What is counted is saved; the same folder goes on from it.", "bold"),
    IngestState.INTERRUPTED: ("✗ Ended amid its work. What was saved stays; the same folder goes on from it.", "bold"),
}
_ROOT: Final = 30
_REASONS: Final = 3
_NAMES: Final = 60


class IngestView(View):
    """A tree to choose from, and the bank's ingest, whoever began it."""

    NAME, TITLE, ABOUT = "ingest", "Ingest", "Memorise files and folders, and see how far it is"
    HELP = """
    What the cursor of the tree is on is memorised, all of a folder or a file. **watch** goes on, and memorises what
    changes, until cancelled. **prune** forgets what is no longer in the folder. What is left out is written as in a
    `.gitignore`. An ingest goes on when the dashboard ends; a watch does not.
    """
    SCOPED_CSS = False  # it looks at the size of the screen
    DEFAULT_CSS = """
    IngestView {
        & > Horizontal { height: 1fr; }
        & #choose { width: 2fr; height: 100%; }
        & #work { width: 3fr; }
        & FolderTree { height: 1fr; padding: 0; background: transparent; scrollbar-size-vertical: 1; }
        & #options { height: 1; }
        & #options Option { margin-right: 2; }
        & #start { width: 100%; margin-top: 1; }
        & #state { height: auto; }
        & #gauge { margin-bottom: 1; }
        & #pace { height: 1fr; max-height: 14; display: none; }
        & #lists { height: 1fr; }
        & #by, & #skipped { height: 1fr; }
        & #skipped { display: none; }
    }
    .-low IngestView #start, .-low IngestView #gauge { margin: 0; }
    .-wide IngestView #lists { layout: horizontal; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "ingest", "Ingest"),
        Binding("c,escape", "cancel", "Cancel"),
        Binding("g", "go_to", "Go to"),
        Binding("backspace", "go_up", "Up", show=False),
        Binding("r", "read_again", "Reread"),
    ]

    def __init__(self, key: int, places: Places) -> None:
        super().__init__(key, places)
        self._ingesting = Ingesting(places, self.post_message)
        self._trouble = ""
        self._last_began: float | None = None  # the ingest before the one that was begun here
        self._could: tuple[bool, bool] | None = None

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Box("", id="choose"):
                yield FolderTree(existing_path("."))
                with Horizontal(id="options"):
                    yield Option("watch", id="watch")
                    yield Option("prune", id="prune")
                yield Input(placeholder="leave out, as drafts/ *.csv", compact=True, id="ignore")
                yield Button("Ingest", compact=True, variant="primary", id="start")
            with Vertical(id="work"):
                with Box("Ingest", id="now"):
                    yield Static(id="state", markup=False)
                    yield Gauge(id="gauge")
                    yield Facts()
                    yield Spark()
                yield Chart("Chunks a second", id="pace")
                with Vertical(id="lists"):
                    with Box("Going by", id="by"):
                        yield Tail()
                    with Box("Skipped", id="skipped"):
                        yield Rows((Column("skipped"), Column("why")))

    def on_mount(self) -> None:
        self.query_one("#watch").tooltip = "Go on, and memorise what changes, until cancelled"
        self.query_one("#prune").tooltip = "Remove documents whose files are gone"
        self._show_root()

    def on_unmount(self) -> None:
        self._ingesting.close()

    def take_focus(self) -> None:
        """Let keys go to the tree."""
        self.query_one(FolderTree).focus()

    def draw(self) -> None:
        """Show the bank's ingest as it is now."""
        ingest, state = self.known.ingest, self._state_line()
        self.query_one("#state", Static).update(state)
        share = _share(self.known)
        self.query_one(Gauge).display = share is not None
        self.query_one(Gauge).show(share)
        self.query_one(Facts).show(ingest_facts(self.known))
        self._draw_pace(ingest)
        self.query_one(Tail).show([self._near(name) for name in list(ingest.sources)[-_NAMES:]])
        self._draw_skipped(ingest)
        can = (self._can_start, self._can_cancel)
        if can != self._could:
            self._could = can
            self.query_one("#start").disabled = not self._can_start
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now."""
        if action == "ingest":
            return self._can_start
        return self._can_cancel if action == "cancel" else True

    @on(Button.Pressed, "#start")
    def action_ingest(self) -> None:
        """Memorise what the cursor of the tree is on."""
        chosen = self.query_one(FolderTree).chosen
        if chosen is None or not self._can_start:
            return
        ignore = tuple(self.query_one("#ignore", Input).value.split())
        is_on = {name: self.query_one(f"#{name}", Option).value for name in ("watch", "prune")}
        self._trouble, self._last_began = "", self.known.ingest.began
        self._ingesting.start(IngestPlan(chosen, ignore=ignore, **is_on))
        self.draw()

    def action_cancel(self) -> None:
        """Ask whether to stop, and how hard."""
        if not self._ingesting.is_running:
            self.notify(
                "Another process memorises this. It can be stopped where it was started, with Ctrl-C.", markup=False
            )
        elif self._ingesting.stops == 0:
            question = "Stop? What is memorised stays, and the same folder goes on from there."
            self.app.push_screen(Confirm(question, "Stop", "Go on"), self._stop)
        else:
            question = "It is stopping. End it at once? Only what was saved stays."
            self.app.push_screen(Confirm(question, "End at once", "Wait"), self._stop)

    def action_go_to(self) -> None:
        """Choose another folder, or a file, by its path."""
        prompt = PathPrompt("Which folder or file?", "~/notes", existing_path)
        self.app.push_screen(prompt, lambda path: None if path is None else self._go_to(path))

    def action_go_up(self) -> None:
        """Show the folder above."""
        here = Path(self.query_one(FolderTree).path)
        self._go_to(next((folder for folder in here.parents if folder.is_dir()), here))  # that may be gone

    def action_read_again(self) -> None:
        """Show the folder as it is now."""
        self.query_one(FolderTree).reload()

    @on(Tree.NodeHighlighted)
    def _show_chosen(self) -> None:
        chosen = self.query_one(FolderTree).chosen
        name = "" if chosen is None else chosen.name or str(chosen)
        self.query_one("#start", Button).label = Text(f"Ingest {plain(name)}", no_wrap=True, overflow="ellipsis")

    @on(IngestEnded)
    def _take_end(self, message: IngestEnded) -> None:
        if message.plan == self._ingesting.plan:
            self._trouble = message.words
        self.dashboard.changed()

    @property
    def _can_start(self) -> bool:
        return not (self._ingesting.is_running or self.known.is_ingesting)

    @property
    def _can_cancel(self) -> bool:
        return self._ingesting.is_running or self.known.is_ingesting

    def _stop(self, is_yes: bool | None) -> None:
        if is_yes:
            self._ingesting.stop()
            self.draw()

    def _go_to(self, path: Path) -> None:
        self.run_worker(self._show_folder(path), group="tree", exclusive=True)

    async def _show_folder(self, path: Path) -> None:
        tree = self.query_one(FolderTree)
        await tree.show(path)
        self._show_root()
        self._show_chosen()
        tree.focus()

    def _show_root(self) -> None:
        root = Path(self.query_one(FolderTree).path)
        inside = root.is_relative_to(Path.home())
        shown = str(Path("~", root.relative_to(Path.home()))) if inside else str(root)
        self.query_one("#choose").border_title = Text(middle(plain(shown), _ROOT))

    def _near(self, name: str) -> str:
        """A name, without the folder that the tree shows."""
        root = Path(self.query_one(FolderTree).path)
        return plain(name.removeprefix(f"{root}{os.sep}"))

    def _state_line(self) -> Text:
        state, known, own = self.known.ingest_state, self.known, self._ingesting
        plan, is_seen = own.plan, known.ingest.began not in (None, self._last_began)
        path = "" if plan is None else near(plan.path)
        if own.is_running and own.stops:
            return Text("Stopping…", "bold")
        if own.is_running and not is_seen:
            return Text("Starting: the model is being loaded…", "bold")
        if own.is_running and state is not IngestState.RUNNING:
            return Text.assemble(("Watching ", "bold"), f"{path} for changes; c ends it")
        if state is IngestState.RUNNING:
            return Text.assemble(("Memorising ", "bold"), path if own.is_running else "in another process")
        if self._trouble:
            return Text.assemble(("It failed. ", "bold"), plain(self._trouble.removeprefix("Error: ")))
        return Text(*_STATES[state])

    def _draw_pace(self, ingest: IngestHistory) -> None:
        is_short = not self.screen.has_class("-high")
        has_pace = len(ingest.pace) > 1
        self.query_one(Chart).display = has_pace and not is_short
        if has_pace and not is_short:
            at, rates = zip(*ingest.pace, strict=True)
            self.query_one(Chart).show([Curve(at, rates, "success")], "seconds since it began", lowest=0)
        self.query_one(Spark).display = has_pace and is_short
        self.query_one(Spark).show([rate for _, rate in ingest.pace])

    def _draw_skipped(self, ingest: IngestHistory) -> None:
        box = self.query_one("#skipped")
        box.display = ingest.skips > 0
        if not ingest.skips:
            return
        first = ingest.skips - len(ingest.skipped)
        rows = [Row(first + at, (self._near(own.source), own.reason)) for at, own in enumerate(ingest.skipped)]
        self.query_one(Rows).show(rows)
        box.border_title = f"Skipped {ingest.skips:,}"
        reasons = Counter(own.reason for own in ingest.skipped).most_common(_REASONS)
        box.border_subtitle = Text(", ".join(f"{plain(reason)}: {count:,}" for reason, count in reasons))


def ingest_facts(known: Known) -> list[tuple[str, str | Text]]:
    """How far the bank's ingest is, or how it ended."""
    ingest, finished, reported = known.ingest, known.ingest.finished, known.ingest.reported
    facts: list[tuple[str, str | Text]] = []
    if ingest.started is not None and ingest.started.size:
        share = f"{size(ingest.size_done)} of {size(ingest.started.size)}"
        facts.append(("read", f"{share} in {counted(ingest.started.files, 'file')}"))
    done = finished or reported
    if done is not None:
        removed = f", {finished.removed:,} removed" if finished is not None and finished.removed else ""
        unchanged = f", {done.unchanged:,} unchanged" if done.unchanged else ""
        facts.append(("documents", f"{done.documents:,} memorised{unchanged}{removed}"))
    if finished is not None:
        speed = f", {finished.chunks / finished.seconds:,.0f} a second" if finished.seconds else ""
        facts.append(("chunks", f"{finished.chunks:,} in {seconds(finished.seconds)}{speed}"))
        bank = BankTotals(finished.bank_documents, finished.bank_origins, finished.bank_chunks)
        facts.append(("bank", holdings(bank)))
    elif reported is not None:
        if reported.chunks:
            rate = reported.chunks / max(reported.seconds, 0.001) if ingest.rate is None else ingest.rate
            facts.append(("chunks", f"{reported.chunks:,}, {rate:,.{0 if rate >= 10 else 1}f} a second"))
        if known.is_ingesting and ingest.seconds_left is not None:
            facts.append(("time left", seconds(ingest.seconds_left)))
    return facts


def _share(known: Known) -> float | None:
    """How much is done of what there is to read; None where nothing is under way, or nobody knows."""
    started = known.ingest.started
    if started is None or not started.size or known.ingest_state is not IngestState.RUNNING:
        return None
    return known.ingest.size_done / started.size
