"""A training in words: in a column beside its plots, in two lines above them, in the list of all."""

from typing import Final

from rich.text import Text

from mbc_cli.text import counted, near, plain, seconds
from mbc_cli.tui.known import Attached, RunSeen
from mbc_cli.tui.views.pending import STARTING
from mbc_cli.tui.widgets.run_list import RunLine
from mbc_engine.events import Validated
from mbc_engine.work.run_history import RunHistory, RunState

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
    detail = f"{_SIGNS[state]} {state}  step {run.progress.step:,}{best}"
    return RunLine(str(run.folder), sign, run.folder.name, detail)


def run_facts(run: Attached, state: str, other: Attached | None, words: str) -> list[tuple[str, str | Text]]:
    """How a training goes, in a column."""
    history = run.history
    step, total = history.progress.step, history.progress.total
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
    step, total = history.progress.step, history.progress.total
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
