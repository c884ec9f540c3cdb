"""The codebooks as heat maps: how often each code is used, and what its chunks have in common."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static, Tab, Tabs

from mbc_cli.formatting import pluralise, sanitise
from mbc_cli.tui.jobs import explain_codes
from mbc_cli.tui.state import DashboardOptions, DashboardState
from mbc_cli.tui.views import View, error_text, message_text, no_bank_text
from mbc_cli.tui.widgets.cells import Column, HeatMap, RowTable, shorten
from mbc_cli.tui.widgets.chart import Chart, PlotCurve, format_number
from mbc_engine.bank import CodeShape, CodeUse, StoredChunk, StoredDocument, count, perplexity
from mbc_engine.bank.words import stems_of
from mbc_engine.errors import MBCError
from mbc_engine.text.chunks import split_sentences

# What brightness can stand for.
_LAYERS: Final = {"bank": "Bank", "training": "Training", "question": "Last answer"}
# The codes that make up most of what the last question read are marked; the flat read takes a little of every code.
_READ_SHARE, _MAX_READ_MARKS = 0.9, 24
_DEAD: Final = 1e-4  # the paper's epsilon; a run with another one reports its own count of dead codes
_LOOKUP_DELAY, _REFRESH_DELAY = 0.2, 2.0  # seconds before a new code's chunks are looked up, and the same one's again
_MAX_CHUNKS, _NAME_WIDTH = 30, 24
_ABOUT: Final = (
    "A code is an entry of a codebook; a chunk is stored as one code of each codebook.\n"
    "Perplexity is the number of codes effectively in use, highest if used evenly."
)
_LAYER: Final = Binding.Group("Layer", compact=True)
_BOOK: Final = Binding.Group("Codebook", compact=True)


class CodesView(View):
    NAME, TITLE = "codes", "Codes"
    ABOUT = "Heat maps of the codebooks: how often each code is used, and what its chunks say"
    HELP = f"""
    {" ".join(_ABOUT.splitlines())}

    Each cell is a code: the brighter, the more often it is used. `·` is unused; `◆` was read for the last question, or is
    a code of the document that `m` in Documents chose. With several codebooks, choose one in the small map above.

    Below are the words that the chunks with the selected code have in common, and the most typical of them. Enter moves
    on to these, `d` shows their document; `m` jumps to the next `◆`.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b", "layer('bank')", "Bank", group=_LAYER),
        Binding("t", "layer('training')", "Training", group=_LAYER),
        Binding("a", "layer('question')", "Last answer", group=_LAYER),
        Binding("left_square_bracket", "book(-1)", "Previous codebook", group=_BOOK, key_display="["),
        Binding("right_square_bracket", "book(1)", "Next codebook", group=_BOOK, key_display="]"),
        Binding("d", "document", "Document"),
        Binding("escape", "unmark", "Unmark"),
        Binding("enter", "descend", "Choose", show=False),
    ]

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(key, options)
        self._selected_code: tuple[int, int, int] | None = None  # level, position and number of the code at the cursor
        self._uses: int | None = None
        self._is_refreshing = False
        self._has_users = True  # the codes shown are those of the bank's documents
        self._documents: dict[object, StoredDocument] = {}  # of the chunks listed
        self._marked: tuple[str, NDArray[Any]] | None = None  # a document, and how often it has each code
        self._maps = self._books, self._heat = HeatMap(id="books"), HeatMap(id="heat")

    def compose(self) -> ComposeResult:
        yield Tabs(*(Tab(title, id=layer) for layer, title in _LAYERS.items()), id="layer")
        yield Static(_ABOUT, id="about")
        yield Static(id="nothing")
        with Vertical(id="map"):
            with Horizontal():
                with Vertical():
                    yield from self._maps
                    yield Static(id="code")
                yield Chart("Usage by rank", id="ranks")
            with Vertical(id="users", classes="panel"):
                yield Static(id="words")
                yield RowTable([Column("document", _NAME_WIDTH), Column("text", is_text=True)])

    def on_mount(self) -> None:
        for shown in self._maps:
            self.watch(shown, "cursor", lambda: self.call_next(self.draw), init=False)

    @property
    def _layer(self) -> str:
        return self.query_one("#layer", Tabs).active or "bank"

    def take_focus(self) -> None:
        self.query_one("#layer" if self.has_class("-nothing") else "#heat").focus()

    def available(self) -> dict[str, bool]:
        return {"book": self._books.display, "document": bool(self._documents), "unmark": self._marked is not None}

    def action_layer(self, layer: str) -> None:
        self.query_one("#layer", Tabs).active = layer

    def action_book(self, by: int) -> None:
        self._books.go(self._books.cursor + by)

    def action_descend(self) -> None:
        if self._books.has_focus:
            self._heat.focus()
        else:
            self._look_up()
            self.query_one(RowTable).focus()

    def action_document(self) -> None:
        self.dashboard.show_document(self._documents[self.query_one(RowTable).key].name)

    def action_unmark(self) -> None:
        self._marked = None
        self.draw()

    def mark(self, document: StoredDocument, shape: CodeShape) -> None:
        """Mark a document's codes and go to the first of them."""
        assert document.codes is not None
        counts = count(document.codes, shape)
        number = int(counts[0, 0].argmax())
        self._marked = shorten(sanitise(Path(document.name).name), _NAME_WIDTH), counts
        self._selected_code = 0, 0, number
        self.action_layer("bank")
        self.draw()
        self._books.go(0)
        self._heat.go(number)
        self._heat.focus()

    def draw(self) -> None:
        state, layer = self.state, self._layer
        usage = _usage(state, layer)
        self.set_class(usage is None, "-nothing")
        nothing = self.query_one("#nothing", Static)
        nothing.display = usage is None
        if usage is None:
            nothing.update(_empty_message(state, layer))
            return
        if self._selected_code is None and self.query_one("#layer").has_focus:
            self.take_focus()
        level, position = divmod(self._draw_books(usage, layer), usage.shape[1])
        read = state.codes_read
        own_read = read[level, position] if read is not None and read.shape == usage.shape else None
        heat, values = self._heat, usage[level, position]
        marks = [] if own_read is None or layer == "question" else most_read(own_read)
        marked, own_marked = "last question", None
        if self._marked is not None and self._marked[1].shape == usage.shape and layer == "bank":
            marked, own_marked = self._marked[0], self._marked[1][level, position]
            marks = np.flatnonzero(own_marked).tolist()
        heat.show(values, marks, marked=marked)
        if self._selected_code is None:
            heat.go(int(values.argmax()))
        elif own_marked is not None and self._selected_code[:2] != (level, position) and not own_marked[heat.cursor]:
            heat.go(marks[0])
        heat.border_title = Content(_book_title(usage, level, position, layer))
        line = _code_line(heat.cursor, values, layer, own_read if own_marked is None else None)
        if own_marked is not None:
            line.append(f"  ◆ in {marked}" if own_marked[heat.cursor] else f"  m: next of {marked}")
        self.query_one("#code", Static).update(line, layout=False)
        by_rank = PlotCurve(np.arange(1, len(values) + 1), np.sort(values)[::-1])
        self.query_one("#ranks", Chart).show([by_rank], "most used first", lowest=0)
        self._look_up_soon((level, position, heat.cursor), layer)

    def _draw_books(self, usage: NDArray[Any], layer: str) -> int:
        books, (levels, positions, _) = self._books, usage.shape
        if books.display != (levels * positions > 1):
            books.display = levels * positions > 1
        if books.display:
            values, title = np.where(usage.any(-1), np.rint(perplexity(usage)), 0), "perplexity"
            if layer == "question":
                values, title = np.count_nonzero(usage, -1), "codes read"
            books.border_title = Content(f"Codebooks by {title}{', a row for each level' if levels > 1 else ''}")
            books.show(values.ravel(), row=positions)
        return books.cursor if books.display else 0

    @on(Tabs.TabActivated, "#layer")
    def _change_layer(self) -> None:
        self.draw()
        if self._layer != "question" or (read := self.state.codes_read) is None:
            return
        # If nothing was read from this codebook, go to the most-read one; likewise for codes.
        amounts, book = read.sum(-1).ravel(), self._books.cursor if self._books.display else 0
        if not amounts[book]:
            book = int(amounts.argmax())
            self._books.go(book)
        codes = read.reshape(len(amounts), -1)[book]
        if not codes[self._heat.cursor]:
            self._heat.go(int(codes.argmax()))

    def _look_up_soon(self, code: tuple[int, int, int], layer: str) -> None:
        """Look up the chunks of the code at the cursor once it rests there, and again when its usage changes."""
        bank, uses = self.state.bank, None
        if layer == "training":
            self._selected_code = code
            if self._has_users:  # listing anew would ask for another redraw, without end
                self._has_users = False
                self._list("Chunks", "Chunks are listed for the bank's codes (b).")
            return
        if bank is not None and all(at < size for at, size in zip(code, bank.counts.shape, strict=True)):
            uses = int(bank.counts[code])
        if code != self._selected_code or not self._has_users:
            self._has_users = True
            self._list(f"Chunks with code {code[2]}", "…")
            self.debounce("users", _LOOKUP_DELAY, self._look_up)
        elif uses != self._uses and not self._is_refreshing:
            self._is_refreshing = True
            self.debounce("users", _REFRESH_DELAY, self._look_up)
        self._selected_code, self._uses = code, uses

    def _look_up(self) -> None:
        self._is_refreshing = False
        if (code := self._selected_code) is not None and self._has_users:
            job = partial(explain_codes, self.options.bank, [code], _MAX_CHUNKS)
            self.run_job("users", job, partial(self._show_users, code))

    def _show_users(self, code: tuple[int, int, int], uses: list[CodeUse] | MBCError) -> None:
        if code != self._selected_code or not self._has_users:
            return
        if isinstance(uses, MBCError):
            self._list("Chunks", error_text(uses).plain)
        elif not uses or not uses[0].chunks:
            self._list(f"Chunks with code {code[2]}", "No chunk has this code.")
        else:
            self._list(f"{pluralise(uses[0].chunks, 'chunk')} with code {code[2]}, most typical first", "", uses[0])

    def _list(self, title: str, why_none: str, use: CodeUse | None = None) -> None:
        """List chunks, or say why there are none."""
        self.query_one("#users").border_title = Content(title)
        table, words = self.query_one(RowTable), self.query_one("#words", Static)
        chunks, common = ([], []) if use is None else (use.typical, use.words)
        self._documents = {(chunk.document.digest, chunk.ordinal): chunk.document for chunk, _ in chunks}
        table.empty = why_none
        rows = zip(self._documents, chunks, strict=True)
        table.show([(key, (_chunk_name(chunk), _key_sentence(text, common))) for key, (chunk, text) in rows])
        listed = ", ".join(common) or ("" if use is None else "none that stand out")
        words.update(Text.assemble(("words in common: ", "dim"), sanitise(listed)) if listed else "")
        self.dashboard.request_redraw()


