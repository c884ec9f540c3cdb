"""What was begun with trainings, or asked of them, from here, as far as it has not come about.

A training in words: in a column beside its plots, in two lines above them, in the list of all.

Trainings: how one goes, beside another if wanted, and what can be asked of it.
"""

from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import OptionList, Static

from mbc_cli.runs import existing_run
from mbc_cli.text import counted, near, plain, seconds
from mbc_cli.tui.jobs.processes import Plan, RequestFailed, TrainingEnded, Trainings
from mbc_cli.tui.state import Attached, Places, RunSeen
from mbc_cli.tui.views.run_plots import RunPlots
from mbc_cli.tui.views.view import View
from mbc_cli.tui.widgets.dialogs import Confirm, PathPrompt, RunPicker
from mbc_cli.tui.widgets.figures import Box, Facts, Gauge
from mbc_cli.tui.widgets.run_form import Filled, RunForm, RunLine, RunList
from mbc_engine.errors import MBCError
from mbc_engine.events import Validated
from mbc_engine.runs.training_runs import Request, RunHistory, RunState

# Before a process that was started is at work.
STARTING: Final = "starting"
_ASKED: Final = {
    Request.PAUSE: "will pause after this step",
    Request.STOP: "will stop after this step",
    None: "will go on",
}
# What has come about in a state.
_REACHED: Final = {RunState.PAUSED: (Request.PAUSE,), RunState.TRAINING: (None,)}


class Pending:
    """Beginnings, requests and failures of trainings, by their folders."""

    def __init__(self) -> None:
        self._asked: dict[Path, Request | None] = {}  # None is to go on
        self._starting: set[Path] = set()
        self._failed: dict[Path, str] = {}

    def begin(self, run: Path) -> None:
        """A process was started, and is not yet at work."""
        self._failed.pop(run, None)
        self._starting.add(run)

    def fail(self, run: Path, words: str) -> None:
        """It has ended before its time; `words` say why."""
        self._failed[run] = words

    def ask(self, run: Path, request: Request | None) -> None:
        """It was asked for something, or to go on."""
        self._asked[run] = request

    def refuse(self, run: Path) -> None:
        """It could not be asked."""
        self._asked.pop(run, None)

    def settle(self, run: Attached, *, is_running: bool) -> None:
        """Forget what has come about, the process started here being there or not."""
        if not run.at_work or self._asked.get(run.folder) in _REACHED.get(run.state, ()):
            self._asked.pop(run.folder, None)
        if run.at_work or not is_running:
            self._starting.discard(run.folder)

    def state(self, run: Attached) -> str:
        """What the training is at."""
        return STARTING if run.folder in self._starting else run.state

    def waits(self, run: Attached) -> bool:
        """Whether the training is paused, or will be."""
        return run.state is RunState.PAUSED or self._asked.get(run.folder) is Request.PAUSE

    def words(self, run: Attached) -> str:
        """What else is to be said of it."""
        if run.folder in self._asked:
            return _ASKED[self._asked[run.folder]]
        return "" if run.at_work else self._failed.get(run.folder, "")


_SIGNS: Final = {
    STARTING: "◌",
    RunState.PREPARING: "◌",
    RunState.TRAINING: "▶",
    RunState.PAUSED: "‖",
    RunState.STOPPED: "■",
    RunState.FINISHED: "✓",
    RunState.INTERRUPTED: "✗",
}
# What stands before the run that is looked at, and the one beside it.
HERE: Final = "●"
BESIDE: Final = "+"


def run_line(run: RunSeen, sign: str, state: str) -> RunLine:
    """A training in the list of all."""
    best = f"  F1 {run.best.f1:.1f}" if run.best else ""
    detail = f"{_SIGNS[state]} {state}  step {run.step:,}{best}"
    return RunLine(str(run.folder), sign, run.folder.name, detail)


