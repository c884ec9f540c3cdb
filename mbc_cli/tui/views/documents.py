"""A table of documents, ordered by a column if wanted.

Documents in words: what the bank knows of one, what it is called, and how many were found.

The documents of the bank: found as somebody types, looked at down to their codes, removed, and put back.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from mbc_cli.text import counted, near, size
from mbc_cli.tui.jobs.documents import Found, Looked, NotChanged, NotFound, Removals, Removed, Restored, look, search
from mbc_cli.tui.state import Places
from mbc_cli.tui.views.view import View, told_no_bank, told_trouble
from mbc_cli.tui.widgets.code_sheet import CodeSheet
from mbc_cli.tui.widgets.dialogs import Confirm
from mbc_cli.tui.widgets.figures import Box, Facts
from mbc_cli.tui.widgets.rows import Column, Row, Rows
from mbc_engine.bank import CodeShape, FoundDocument, StoredDocument, Taken, origin_name
from mbc_engine.machine import SlowDown

if TYPE_CHECKING:
    from textual.timer import Timer

    from mbc_cli.tui.state import BankSeen


_COLUMNS: Final = (
    Column("source"),
    Column("part", 8),
    Column("date", 10),
    Column("chunks", 7, is_number=True),
    Column("size", 7, is_number=True),
)


class DocumentRows(Rows):
    """Documents that were found, a row each. A click on a title orders them by its column, another one the other way."""

    def __init__(self) -> None:
        super().__init__(_COLUMNS, can_mark=True)
        self._found: dict[Hashable, FoundDocument] = {}
        self._keeps_origins = True
        self._order: tuple[int, bool] | None = None  # a column, and whether the largest come first
        self._in_sight = list(range(len(_COLUMNS)))

    @property
    def here(self) -> FoundDocument | None:
        """The document under the cursor; None where there are none."""
        return self._found.get(self.key)

    @property
    def chosen(self) -> tuple[FoundDocument, ...]:
        """The marked documents in their order; without any, the one under the cursor."""
        marked = tuple(self._found[row.key] for row in self.rows if row.key in self.marked)
        return marked or (() if self.here is None else (self.here,))

    def show_found(self, found: Found) -> None:
        """Show these documents instead of the ones before."""
        self._found = {_key_of(own): own for own in found.rows}
        self._keeps_origins = found.keeps_origins
        self.empty = ""
        if found.is_done:
            self.empty = (
                "Nothing matches. Escape shows all." if found.text else "The bank is empty. Fill it in Ingest (4)."
            )
        self._show()

    def sort_by_next(self) -> None:
        """Order them by the next column; after the last, as the bank has them."""
        ahead = [column for column in self._in_sight if self._order is None or column > self._order[0]]
        self._sort((ahead[0], _COLUMNS[ahead[0]].is_number) if ahead else None)

    @on(Rows.TitleClicked)
    def _sort_by(self, event: Rows.TitleClicked) -> None:
        column = self._in_sight[event.column]
        is_same = self._order is not None and self._order[0] == column
        is_reversed = not self._order[1] if self._order and is_same else _COLUMNS[column].is_number
        self._sort((column, is_reversed))

    def _sort(self, order: tuple[int, bool] | None) -> None:
        self._order = order
        self._show()

    def _show(self) -> None:
        found = list(self._found.values())
        titles = [column.title for column in _COLUMNS]
        titles[0] = titles[0] if self._keeps_origins else "digest"
        if self._order is not None:
            column, is_reversed = self._order
            found.sort(key=lambda own: _sort_key(own, column), reverse=is_reversed)
            titles[column] += " ↓" if is_reversed else " ↑"
        cells = [_cells_of(own) for own in found]
        # Columns that say nothing leave their room to the names.
        self._in_sight = [0, *(own for own in range(1, len(_COLUMNS)) if any(texts[own] for texts in cells))]
        self.retitle([replace(_COLUMNS[column], title=titles[column]) for column in self._in_sight])
        shown = (tuple(texts[column] for column in self._in_sight) for texts in cells)
        self.show([Row(_key_of(own), texts) for own, texts in zip(found, shown, strict=True)])


def _key_of(found: FoundDocument) -> Hashable:
    """What tells it from all others."""
    return (found.source, found.part) if found.source else found.digest


def _cells_of(found: FoundDocument) -> tuple[str, ...]:
    """Its row, a text for each of `_COLUMNS`."""
    weight = "" if found.size is None else size(found.size)
    name = near(found.source) if found.source else found.digest
    return name, found.part, found.date or "", f"{found.chunks:,}", weight


def _sort_key(found: FoundDocument, column: int) -> tuple[object, ...]:
    """Where it stands in the order by a column."""
    # Numbers that are parts, such as rows, in the order of numbers.
    part = (len(found.part), found.part)
    return (
        (found.source or found.digest, *part),
        (*part, found.source),
        (found.date or "", found.source, *part),
        (found.chunks, found.source, *part),
        (found.size or 0, found.source, *part),
    )[column]


# Of a document that was read in many places, so many are named.
_ORIGINS: Final = 3


def document_facts(document: StoredDocument, shape: CodeShape) -> list[tuple[str, str | Text]]:
    """What the bank knows of a document beside its codes."""
    facts: list[tuple[str, str | Text]] = []
    for number, origin in enumerate(document.origins[:_ORIGINS]):
        date = f", {origin.date}" if origin.date else ""
        facts.append(("" if number else "read from", f"{near(origin.name)}{date}"))
    if (more := len(document.origins) - _ORIGINS) > 0:
        facts.append(("", f"and {counted(more, 'other place')}"))
    codes = size(-(-document.chunks * shape.bits_per_chunk // 8))
    read = "" if document.size is None else f" of {size(document.size)}"
    facts.append(("holds", f"{counted(document.chunks, 'chunk')}{read}, {codes} of codes"))
    facts.append(("digest", document.digest))
    return facts


def name_of(found: FoundDocument) -> str:
    """What it is called in a sentence."""
    name = origin_name(found.source, found.part)
    return near(name) if name else found.digest


def count_of(found: Found) -> str:
    """How many were found, and how many of them are shown."""
    shown, matches = len(found.rows), found.matches
    if not found.is_done:
        return f"{matches:,} so far"
    return f"{shown:,} of {matches:,} shown" if shown < matches else f"{matches:,} found"


_MOST: Final = 1000
# Seconds a person stops typing, or moving on, before there is something to look for.
_TYPED: Final = 0.2
_RESTED: Final = 0.1
# Seconds between two searches because the bank has changed at least, and the share of the time they may take.
_EVERY: Final = 0.5
_SHARE: Final = 0.1
# Seconds that a change of the bank may take before it is told of.
_PATIENCE: Final = 0.5
_ASK_FROM: Final = 21
# Cells from which on a document fits beside the table.
_BROAD: Final = 150


class DocumentsView(View):
    """All documents, one under the cursor."""

    NAME, TITLE, ABOUT = "documents", "Documents", "Find documents, look at their codes, remove them and put them back"
    HELP = """
    Space marks; `d` removes what is marked, or the document at the cursor, and `u` puts it back. The files stay, and the
    next ingest of their folder brings them back; `mbc bank remove --ignore` keeps them out.

    Tab leads to the codes of the document, a line each chunk; Enter there looks at the code among all.
    """
    SCOPED_CSS = False  # it looks at the size of the screen
    DEFAULT_CSS = """
    DocumentsView {
        & .search { height: 1; }
        & #text { width: 1fr; }
        & #count { width: auto; padding: 0 1; color: $text-muted; }
        & #trouble { padding: 1 2; display: none; }
        & #found { height: 1fr; }
        & #document { height: 9; }
        & #document:focus-within { height: 70%; }
        & Facts { height: auto; max-height: 50%; }
    }
    .-high DocumentsView #document { height: 40%; }
    DocumentsView.-broad {
        & #both { layout: horizontal; }
        & #found { width: 1fr; }
        & #document { height: 100%; width: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("d,delete", "remove", "Remove"),
        Binding("u,ctrl+z", "undo", "Undo"),
        Binding("s", "sort", "Sort"),
        Binding("escape", "leave", "Back", show=False),
        Binding("down", "to_rows", "Down", show=False),
    ]

    def __init__(self, key: int, places: Places) -> None:
        super().__init__(key, places)
        self._removals = Removals(places.bank, self.post_message)
        self._seen: BankSeen | None = None
        self._sought: str | None = None
        self._searching: str | None = None
        self._is_stale = False
        self._rest = SlowDown(_SHARE, _EVERY)
        self._search_soon: Timer | None = None
        self._look_soon: Timer | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(classes="search"):
            yield Input(placeholder="Search: part of a path, or a date", compact=True, id="text")
            yield Static(id="count", markup=False)
        yield Static(id="trouble", markup=False)
        with Container(id="both"):
            with Box("Documents", id="found"):
                yield DocumentRows()
            with Box("Document", id="document"):
                yield Facts()
                yield CodeSheet()

    @on(events.Resize)
    def _lay_out(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= _BROAD, "-broad")

    def on_unmount(self) -> None:
        self._removals.close()

    def take_focus(self) -> None:
        """Let keys go to the table."""
        self.query_one(Rows).focus()

    def draw(self) -> None:
        """Look again if the bank is no longer what it was."""
        if self.known.bank is None and self.known.trouble is not None:
            self._seen = None
            self._show_trouble(told_no_bank(self.known.trouble))
        elif self.known.bank is not self._seen:
            self._seen = self.known.bank
            self._is_stale = True
            self._refresh_found()

    @property
    def text(self) -> str:
        """What is sought."""
        return self.query_one("#text", Input).value.strip()

    @on(Input.Changed, "#text")
    def _search_typed(self) -> None:
        self._search_in(_TYPED)

    @on(Input.Submitted, "#text")
    def action_to_rows(self) -> None:
        """Go from what is sought to what was found."""
        self.query_one(Rows).focus()

    def action_search(self) -> None:
        """Type what is sought."""
        self.query_one("#text").focus()

    def action_leave(self) -> None:
        """Leave what is narrowest: the codes, the marks, what is sought."""
        rows = self.query_one(Rows)
        if not rows.has_focus:
            rows.focus()
        elif rows.marked:
            rows.unmark()
        else:
            self.query_one("#text", Input).value = ""

    def action_remove(self) -> None:
        """Remove the marked documents, or the one under the cursor; many only if that is really meant."""
        documents = self.query_one(DocumentRows).chosen
        if len(documents) >= _ASK_FROM:
            question = f"Remove {counted(len(documents), 'document')} from the bank? The files stay, and u undoes it."
            self.app.push_screen(
                Confirm(question, "Remove", "Leave"), lambda is_yes: self._remove(documents) if is_yes else None
            )
        elif documents:
            self._remove(documents)

    def action_undo(self) -> None:
        """Put back what was removed last."""
        self._removals.undo()
        self._tell_of_wait()

    def action_sort(self) -> None:
        """Order what is shown by the next column; after the last, as the bank has it."""
        self.query_one(DocumentRows).sort_by_next()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what there is to do; while someone types, letters are letters."""
        is_typing = self.query_one("#text").has_focus
        if action == "to_rows":
            return is_typing
        if action == "undo":
            return self._removals.can_undo and not is_typing
        if action in ("remove", "sort"):
            return bool(self.query_one(Rows).rows) and not is_typing
        return not is_typing if action == "search" else True

    @on(Rows.Moved)
    def _look_at_it(self) -> None:
        self._look_in(_RESTED)

    @on(Rows.Marked)
    def _show_marks(self) -> None:
        marked = len(self.query_one(Rows).marked)
        told = [f"{marked:,} marked" if marked else "", "waiting to change the bank…" if self._removals.pending else ""]
        self.query_one("#found").border_subtitle = ", ".join(filter(None, told))

    @on(Found)
    def _show_found(self, found: Found) -> None:
        if found.text != self._searching:
            return
        if not found.is_done and self._sought == found.text:
            return  # what is there is shown until all of the new is
        self._sought = found.text
        self.query_one("#trouble").display = False
        self.query_one("#both").display = True
        self.query_one("#count", Static).update(count_of(found))
        rows = self.query_one(DocumentRows)
        before = rows.here
        rows.show_found(found)
        if before != rows.here:
            self._look_in(_RESTED)
        if found.is_done:
            now = time.monotonic()
            self._searching = None
            self._rest.took(now - found.seconds, now)
            self._refresh_found()

    @on(NotFound)
    def _show_not_found(self, message: NotFound) -> None:
        self._searching = None
        self._show_trouble(told_trouble(message.error))

    @on(Looked)
    def _show_document(self, looked: Looked) -> None:
        is_here = looked.found == self.query_one(DocumentRows).here
        if not is_here or looked.document is None or looked.codes is None:
            return  # the cursor has moved on, or the table is about to show that it was removed
        self.query_one(Facts).show(document_facts(looked.document, looked.shape))
        self.query_one(CodeSheet).show(looked.codes, looked.shape.num_codes)

    @on(Removed)
    def _say_removed(self, removed: Removed) -> None:
        self._end_change(removed.taken if removed.taken.items else None)
        self._search_now()
        if not removed.taken.items:
            self._say("They were gone already.")
            return
        self.query_one(Rows).unmark()
        first, *others = removed.names
        if others:
            self._say(f"Removed {counted(len(removed.names), 'document')}. Press u to put them back.")
        else:
            self._say(f"Removed {first}. Press u to put it back.")

    @on(Restored)
    def _say_restored(self, restored: Restored) -> None:
        self._end_change(None)
        self._search_now()
        taken = sum(max(1, len(document.origins)) for document, *_ in restored.taken.items)
        left = f"; {taken - restored.count:,} were read anew since" if restored.count < taken else ""
        self._say(f"Put back {counted(restored.count, 'document')}{left}.")

    @on(NotChanged)
    def _say_not_changed(self, message: NotChanged) -> None:
        self._end_change(message.taken)
        self.notify(told_trouble(message.error).plain, severity="error", markup=False)

    def _refresh_found(self) -> None:
        """Search again because the bank has changed, unless that takes too much of the time."""
        if self._is_stale and self._searching is None:
            self._search_in(max(_RESTED, self._rest.seconds_left(time.monotonic())))

    def _look_in(self, delay: float) -> None:
        if self._look_soon is not None:
            self._look_soon.stop()
        self._look_soon = self.set_timer(delay, self._look_now)

    def _search_in(self, delay: float) -> None:
        if self._search_soon is not None:
            self._search_soon.stop()
        self._search_soon = self.set_timer(delay, self._search_now)

    def _search_now(self) -> None:
        path, text = self.places.bank, self.text
        self._searching, self._is_stale = text, False

        def work() -> None:
            worker = get_current_worker()
            search(path, text, _MOST, self.post_message, lambda: worker.is_cancelled)

        self._in_thread(work, "search")

    def _look_now(self) -> None:
        found = self.query_one(DocumentRows).here
        if found is not None:
            self._in_thread(partial(look, self.places.bank, found, self.post_message), "look")
        else:
            self.query_one(Facts).show([])
            self.query_one(CodeSheet).show(np.zeros((0, 1, 1), np.uint16), 1)

    def _remove(self, documents: tuple[FoundDocument, ...]) -> None:
        self._removals.remove(documents, tuple(map(name_of, documents)))
        self._tell_of_wait()

    def _in_thread(self, work: Callable[[], None], group: str) -> None:
        self.run_worker(work, thread=True, group=group, exclusive=True)

    def _tell_of_wait(self) -> None:
        """Say in a while that a change of the bank has not ended, if it has not."""
        self.refresh_bindings()
        self.set_timer(_PATIENCE, self._show_marks)

    def _end_change(self, taken: Taken | None) -> None:
        self._removals.end(taken)
        self.refresh_bindings()
        self._show_marks()

    def _show_trouble(self, told: Text) -> None:
        self.query_one("#trouble", Static).update(told)
        self.query_one("#trouble").display = True
        self.query_one("#both").display = False
        self.query_one("#count", Static).update("")

    def _say(self, words: str) -> None:
        self.notify(words, markup=False)