def _chunk_name(chunk: StoredChunk) -> str:
    document, name = chunk.document, Path(chunk.document.name).name
    return name if document.chunks == 1 else f"{name} {chunk.ordinal + 1}/{document.chunks}"


def _key_sentence(text: str, words: Sequence[str]) -> str:
    """The sentence of a text that contains the most `words`; the first one on a tie."""
    stems = stems_of(" ".join(words))
    sentences = (text[first:end] for first, end in split_sentences(text))
    return " ".join(max(sentences, key=lambda sentence: len(stems & stems_of(sentence)), default="").split())


def most_read(shares: NDArray[np.floating[Any]]) -> list[int]:
    """The fewest codes that make up most of a codebook's `shares`, [codes], and no more than can be distinguished."""
    total = float(shares.sum())
    if total <= 0:
        return []
    order = np.argsort(-shares, kind="stable")
    enough = int(np.searchsorted(np.cumsum(shares[order]), _READ_SHARE * total)) + 1
    return [code for code in order[: min(enough, _MAX_READ_MARKS)].tolist() if shares[code] > 0]


def _usage(state: DashboardState, layer: str) -> NDArray[Any] | None:
    """The numbers of a layer, [levels, positions, codes]; None if there are none, see `_empty_message`."""
    if layer == "question":
        return state.codes_read
    if layer == "training":
        usage = state.run.usage if state.run is not None else None
        return None if usage is None else np.where(usage < _DEAD, 0, usage)
    return state.bank.counts if state.bank is not None and state.bank.totals.chunks else None


