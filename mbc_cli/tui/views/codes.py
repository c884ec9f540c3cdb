"""Codes in words and figures: how often they are used, in the bank, in training and by the last question.

The codebooks as heat maps: how often each code is used, in the bank, in training and by the last question.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mbc_cli.text import counted, near, plain
from mbc_cli.tui.jobs.documents import Code, CodeUsers, CodeUsersFound, CodeUsersMissing
from mbc_cli.tui.jobs.processes import start_thread
from mbc_cli.tui.state import Known, Places
from mbc_cli.tui.views.view import View, told, told_no_bank, told_trouble
from mbc_cli.tui.widgets.chart import Chart, Curve
from mbc_cli.tui.widgets.figures import Facts
from mbc_cli.tui.widgets.heat_map import HeatMap
from mbc_cli.tui.widgets.inputs import Choice
from mbc_cli.tui.widgets.plot import short
from mbc_engine.bank import CodeUse, perplexity, unused

if TYPE_CHECKING:
    from textual.timer import Timer


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
        when = f", last at step {resets[-1]:,}" if resets else ""
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


# A cursor that stays so long, in seconds, is where a person looks.
_REST: Final = 0.2
# While an ingest goes on, the documents of the code at the cursor are looked up no more often than that, in seconds.
_AGAIN: Final = 2.0
_BOOK: Final = Binding.Group("Codebook", compact=True)


class CodesView(View):
    """The codes and who uses them."""

    NAME, TITLE, ABOUT = (
        "codes",
        "Codes",
        "The codebooks as heat maps: how often each code is used, and by which documents",
    )
    HELP = """
    A cell is a code, the brighter the more it is used; `·` is not used at all, and `◆` was read by the last
    question. Where there are several codebooks, each has a cell in the small map above, which chooses one.

    Enter goes to the documents that use the code at the cursor; `n` goes to the next `◆`.
    """
    SCOPED_CSS = False
    DEFAULT_CSS = """
    CodesView {
        & #layer { margin: 0 1; }
        & #about { width: 1fr; height: 1; color: $text-muted; text-align: right; padding-right: 1; }
        & #choices { height: 1; }
        & #books { max-height: 8; display: none; }
        & #heat { max-height: 60%; }
        & #code { height: 1; padding: 0 2; }
        & #nothing { height: 1fr; padding: 1 2; }
        & #users { min-height: 3; scrollbar-size-vertical: 1; }
        & #figures { width: 44; display: none; }
        & #figures > Chart { height: 1fr; max-height: 20; }
        &.-nothing #map { display: none; }
        &.-nothing #figures { display: none; }
    }
    .-low CodesView #books { max-height: 7; }
    .-wide CodesView #figures { display: block; }
    .-wide CodesView.-nothing #figures { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "layer(0)", "Bank"),
        Binding("t", "layer(1)", "Training"),
        Binding("l", "layer(2)", "Last question"),
        Binding("left_square_bracket", "book(-1)", "Previous codebook", group=_BOOK, key_display="["),
        Binding("right_square_bracket", "book(1)", "Next codebook", group=_BOOK, key_display="]"),
    ]

    def __init__(self, key: int, places: Places) -> None:
        super().__init__(key, places)
        self._users = CodeUsers(places.bank, self.post_message)
        self._layer = BANK
        self._shown: Code | None = None
        self._uses = -1
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="choices"):
            yield Choice(LAYERS, id="layer")
            yield Static(id="about")
        yield Static(id="nothing")
        with Horizontal(id="map"):
            with Vertical():
                yield HeatMap("Codebooks, by perplexity", id="books")
                yield HeatMap(id="heat")
                yield Static(id="code")
                with VerticalScroll(id="users", classes="panel", can_focus=True):
                    yield Static()
            with Vertical(id="figures"):
                yield Facts(id="facts", classes="panel")
                yield Chart("Usage by rank", id="ranks")

    def on_mount(self) -> None:
        self.query_one("#facts").border_title = "Codebook"
        start_thread("code users", self._users.run, self.post_message)

    def on_unmount(self) -> None:
        self._users.stop()

    def take_focus(self) -> None:
        codes = self.query_one("#heat", HeatMap)
        (codes if not self.has_class("-nothing") else self.query_one(Choice)).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There are codebooks to go to only where there are several."""
        return self.query_one("#books").display if action == "book" else True

    def action_layer(self, layer: int) -> None:
        """Let brightness stand for something else."""
        self.query_one("#layer", Choice).choose(layer)

    def action_book(self, by: int) -> None:
        """Go to the next book, or the one before."""
        books = self.query_one("#books", HeatMap)
        books.go(books.cursor + by)

    def show_code(self, level: int, position: int, code: int) -> None:
        """Go to a code of the bank; the position does not matter where one book serves them all."""
        self.action_layer(BANK)
        self.draw()
        if (bank := self.known.bank) is not None:
            shape = bank.header.shape
            book = level * shape.positions + (position if shape.per_position else 0)
            self.query_one("#books", HeatMap).go(book)
            self.draw()
            self.query_one("#heat", HeatMap).go(code)
            self.query_one("#heat").focus()

    @on(Choice.Changed)
    def _change_layer(self, event: Choice.Changed) -> None:
        self._layer = event.at
        self.draw()
        if self._layer == QUESTION and self.known.codes_read is not None:
            self._go_to_what_was_read(self.known.codes_read)

    @on(HeatMap.Moved)
    def _follow(self) -> None:
        self.draw()

    @on(HeatMap.Chosen, "#books")
    def _go_to_codes(self) -> None:
        self.query_one("#heat").focus()

    @on(HeatMap.Chosen, "#heat")
    def _go_to_users(self) -> None:
        self._look_up()
        self.query_one("#users").focus()

    def on_code_users_found(self, message: CodeUsersFound) -> None:
        """Show who uses the code at the cursor."""
        if message.code == self._shown:
            self._show_users(users_table(message.uses) if message.uses else Text("no document of the bank", "dim"))

    def on_code_users_missing(self, message: CodeUsersMissing) -> None:
        """Say why nobody knows who uses the code at the cursor."""
        if message.code == self._shown:
            self._show_users(told_trouble(message.trouble))

    def draw(self) -> None:
        """Show what is known now."""
        known = self.known
        usage = usage_of(known, self._layer)
        self.set_class(usage is None, "-nothing")
        self.query_one("#about", Static).update(summary(known), layout=False)
        nothing = self.query_one("#nothing", Static)
        nothing.display = usage is None
        if usage is None:
            nothing.update(why_none(known, self._layer))
            return
        if self._shown is None and self.query_one(Choice).has_focus:
            self.take_focus()
        level, position = divmod(self._draw_books(usage), usage.shape[1])
        read = known.codes_read
        own_read = read[level, position] if read is not None and read.shape == usage.shape else None
        marks = [] if own_read is None or self._layer == QUESTION else most_read(own_read)
        heat, values = self.query_one("#heat", HeatMap), usage[level, position]
        heat.show(values, marks)
        if self._shown is None:
            heat.go(int(values.argmax()))
        heat.border_title = Content(book_title(usage, level, position, self._layer))
        code = Code(level, position, heat.cursor)
        self.query_one("#code", Static).update(code_line(code, values, self._layer, own_read), layout=False)
        if self.screen.has_class("-wide"):
            self.query_one("#facts", Facts).show(facts(known))
            self.query_one("#ranks", Chart).show([by_rank(values)], "most used first", lowest=0)
        self._look_up_soon(code)

    def _draw_books(self, usage: NDArray[Any]) -> int:
        """Show all books if there are several; the one at the cursor."""
        levels, positions, _ = usage.shape
        books = self.query_one("#books", HeatMap)
        if books.display != (levels * positions > 1):
            books.display = levels * positions > 1
            self.refresh_bindings()
        if books.display:
            effective = np.where(usage.any(-1), np.rint(perplexity(usage)), 0).ravel()
            books.show(effective, labels=[f"level {level}" for level in range(1, levels + 1)])
        return books.cursor if books.display else 0

    def _go_to_what_was_read(self, read: NDArray[np.float32]) -> None:
        """Leave a book of which nothing was read for the one of which most was."""
        books, heat = self.query_one("#books", HeatMap), self.query_one("#heat", HeatMap)
        amounts = read.sum(-1).ravel()
        if books.display and not amounts[books.cursor]:
            most = int(amounts.argmax())
            books.go(most)
            heat.go(int(read.reshape(len(amounts), -1)[most].argmax()))

    def _look_up_soon(self, code: Code) -> None:
        """Find out who uses the code at the cursor when that stays there, and again when more or fewer do."""
        bank = self.known.bank
        uses = -1
        if bank is not None and all(at < size for at, size in zip(code, bank.counts.shape, strict=True)):
            uses = int(bank.counts[code])
        if code == self._shown and uses == self._uses:
            return
        is_same = code == self._shown
        self._shown, self._uses = code, uses
        if is_same and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.stop()
        if not is_same:
            self.query_one("#users").border_title = Content(f"Documents that use code {code.number} most")
            self._show_users(Text("…", "dim"))
        self._timer = self.set_timer(_AGAIN if is_same else _REST, self._look_up)

    def _look_up(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if self._shown is not None:
            self._users.find(self._shown)

    def _show_users(self, told: Text | Table) -> None:
        self.query_one("#users > Static", Static).update(told)