def run_facts(run: Attached, state: str, other: Attached | None, words: str) -> list[tuple[str, str | Text]]:
    """How a training goes, in a column."""
    history = run.history
    step, total = history.step, history.total_steps
    facts: list[tuple[str, str | Text]] = [
        ("run", plain(run.folder.name)),
        ("state", Text(f"{_SIGNS[state]} {state}", "bold")),
    ]
    if words:
        facts.append(("", plain(words)))
    if cached := _reading(history):
        facts.append(("reading", cached))
    facts.append(("step", f"{step:,} of {total:,}" if total else "none yet"))
    if history.latest is not None:
        facts.append(("epoch", f"{history.latest.epoch + 1}"))
    facts += [(label, value) for label, value in (("speed", _speed(history)), ("left", _left(history, state))) if value]
    if history.quantised is not None:
        facts.append(("codes", f"since step {history.quantised.step:,}, at ┊"))
    if history.resets:
        facts.append(
            ("resets", f"{counted(history.codes_reset, 'code')} in {counted(len(history.resets), 'step')}, at ▴")
        )
    if history.validations:
        facts.append(("validated", _scores(history.validations[-1])))
    if history.best is not None:
        facts.append(("best", f"F1 {history.best.f1:.1f} at step {history.best.step:,}"))
    if history.checkpoints:
        facts.append(("snapshot", f"step {history.checkpoints[-1]:,}"))
    facts.append(("folder", near(run.folder)))
    if other is not None:
        best = f", best F1 {other.history.best.f1:.1f}" if other.history.best else ""
        facts.append(("beside", f"{BESIDE} {plain(other.folder.name)}: {other.state}{best}"))
    return facts


def brief_lines(run: Attached, state: str, words: str) -> list[str]:
    """How a training goes, in two lines."""
    history = run.history
    step, total = history.step, history.total_steps
    done = f"step {step:,} of {total:,} ({step / total:.0%})" if total else _reading(history)
    left = _left(history, state)
    first = [f"{_SIGNS[state]} {plain(run.folder.name)}", plain(words) or state, done, left and f"{left} left"]
    second = [
        f"epoch {history.latest.epoch + 1}" if history.latest else "",
        _speed(history),
        f"{history.codes_reset:,} resets" if history.resets else "",
        _scores(history.validations[-1]) if history.validations else "",
        f"best F1 {history.best.f1:.1f}" if history.best else "",
    ]
    return ["  ".join(filter(None, first)), "  ".join(filter(None, second))]


def _reading(history: RunHistory) -> str:
    """How far the texts are read, before the first step."""
    cached = history.cached
    return "" if cached is None or history.started else f"text {cached.done:,} of {cached.total:,}"


def _speed(history: RunHistory) -> str:
    return "" if history.throughput is None else f"{history.throughput:,.0f} questions/s"


def _left(history: RunHistory, state: str) -> str:
    is_going = state in (RunState.TRAINING, RunState.PAUSED)
    return seconds(history.seconds_left) if is_going and history.seconds_left is not None else ""


def _scores(validated: Validated) -> str:
    return f"F1 {validated.f1:.1f}, EM {validated.exact_match:.1f}"