def _empty_message(state: DashboardState, layer: str) -> Text:
    if layer == "question":
        return message_text("No question yet.", "Ask one in Ask (1); the codes it reads light up here.")
    if layer == "training" and state.run is None:
        return message_text("No training run is selected.", "Start or choose one in Train (6).")
    if layer == "training" and state.run is not None:
        why = f"The run {state.run.folder.name} has no codes yet."
        return message_text(why, "Codes appear once its documents are quantised.")
    if state.bank_error is not None:
        return no_bank_text(state.bank_error)
    return message_text("The bank is empty.", "Add documents in Ingest (3).") if state.bank else Text("…")


def _book_title(usage: NDArray[Any], level: int, position: int, layer: str) -> str:
    levels, positions, codes = usage.shape
    names = [f"level {level + 1}"] if levels > 1 else []
    names += [f"position {position + 1}"] if positions > 1 else []
    name, counts = ", ".join(names).capitalize() or "Codes", usage[level, position]
    dead = int((counts == 0).sum())
    if layer == "question":
        return f"{name}: {codes - dead:,} of {codes:,} read"
    return f"{name}: perplexity {float(perplexity(counts)):,.0f} of {codes:,}, {dead:,} dead ({dead / codes:.0%})"


def _code_line(code: int, values: NDArray[Any], layer: str, read: NDArray[np.floating[Any]] | None) -> Text:
    value = values[code].item()
    line = Text().append(f"code {code}: ", "bold")
    if layer == "bank":
        line.append(f"{pluralise(value, 'time')} in the bank")
    elif layer == "training":
        line.append(f"{format_number(value)} per batch recently")
    if not value:
        line.append("not read" if layer == "question" else ", dead")
    elif layer != "question":
        line.append(f", {value / values.sum():.1%} of this codebook")
    if read is not None and read[code] > 0:
        line.append("" if layer == "question" else "  ◆ ")
        line.append(f"{read[code] / read.sum():.0%} of the codes read for the last answer")
    return line
