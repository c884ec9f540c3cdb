"""The bank at a glance: what it holds, how large it is, how it grew, and what is running."""

import time
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll

from mbc_cli.formatting import display_path, format_moment, format_size, format_time_left, pluralise
from mbc_cli.render.bank import code_layout, content_summary, document_facts
from mbc_cli.tui.state import BankSnapshot, DashboardOptions, DashboardState
from mbc_cli.tui.views import Facts, View, box, no_bank_text
from mbc_cli.tui.widgets.cells import Column, RowTable
from mbc_cli.tui.widgets.chart import Chart, PlotCurve
from mbc_engine.events import IngestFinished
from mbc_engine.runs.training_runs import FollowedRun

_DAY: Final = 86_400.0
_MARGIN: Final = 0.05  # the share of the plot before the first ingest
_MAX_INGESTS: Final = 200
_COLUMNS: Final = (
    *(Column("ended", 16), Column("documents", 9, is_number=True)),
    *(Column(title, 7, is_number=True) for title in ("chunks", "removed", "skipped")),
)


class OverviewView(View):
    NAME, TITLE, ABOUT = "overview", "Overview", "The bank at a glance: contents, size and growth"
    HELP = "What the bank holds, its size and growth, and what is running, here or in other processes."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("5", "app.view('codes')", "Codes"),
        Binding("6", "app.view('train')", "Train"),
    ]

    def compose(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(classes="facts", can_focus=True):
                with box("Bank"):
                    yield Facts(id="bank")
                with box("Activity"):
                    yield Facts(id="work")
                with box("Ingests", id="ingests"):
                    yield RowTable(_COLUMNS)
            yield Chart("Chunks over time", "nothing ingested yet", id="growth")

    def draw(self) -> None:
        state = self.state
        if state.bank is not None:
            self.query_one("#bank", Facts).show(_bank_facts(state.bank, self.options))
        elif state.bank_error is not None:
            self.query_one("#bank", Facts).update(no_bank_text(state.bank_error))
        lines = [("ingest", _ingest_line(state)), ("training", _training_line(state.run))]
        self.query_one("#work", Facts).show(lines)
        ends = list(enumerate(state.ingest.growth))[: -_MAX_INGESTS - 1 : -1]
        self.query_one(RowTable).show([(number, _cells(at, end)) for number, (at, end) in ends])
        self.set_class(not ends, "-unrecorded")
        self._draw_growth()

    def _draw_growth(self) -> None:
        chart, points = self.query_one("#growth", Chart), growth_steps(self.state, time.time())
        if not any(chunks for _, chunks in points):
            is_unrecorded = self.state.bank is not None and self.state.bank.totals.chunks > 0
            chart.empty = "no ingests recorded on this machine" if is_unrecorded else "nothing ingested yet"
            chart.show([])
            return
        times, chunks = zip(*points, strict=True)
        span = times[-1] - times[0]
        unit, name = (_DAY, "days") if span >= 2 * _DAY else (3600.0, "hours") if span >= 7200 else (60.0, "minutes")
        curve = PlotCurve([(at - times[-1]) / unit for at in times], chunks, "text-primary")
        chart.show([curve], f"{name} until now, from {format_moment(times[0])}", lowest=0)


def growth_steps(state: DashboardState, now: float) -> list[tuple[float, int]]:
    """The corners of a step curve: at each ingest's end, whenever the bank was seen to change, and now."""
    ends = [(at, end.bank_chunks) for at, end in state.ingest.growth]
    began = ends[0][0] if ends else state.ingest.began
    if began is None:
        return []
    seen = [(at, chunks) for at, chunks in state.growth if at > began]
    last = max(began, now, *(at for at, _ in [*ends, *seen]))
    before = max(0, ends[0][1] - state.ingest.growth[0][1].chunks) if ends else 0
    corners = [(began - max(1.0, (last - began) * _MARGIN), before)]
    present = [] if state.bank is None else [(last, state.bank.totals.chunks)]
    for at, chunks in [*sorted([*ends, *seen]), *present]:
        corners += [(at, corners[-1][1]), (at, chunks)]
    return corners


def _cells(at: float, end: IngestFinished) -> tuple[str, ...]:
    counts = (end.documents, end.chunks, end.removed, end.skipped)
    return format_moment(at), *(f"{count:,}" for count in counts)


def _bank_facts(bank: BankSnapshot, options: DashboardOptions) -> list[tuple[str, object]]:
    header, shape = bank.header, bank.header.shape
    layout = code_layout(shape)
    return [
        ("bank", display_path(options.bank)),
        ("holds", content_summary(bank.totals)),
        *document_facts(bank.sizes, bank.totals.documents, bank.read_bytes),
        ("per chunk", f"{shape.bits_per_chunk} bits: {layout}; as floats {format_size(header.float_bytes(1))}"),
        ("model", f"{header.signature.name} ({header.signature.fingerprint}), asked with {options.model}"),
    ]


def _ingest_line(state: DashboardState) -> str:
    ingest = state.ingest
    if state.ingest_state is None:
        return "none yet; start one in Ingest"
    documents = ingest.reported.documents if ingest.reported else 0
    line = f"{state.ingest_state}: {pluralise(documents, 'document')}, {ingest.skips:,} skipped"
    if state.ingest_state != "running":
        return line
    if recoded := ingest.recoded:
        line = f"recoding texts: {recoded.done:,} of {recoded.chunks:,}"
    rate = "" if recoded or ingest.rate is None else f", {ingest.rate:,.0f} chunks/s"
    left = "" if ingest.seconds_left is None else f", {format_time_left(ingest.seconds_left)} left"
    return line + rate + left


def _training_line(run: FollowedRun | None) -> str:
    if run is None:
        return "none yet; start one in Train"
    history, state = run.history, run.state
    seconds = history.seconds_left if state == "training" else None
    left = "" if seconds is None else f", {format_time_left(seconds)} left"
    return f"{run.folder.name} is {state}: step {history.step:,} of {history.total_steps:,}{left}"