class TrainView(View):
    """A training by its events, the list of all, and the keys that pause, stop and start them."""

    NAME, TITLE, ABOUT = "train", "Train", "Follow a training live, compare it with another; start, pause, stop one"
    HELP = """
    A curve is a line, what is measured in validations are points. `┊` is where codes begin to be learned, `▴` where
    unused ones were put back to use. Of two runs, the one compared with is drawn in `+` and `◆`.

    `z` shows one plot alone, or all; `a` opens a run by its folder. A training goes on when the dashboard ends.
    """
    SCOPED_CSS = False  # it looks at the size of the screen
    DEFAULT_CSS = """
    TrainView {
        & > Horizontal { height: 1fr; }
        & #side { width: 40; }
        & #gauge { width: 1fr; }
        & RunList { height: 1fr; }
        & #brief { display: none; height: 2; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    .-narrow TrainView {
        & #side { display: none; }
        & #brief { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p,space", "pause", "Pause"),
        Binding("p,space", "go_on", "Go on"),
        Binding("s", "stop", "Stop"),
        Binding("r", "resume", "Resume"),
        Binding("n", "start", "New"),
        Binding("c", "compare", "Compare"),
        Binding("c", "compare_no_more", "Alone"),
        Binding("a", "attach", "Open a run by its folder", show=False),
        Binding("l", "choose", "Runs"),
        Binding("left_square_bracket,left", "turn(-1)", "Plots before", show=False),
        Binding("right_square_bracket,right", "turn(1)", "Plots", key_display="[ ]"),
        Binding("z", "zoom", "One plot, or all", show=False),
    ]

    def __init__(self, key: int, places: Places) -> None:
        super().__init__(key, places)
        self._trainings, self._pending = Trainings(places.runs, self.post_message), Pending()
        self._order: list[Path] = []  # of the list, in which runs do not change places
        self._from_form: Path | None = None  # the training that was started from the form that is open
        self._before: Path | None = None  # what was looked at before a training was started
        self._keys: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="brief")
        with Horizontal():
            with Vertical(id="side"):
                with Box("Training", id="now"):
                    yield Gauge(id="gauge")
                    yield Facts(id="facts")
                yield RunList("Runs", id="runs")
            yield RunPlots()

    def on_mount(self) -> None:
        self.query_one(RunList).border_subtitle = "a opens a folder"

    def on_unmount(self) -> None:
        self._trainings.close()

    def draw(self) -> None:
        """Show what is known now."""
        run = self.known.run
        if run is not None:
            self._pending.settle(run, is_running=self._trainings.is_running(run.folder))
        self.query_one(RunList).show(self._lines())
        self._draw_facts(run)
        self.query_one(RunPlots).show(run, self.known.other)
        keys = (
            run is not None and (self._pending.state(run), run.at_work, self._pending.waits(run)),
            self.known.other is None,
            len(self.known.runs) > 1,
        )
        if keys != self._keys:
            self._keys = keys
            self.refresh_bindings()
        if run is not None and run.at_work and (form := self._form_of(run.folder)) is not None:
            form.dismiss()

    def take_focus(self) -> None:
        """Let keys go to the list of runs, or to the plots where it is not in sight."""
        (self.query_one(RunList) if self.query_one("#side").display else self.query_one(RunPlots)).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys there are depends on what the training is at."""
        run, other, others = self.known.run, self.known.other, len(self.known.runs)
        is_at_work, waits = run is not None and run.at_work, run is not None and self._pending.waits(run)
        can = {
            "pause": is_at_work and not waits,
            "go_on": is_at_work and waits,
            "stop": is_at_work,
            "resume": run is not None and self._pending.state(run) in (RunState.STOPPED, RunState.INTERRUPTED),
            "compare": other is None and others > 1,
            "compare_no_more": other is not None,
            "choose": others > 0 and not self.query_one("#side").display,
            "turn": bool(self.query_one(RunPlots).place),
        }
        return can.get(action, True)

    def action_pause(self) -> None:
        """Let the training wait after its step."""
        self._ask(Request.PAUSE)

    def action_go_on(self) -> None:
        """End a pause."""
        self._ask(None)

    def action_stop(self) -> None:
        """End the training after its step, if that is meant."""
        run = self.known.run
        assert run is not None, "there is a training at work"

        def answered(is_sure: bool | None) -> None:
            if is_sure and self.known.run is run:
                self._ask(Request.STOP)

        question = f"Stop {run.folder.name} after this step? It can be resumed from there."
        self.app.push_screen(Confirm(question, "Stop", "Keep on"), answered)

    def action_resume(self) -> None:
        """Go on with a training that was stopped or cut off."""
        if self.known.run is not None:
            self._pending.begin(self.known.run.folder)
            self._trainings.resume(self.known.run.folder)
            self.dashboard.changed()

    def action_start(self) -> None:
        """Ask what to train, and start it."""
        from mbc_engine.config import preset_names

        self._from_form = None
        self.app.push_screen(RunForm(preset_names(), self._start))

    def action_compare(self) -> None:
        """Choose a run to draw beside this one."""
        here = self.known.run and self.known.run.folder
        lines = [line for line in self._lines() if line.key != str(here)]
        self.app.push_screen(RunPicker("Compare with", lines), self._compare)

    def action_compare_no_more(self) -> None:
        """Draw one run alone again."""
        self.dashboard.compare(None)

    def action_choose(self) -> None:
        """Choose the run to look at."""
        self.app.push_screen(RunPicker("Runs", self._lines()), self._look_at)

    def action_attach(self) -> None:
        """Look at a run by its folder."""
        prompt = PathPrompt("Which run? Its name, or its folder.", "runs/mini-1", self._run_at)
        self.app.push_screen(prompt, lambda path: self._look_at(path and str(path)))

    def action_turn(self, by: int) -> None:
        """Show other plots."""
        self.query_one(RunPlots).turn(by)

    def action_zoom(self) -> None:
        """Show one plot alone, or as many as fit."""
        self.query_one(RunPlots).zoom()

    @on(OptionList.OptionSelected, "#runs")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self._look_at(event.option_id)

    @on(RunPlots.Turned)
    def _turn(self) -> None:
        if self.dashboard.view is self:
            self.draw()
            if self.screen.focused is None:
                self.take_focus()  # what had it may be out of sight
            self.refresh_bindings()

    @on(TrainingEnded)
    def _end(self, message: TrainingEnded) -> None:
        run = self.known.run
        if message.words:
            self._pending.fail(message.run, message.words)
            if run is not None and run.folder == message.run and run.history.last_time is None:
                self.dashboard.attach(self._before)
            if (form := self._form_of(message.run)) is not None:
                form.say(message.words)
            else:
                self._complain(message.run, message.words)
        self.dashboard.changed()

    @on(RequestFailed)
    def _refuse(self, message: RequestFailed) -> None:
        self._pending.refuse(message.run)
        self._complain(message.run, message.words)
        self.dashboard.changed()

    def _ask(self, request: Request | None) -> None:
        run = self.known.run
        if run is not None:
            self._trainings.ask(run.folder, request)
            self._pending.ask(run.folder, request)
            self.dashboard.changed()

    def _complain(self, run: Path, words: str) -> None:
        self.notify(plain(words), title=plain(run.name), severity="error", markup=False)

    def _form_of(self, run: Path) -> RunForm | None:
        """The form that a training was started from, if that is still open."""
        screen = self.app.screen
        return screen if isinstance(screen, RunForm) and run == self._from_form else None

    def _start(self, filled: Filled) -> None:
        if self._from_form is not None and self._trainings.is_running(self._from_form):
            return  # Enter was pressed twice
        plan = Plan(filled.preset, filled.data, filled.validation, filled.run, filled.settings)
        self._before = self.known.run.folder if self.known.run else None
        self._from_form = run = self._trainings.start(plan)
        self._pending.begin(run)
        self.dashboard.attach(run)

    def _look_at(self, folder: str | None) -> None:
        if folder is None:
            return
        path = Path(folder)
        if self.known.other is not None and self.known.other.folder == path:
            self.dashboard.compare(None)
        if self.known.run is None or self.known.run.folder != path:
            self.dashboard.attach(path)

    def _compare(self, folder: str | None) -> None:
        if folder is not None:
            self.dashboard.compare(Path(folder))

    def _run_at(self, name: str) -> Path:
        try:
            return existing_run(str(Path(name).expanduser()), self.places.runs)
        except MBCError as error:
            raise ValueError(f"{error.message} {error.hint or ''}") from error

    def _lines(self) -> list[RunLine]:
        seen = {own.folder: own for own in self.known.runs}
        self._order = [own for own in seen if own not in self._order] + [own for own in self._order if own in seen]
        return [self._line(seen[folder]) for folder in self._order]

    def _line(self, run: RunSeen) -> RunLine:
        here, beside = self.known.run, self.known.other
        if here is not None and here.folder == run.folder:
            return run_line(run, HERE, self._pending.state(here))
        is_beside = beside is not None and beside.folder == run.folder
        return run_line(run, BESIDE if is_beside else " ", run.state)

    def _draw_facts(self, run: Attached | None) -> None:
        brief = self.query_one("#brief", Static)
        if run is None:
            nothing = Text("No training yet. Press n to start one, or a to open one by its folder.")
            brief.update(nothing)
            self.query_one("#facts", Facts).show([("", nothing)])
            self.query_one("#gauge").display = False
            return
        state, words, history = self._pending.state(run), self._pending.words(run), run.history
        share = history.step / history.total_steps if history.total_steps else None
        self.query_one("#gauge").display = True
        self.query_one("#gauge", Gauge).show(share)
        if self.screen.has_class("-narrow"):
            brief.update(Text("\n".join(brief_lines(run, state, words))), layout=False)
        else:
            self.query_one("#facts", Facts).show(run_facts(run, state, self.known.other, words))
