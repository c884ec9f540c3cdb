"""Codes in words and figures: how often they are used, in the bank, in training and by the last question."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from mbc_cli.text import counted, near, plain
from mbc_cli.tui.jobs.code_users import Code
from mbc_cli.tui.known import Known
from mbc_cli.tui.views.trouble import told, told_no_bank
from mbc_cli.tui.widgets.axis import short
from mbc_cli.tui.widgets.chart import Curve
from mbc_engine.bank import CodeUse, perplexity, unused

# What brightness can stand for.
LAYERS: Final = ("Bank", "Training", "Last question")
BANK, TRAINING, QUESTION = range(len(LAYERS))
# Of what the last question read, the codes that make up most are lit up; the flat read takes a little of every code.
_READ_SHARE, _READ_MOST = 0.9, 24
# The paper's epsilon; a run that goes by another one tells how many codes are dead to it.
_DEAD: Final = 1e-4


def most_read(shares: NDArray[np.floating[Any]]) -> list[int]:
    """The fewest codes that got most of what was read of a book, [codes], and no more than can be told apart."""
    total = float(shares.sum())
    if total <= 0:
        return []
    order = np.argsort(-shares, kind="stable")
    enough = int(np.searchsorted(np.cumsum(shares[order]), _READ_SHARE * total)) + 1
    return [code for code in order[: min(enough, _READ_MOST)].tolist() if shares[code] > 0]


def usage_of(known: Known, layer: int) -> NDArray[Any] | None:
    """The numbers of a layer, [levels, positions, codes]; None where there are none, see `why_none`."""
    if layer == QUESTION:
        return known.codes_read
    if layer == TRAINING:
        usage = known.run.usage if known.run is not None else None
        return None if usage is None else np.where(usage < _DEAD, 0, usage)
    return known.bank.counts if known.bank is not None and known.bank.totals.chunks else None


def why_none(known: Known, layer: int) -> Text:
    """Why a layer has no numbers, and what gives it some."""
    if layer == QUESTION:
        return told("Nothing was asked yet.", "Ask a question in Ask (5): the codes that it reads light up here.")
    if layer == TRAINING:
        if known.run is None:
            return told("No training run is selected.", "Start or choose one in Train (3).")
        return told(
            f"The run {known.run.folder.name} has no codes yet.",
            "They appear once its documents are quantised; runs of older versions do not record them.",
        )
    if known.trouble is not None:
        return told_no_bank(known.trouble)
    return told("The bank is empty.", "Fill it in Ingest (4).") if known.bank else Text("…")


def summary(known: Known) -> str:
    """How many codes there are, in a few words."""
    parts = []
    if known.bank is not None:
        parts.append(f"{int(known.bank.counts.sum()):,} codes stored")
    if known.run is not None:
        parts.append(f"{known.run.history.codes_reset:,} reset in training")
    return ", ".join(parts)


def book_title(usage: NDArray[Any], level: int, position: int, layer: int) -> str:
    """Which book, and how well it is used."""
    levels, positions, codes = usage.shape
    names = [f"level {level + 1}"] if levels > 1 else []
    names += [f"position {position + 1}"] if positions > 1 else []
    name, own = ", ".join(names).capitalize() or "Codes", usage[level, position]
    dead = int(unused(own))
    if layer == QUESTION:
        return f"{name}: {codes - dead:,} of {codes:,} read"
    return f"{name}: perplexity {float(perplexity(own)):,.0f} of {codes:,}, {dead:,} dead ({dead / codes:.0%})"


def code_line(code: Code, values: NDArray[Any], layer: int, read: NDArray[np.floating[Any]] | None) -> Text:
    """The code at the cursor: how often it is used, and how much of the last answer came through it."""
    value = values[code.number].item()
    line = Text().append(f"code {code.number}: ", "bold")
    if layer == BANK:
        line.append(f"{counted(value, 'time')} in the bank")
    elif layer == TRAINING:
        line.append(f"{short(value)} a batch recently")
    if not value:
        line.append("not read" if layer == QUESTION else ", dead")
    elif layer != QUESTION:
        line.append(f", {value / values.sum():.1%} of this codebook")
    if read is not None and read[code.number] > 0:
        line.append("" if layer == QUESTION else "  ◆ ")
        line.append(f"{read[code.number] / read.sum():.0%} of the last read")
    return line


def facts(known: Known) -> list[tuple[str, str | Text]]:
    """The figures of all books together, in the bank and in training."""
    found: list[tuple[str, str | Text]] = []
    if known.bank is not None:
        counts = known.bank.counts
        levels, positions, codes = counts.shape
        found += [
            ("codebooks", f"{levels * positions} of {codes:,} codes"),
            ("codes stored", f"{int(counts.sum()):,}"),
            ("perplexity", f"{float(perplexity(counts).mean()):,.1f} of {codes:,} on average"),
            ("dead in bank", f"{int(unused(counts).sum()):,} of {counts.size:,}"),
        ]
    if known.run is not None:
        latest = known.run.history.latest
        found.append(("training", plain(known.run.folder.name)))
        if latest is not None:
            found.append(("perplexity", f"{latest.perplexity:,.1f} at step {latest.step:,}"))
            found.append(("dead", f"{latest.dead_codes:,}"))
        resets = known.run.history.resets
        when = f", last at step {resets[-1].step:,}" if resets else ""
        found.append(("resets", f"{known.run.history.codes_reset:,}{when}"))
    if known.codes_read is not None:
        found.append(("last question", f"{int((known.codes_read > 0).sum()):,} codes read"))
    return found


def by_rank(values: NDArray[Any]) -> Curve:
    """How evenly codes are used: their usage, the largest first."""
    return Curve(np.arange(1, len(values) + 1), np.sort(values)[::-1], "text-primary")


def users_table(uses: Sequence[CodeUse]) -> Table:
    """Documents with how often they use a code."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(overflow="ellipsis", no_wrap=True)
    for use in uses:
        names = [near(origin.name) for origin in use.document.origins] or [use.document.digest]
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        table.add_row(f"{use.times:,} of {use.places:,}", f"{use.times / use.places:.0%}", Text(names[0] + more))
    return table
