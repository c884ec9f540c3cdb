"""The bank at a glance: what it holds, how large it is, how it grew, and what is running."""

import math
import time
from datetime import UTC, datetime
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll

from mbc_cli.render.bank import code_layout, holdings, size_facts
from mbc_cli.text import counted, near, seconds, size
from mbc_cli.tui.state import Attached, BankSeen, Known
from mbc_cli.tui.views.view import View, told_no_bank
from mbc_cli.tui.widgets.chart import Chart, Curve
from mbc_cli.tui.widgets.figures import Bar, Bars, Box, Facts
from mbc_engine.runs.ingests import IngestState
from mbc_engine.runs.training_runs import RunState

_DAY: Final = 86_400.0
# Moments that a plot tells apart.
_STEPS: Final = 200


class OverviewView(View):
    """What there is."""

    NAME, TITLE, ABOUT = "overview", "Overview", "The bank at a glance: what it holds, how large it is, and how it grew"
    HELP = """What the bank holds, how large it is, what is running, and how it grew. Follows other processes too."""

    def compose(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(classes="facts", can_focus=True):
                with Box("Bank"):
                    yield Facts(id="bank")
                with Box("Activity"):
                    yield Facts(id="work")
                with Box("Bytes", id="sizes"):
                    yield Bars()
            with Vertical():
                yield Chart("Chunks over time", "nothing ingested yet", id="growth")

    def draw(self) -> None:
        """Show what is known now."""
        known = self.known
        bank, work = self.query_one("#bank", Facts), self.query_one("#work", Facts)
        if known.bank is not None:
            bank.show(bank_facts(known.bank, self.places.model))
        elif known.trouble is not None:
            bank.show([("", told_no_bank(known.trouble))])
        work.show(work_facts(known))
        self.query_one("#sizes").display = (
            known.bank is not None and known.bank.totals.chunks > 0 and self.screen.has_class("-high")
        )
        if known.bank is not None:
            self.query_one(Bars).show(size_bars(known.bank))
        self._draw_growth(known)

    def _draw_growth(self, known: Known) -> None:
        points = growth_points(known, time.time())
        if len(points) < 2 or not any(chunks for _, chunks in points):
            self.query_one("#growth", Chart).show([])
            return
        times, chunks = zip(*points, strict=True)
        unit, name = _unit(times[-1] - times[0])
        curve = Curve([(at - times[-1]) / unit for at in times], chunks, "text-success")
        since = datetime.fromtimestamp(times[0], UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        self.query_one("#growth", Chart).show([curve], f"{name} before now, since {since}", lowest=0)


def growth_points(known: Known, now: float) -> list[tuple[float, int]]:
    """When the bank had how many chunks: at the end of each ingest, when the last one began, and now.

    Args:
        known: what there is to tell from.
        now: seconds since the epoch; it counts in steps that are not seen, so that nothing is drawn anew in between.
    """
    ingest = known.ingest
    points = [(time, end.bank_chunks) for time, end in ingest.growth]
    if ingest.began is not None:
        last = points.pop() if points and ingest.finished else None
        before = points[-1][1] if points else 0
        points += [(ingest.began, before), *([last] if last else [])]
    if known.bank is not None and points:
        # A power of two: of the span itself, every moment would be a whole multiple.
        step = 2.0 ** int(math.log2(max(1.0, (now - points[0][0]) / _STEPS)))
        points.append((max(points[-1][0], now // step * step), known.bank.totals.chunks))
    return points


def bank_facts(bank: BankSeen, model: str) -> list[tuple[str, str | Text]]:
    """What the bank is and holds, and the sizes of its parts."""
    shape, totals, sizes = bank.header.shape, bank.totals, bank.sizes

    facts: list[tuple[str, str | Text]] = [
        ("bank", near(bank.path)),
        ("holds", holdings(totals)),
        *size_facts(sizes, totals.chunks),
    ]
    layout = code_layout(shape.tokens, shape.levels, shape.num_codes)
    facts += [
        ("a chunk", f"{shape.bits_per_chunk} bits: {layout}; as floats {size(bank.header.float_bytes(1))}"),
        ("model", f"{bank.header.signature.name} ({bank.header.signature.fingerprint}), asked with {model}"),
    ]
    return facts


def size_bars(bank: BankSeen) -> list[Bar]:
    """The sizes of the file and its parts, and of the vectors that the codes stand for."""
    sizes = bank.sizes
    amounts = {
        "codes": sizes.codes,
        **({"text": sizes.texts} if sizes.texts else {}),
        "index": sizes.file - sizes.codes - sizes.texts,
        "file on disk": sizes.file,
        "as floats": bank.header.float_bytes(bank.totals.chunks),
    }
    return [Bar(label, amount, size(amount)) for label, amount in amounts.items()]


def work_facts(known: Known) -> list[tuple[str, str | Text]]:
    """What is going on, in this process or another."""
    return [("ingest", ingest_line(known)), ("training", training_line(known.run))]


def ingest_line(known: Known) -> str:
    """The bank's last ingest, in a line."""
    ingest, state = known.ingest, known.ingest_state
    if state is None:
        return "none yet; start one in Ingest"
    documents = ingest.reported.documents if ingest.reported else 0
    line = f"{state}: {counted(documents, 'document')}, {ingest.skips:,} skipped"
    if state is not IngestState.RUNNING:
        return line
    rate = "" if ingest.rate is None else f", {ingest.rate:,.0f} chunks/s"
    left = "" if ingest.seconds_left is None else f", {seconds(ingest.seconds_left)} left"
    return line + rate + left


def training_line(run: Attached | None) -> str:
    """The run that is followed, in a line."""
    if run is None:
        return "none yet; start one in Train"
    history, state = run.history, run.state
    is_moving = state is RunState.TRAINING and history.seconds_left is not None
    left = f", {seconds(history.seconds_left or 0)} left" if is_moving else ""
    return f"{run.folder.name} is {state}: step {history.step:,} of {history.total_steps:,}{left}"


def _unit(span: float) -> tuple[float, str]:
    """What to count a stretch of time in."""
    if span >= 2 * _DAY:
        return _DAY, "days"
    return (3600.0, "hours") if span >= 7200 else (60.0, "minutes")
