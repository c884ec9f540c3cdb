"""An evaluation on the terminal: its progress and its report."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_table
from mbc_cli.text import format_duration, pluralise, sanitise
from mbc_engine import events

if TYPE_CHECKING:
    from mbc_engine.evaluation.report import Report
    from mbc_engine.evaluation.tables import Table

_ALL = "Stages"
_BARS = {"read texts": "Reading texts", "take in documents": "Memorising", "answer questions": "Answering"}


class ExperimentView(ProgressView):
    """Shows an experiment's progress from its events."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._total_steps = self._kept = 0
        self.is_finished = False

    def show(self, event: events.Event) -> None:
        match event:
            case events.StageStarted():
                self._show_kept()
                note = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
                self.bar(_ALL, event.total, completed=event.number - 1, note=note)
            case events.StageFinished() | events.StageSkipped():
                self._end_stage(event)
            case events.Progressed():
                self.bar(_BARS[event.work], event.total, completed=event.done)
            case events.TrainStarted():
                self._total_steps = event.total_steps
                self.bar("Training", event.total_steps, completed=event.step)
            case events.TrainStep():
                self.bar("Training", self._total_steps, completed=event.step, note=f"loss {event.loss:.3f}")
            case events.TuningStep():
                self.bar("Tuning", event.total_steps, completed=event.step, note=f"loss {event.loss:.3f}")
            case events.Validated() | events.RateTried():
                tried = (
                    f"learning rate {event.rate:g}" if isinstance(event, events.RateTried) else f"step {event.step:,}"
                )
                self.line(f"  {tried}: exact match {event.exact_match:.1f} % · F1 {event.f1:.1f} %", "dim")
            case events.ExperimentFinished():
                self._show_kept()
                self.is_finished = True
                self.remove_bar(_ALL)

    def _end_stage(self, event: events.StageFinished | events.StageSkipped) -> None:
        for name in ("Training", "Tuning", *_BARS.values()):
            self.remove_bar(name)
        stage = f"{sanitise(event.cell)}: {sanitise(event.stage)}"
        if isinstance(event, events.StageSkipped):
            if event.follows is None:
                self.line(f"{stage}: skipped: {sanitise(event.reason)}", "yellow")
        elif event.was_kept:
            self._kept += 1
        else:
            self.line(f"{stage}: {format_duration(event.seconds)}")

    def _show_kept(self) -> None:
        if self._kept:
            were = "was" if self._kept == 1 else "were"
            self.line(f"{sanitise(self._folder)}: {pluralise(self._kept, 'stage')} {were} already done.")
            self._kept = 0


_STYLES: Final = {"worse": "red", "no": "red", "unchecked": "yellow", "yes": "green"}
# Columns that a table does without on a terminal too narrow for all, in this order.
_SPARED: Final = (
    *("questions", "wrong bank", "closed book", "less than text from", "lenient match*", "text", "shared"),
    *("per document", "paper's bytes", "in five", "learning rate", "per answer", "paper's F1 kept"),
    *("bytes, paper's count", "paper's F1", "paper's EM", "bytes on disk"),
)


def print_report(report: "Report") -> None:
    from mbc_engine.evaluation.tables import NOTHING_TO_BEAT, OUTCOMES, tables_of

    for verdict in report.verdicts:
        style = _STYLES[verdict.outcome]
        figures = f": {sanitise(verdict.figures)}." if verdict.figures else "."
        _print((f"{OUTCOMES[verdict.outcome]} ", style), (sanitise(verdict.claim), f"bold {style}"), figures)
    if not report.verdicts:
        _print((NOTHING_TO_BEAT, "bold yellow"))
    for caution in report.cautions:
        _print(("Note. ", "bold yellow"), sanitise(caution))
    told: set[str] = set()
    for cell in report.cells:
        print()
        _print((sanitise(cell.title), "bold"), (f"  {len(cell.rows)} methods", "dim"))
        for table in tables_of(cell):
            if "second" not in table.columns:  # paired tests: the verdicts say what they show
                _print_table(table, told)
    if report.missing:
        print()
        _print(("What is missing", "bold"))
    for missing in report.missing:
        _print(sanitise(f"{missing['cell']}, {missing['stage']}: {missing['reason']}"))


def _print_table(table: "Table", told: set[str]) -> None:
    _print((table.title, "dim"))
    shown = {name: [line[number] for line in table.lines] for number, name in enumerate(table.columns)}
    for name in _SPARED:
        width = sum(2 + max(map(len, (title, *entries))) for title, entries in shown.items())
        if out.is_terminal and width > out.width:
            shown.pop(name, None)
    print_table([*shown], list(zip(*shown.values(), strict=True)), right=[name for name in shown if name != "method"])
    if table.note not in {"", *told} and ("lenient match*" in shown or not table.note.startswith("*")):
        told.add(table.note)
        _print((table.note, "dim"))
    print()


def _print(*parts: str | tuple[str, str]) -> None:
    out.print(Text.assemble(*parts))
