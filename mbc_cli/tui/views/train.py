"""Training runs: follow one, compare two; start, stop and resume them."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.markup import escape
from textual.widgets import OptionList, ProgressBar, Static
from textual.widgets.option_list import Option

from mbc_cli.formatting import display_path, sanitise
from mbc_cli.local_models import new_run, run_facts
from mbc_cli.paths import resolve_name
from mbc_cli.tui.jobs import ChildProcess
from mbc_cli.tui.state import DashboardOptions
from mbc_cli.tui.views import Facts, View, box
from mbc_cli.tui.widgets.cells import shorten
from mbc_cli.tui.widgets.chart import RunPlots
from mbc_cli.tui.widgets.inputs import Form
from mbc_engine.runs.training_runs import FollowedRun, request_stop

# In addition to `RunState`: a process was started but is not training yet.
STARTING: Final = "starting"
_SIGNS: Final = {STARTING: "◌", "preparing": "◌", "training": "▶", "stopped": "■", "finished": "✓", "interrupted": "✗"}
# Marks of the current run, and of the one it is compared with.
_CURRENT, _OTHER = "●", "+"
_VALUE_WIDTH: Final = 24  # cells beside the labels
_FIELDS: Final = {
    "preset": ("Preset", "smollm2-135m, another preset, or a TOML file"),
    "data": ("Data", "a .jsonl or .csv file, or squad:train"),
    "validation": ("Validation", "default: the last 5% of the documents"),
    "run": ("Name", "default: the preset's name and a number"),
    "settings": ("Settings", "such as training.epochs=3 training.batch_size=32"),
}


class TrainView(View):
    NAME, TITLE, ABOUT = "train", "Train", "Follow training runs live and compare two; start and stop them"
    HELP = """
    Lines are from training, points from validation. `│` marks where codes start being learned, `▴` where unused
    codes were reset. In a comparison, the second run is drawn with `+` and `◆`.

    `[` and `]` page through plots. Training continues after the dashboard closes; `mbc tui --run` opens a run in any
    folder.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop"),
        Binding("r", "resume", "Resume"),
        Binding("n", "start", "New"),
        Binding("c", "compare", "Compare"),
        Binding("c", "compare_no_more", "Stop comparing"),
        Binding("l", "choose", "Runs"),
        Binding("left_square_bracket,left", "turn(-1)", "Previous plots", show=False),
        Binding("right_square_bracket,right", "turn(1)", "Plots", key_display="[ ]"),
    ]

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(key, options)
        self._starting: dict[Path, ChildProcess] = {}  # until the training begins
        self._failed: dict[Path, str] = {}  # why, until it is started again
        self._order: list[Path] = []  # runs keep their places in the list
        self._form: Form | None = None
        self._form_run: Path | None = None  # the run started from the open form
        self._before: Path | None = None  # the run shown before that

    def compose(self) -> ComposeResult:
        yield Static(id="brief")
        with Horizontal():
            with Vertical(id="side"):
                with box("Training", id="now"):
                    yield ProgressBar(total=1, show_eta=False, id="gauge")
                    yield Facts(id="facts")
                runs = OptionList(id="runs", markup=False)
                runs.border_title = "Runs"
                yield runs
            yield RunPlots()

    def draw(self) -> None:
        run = self.state.run
        if run is not None and (run.is_running or not self._is_starting(run.folder)):
            self._starting.pop(run.folder, None)
        self._draw_runs()
        self._draw_facts(run)
        self.query_one(RunPlots).show(run, self.state.other)
        if self.screen.focused is None:
            self.take_focus()  # the list that had it may be hidden now
        if run is not None and run.is_running and (form := self._open_form(run.folder)) is not None:
            form.dismiss()

    def take_focus(self) -> None:
        self.query_one("#runs" if self.query_one("#side").display else "#plots").focus()

    def available(self) -> dict[str, bool]:
        run, other = self.state.run, self.state.other
        has_more = any(listed.folder != self.state.run_folder for listed in self.state.runs)
        return {
            "stop": run is not None and run.is_running,
            "resume": run is not None and self._state_of(run) in ("stopped", "interrupted"),
            "compare": other is None and has_more,
            "compare_no_more": other is not None,
            "turn": self.query_one(RunPlots).max_scroll_y > 0,
            "choose": has_more and not self.query_one("#side").display,
        }

    def action_stop(self) -> None:
        assert self.state.run is not None, "there is a training at work"
        run = self.state.run.folder

        def stop() -> None:
            try:
                request_stop(run)
            except OSError as error:
                self._notify_error(run, f"Could not write the request: {error}")
            self.dashboard.request_redraw()

        self.confirm(f"Stop {run.name} after the current step? You can resume it later.", "Stop", "Keep training", stop)

    def action_resume(self) -> None:
        if self.state.run is not None:
            run = self.state.run.folder
            self._start(run, ["--resume", f"--run={run}"])
            self.dashboard.request_redraw()

    def action_start(self) -> None:
        from mbc_engine.names import preset_names

        presets = {"preset": preset_names()}
        self._form_run = None
        self._form = Form("New training", _FIELDS, self._start_from_form, button="Start", suggestions=presets)
        self.app.push_screen(self._form)

    def action_compare(self) -> None:
        self._pick("Compare with…", self.dashboard.compare)

    def action_compare_no_more(self) -> None:
        self.dashboard.compare(None)

    def action_choose(self) -> None:
        self._pick("Show a run…", self._show_run)

    def _pick(self, placeholder: str, done: Callable[[Path], object]) -> None:
        commands = [
            (escape(sanitise(folder.name)), partial(done, folder), line.plain.split("\n")[1].strip())
            for folder, line in self._lines().items()
            if folder != self.state.run_folder
        ]
        self.app.search_commands(commands, placeholder)

    def action_turn(self, by: int) -> None:
        self.query_one(RunPlots).turn(by)

    @on(OptionList.OptionSelected, "#runs")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        if event.option_id is not None:
            self._show_run(Path(event.option_id))

    def training_ended(self, run: Path, error: str) -> None:
        """A training run started here has ended; `error` is "" if it finished or was stopped."""
        current = self.state.run
        if error:
            self._failed[run] = error
            if current is not None and current.folder == run and current.history.last_time is None:
                self.dashboard.attach(self._before)
            if (form := self._open_form(run)) is not None:
                form.show_message(error)
            else:
                self._notify_error(run, error)
        self.dashboard.request_redraw()

    def _is_starting(self, run: Path | None) -> bool:
        return run in self._starting and self._starting[run].is_running

    def _state_of(self, run: FollowedRun) -> str:
        return STARTING if run.folder in self._starting else run.state

    def _notify_error(self, run: Path, note: str) -> None:
        self.notify(sanitise(note), title=sanitise(run.name), severity="error", markup=False)

    def _open_form(self, run: Path) -> Form | None:
        return self._form if self.app.screen is self._form and run == self._form_run else None

    def _start_from_form(self, typed: dict[str, str]) -> str:
        if self._is_starting(self._form_run):
            return "Starting…"  # Enter was pressed twice
        try:
            data, settings = shlex.split(typed["data"]), shlex.split(typed["settings"])
        except ValueError as error:
            return f"Data and settings are split at spaces unless quoted: {error}."
        if not data:
            return "Data is required: files, or a dataset such as squad:train."
        if not (preset := typed["preset"]):
            return "A preset is required: its name, or a TOML file."
        folder = resolve_name(typed["run"], self.options.runs) if typed["run"] else new_run(preset, self.options.runs)
        options = [f"--preset={preset}", *(f"--data={spec}" for spec in data), f"--run={folder}"]
        options += [f"--validation={typed['validation']}"] if typed["validation"] else []
        options += [f"--set={setting}" for setting in settings]
        options += self.options.arguments("device")
        self._before, self._form_run = self.state.run_folder, folder
        self._start(folder, options)
        self.dashboard.attach(folder)
        return "Starting…"

    def _start(self, run: Path, options: list[str]) -> None:
        self._failed.pop(run, None)
        on_end = partial(self.app.call_later, self.training_ended, run)
        self._starting[run] = ChildProcess(["train", *options], on_end)

    def _show_run(self, run: Path) -> None:
        if self.state.other is not None and self.state.other.folder == run:
            self.dashboard.compare(None)
        if self.state.run_folder != run:
            self.dashboard.attach(run)

    def _lines(self) -> dict[Path, Text]:
        runs, current, other = {run.folder: run for run in self.state.runs}, self.state.run, self.state.other
        known = [folder for folder in self._order if folder in runs]
        self._order = [folder for folder in runs if folder not in known] + known
        lines = {}
        for folder in self._order:
            run, state, sign = runs[folder], str(runs[folder].state), " "
            if current is not None and current.folder == folder:
                state, sign = self._state_of(current), _CURRENT
            elif other is not None and other.folder == folder:
                sign = _OTHER
            best = f"  F1 {run.best.f1_text}" if run.best else ""
            detail = f"  {_SIGNS.get(state, ' ')} {state}  step {run.step:,}{best}"
            lines[folder] = Text(f"{sign} {sanitise(folder.name)}\n", "bold").append(detail, "not bold")
        return lines

    def _draw_runs(self) -> None:
        """Draw the list; the highlight stays on its run, and starts on the current one."""
        shown = self.query_one("#runs", OptionList)
        lines = {str(run): line for run, line in self._lines().items()}
        keys = [*lines]
        if keys == [option.id for option in shown.options]:
            for key, line in lines.items():
                if line != shown.get_option(key).prompt:
                    shown.replace_option_prompt(key, line)
            return
        before = shown.highlighted_option
        here = before.id if before is not None and before.id in lines else str(self.state.run_folder)
        shown.set_options([Option(line, key) for key, line in lines.items()])
        if lines:
            shown.highlighted = keys.index(here) if here in lines else 0

    def _draw_facts(self, run: FollowedRun | None) -> None:
        bar, facts = self.query_one(ProgressBar), [("", "No training run yet. Press n to start one.")]
        if run is None:
            bar.display = False
        else:
            history, state = run.history, self._state_of(run)
            bar.display = history.total_steps > 0 or state in (STARTING, "preparing")
            if history.started is None and history.cached is not None and history.cached.total:
                bar.update(total=history.cached.total, progress=history.cached.done)
            else:
                bar.update(total=history.total_steps or None, progress=history.step)
            note = "" if run.is_running else self._failed.get(run.folder, "")
            note = "will stop after the current step" if run.is_stopping else note
            facts = _run_facts(run, state, note, self.state.other)
        self.query_one("#facts", Facts).show(facts)
        brief = "  ".join(f"{'' if label in ('run', 'state') else label} {value}".strip() for label, value in facts)
        self.query_one("#brief", Static).update(Text(brief), layout=False)


def _run_facts(run: FollowedRun, state: str, note: str, other: FollowedRun | None) -> list[tuple[str, str]]:
    facts = [
        ("run", shorten(sanitise(run.folder.name), _VALUE_WIDTH)),
        ("state", f"{_SIGNS.get(state, ' ')} {state}"),
        *([("", sanitise(note))] if note else []),
        *run_facts(run),
        ("folder", shorten(display_path(run.folder), _VALUE_WIDTH)),
    ]
    if other is not None:
        best = f"; best: F1 {other.history.best.f1_text}" if other.history.best else ""
        facts.append(("compared", f"{_OTHER} {sanitise(other.folder.name)}: {other.state}{best}"))
    return facts
