"""The documents of the bank: search as you type, inspect down to the codes, remove and restore."""

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.widgets import Input, Static

from mbc_cli.formatting import display_path, format_size, pluralise, sanitise
from mbc_cli.tui.jobs import read_document, remove_documents, restore_documents, search_documents
from mbc_cli.tui.state import BankSnapshot, DashboardOptions
from mbc_cli.tui.views import Facts, View, box, error_text, no_bank_text
from mbc_cli.tui.views.ask import AskView
from mbc_cli.tui.widgets.answer import PassagePane
from mbc_cli.tui.widgets.cells import Column, RowTable
from mbc_engine.answer import Source
from mbc_engine.bank import CodeShape, StoredDocument
from mbc_engine.errors import MBCError
from mbc_engine.machine import Throttle

_NUMBERS: Final = (Column("chunks", 7, is_number=True), Column("size", 7, is_number=True))
_COLUMNS: Final = (Column("source"), Column("date", 10), *_NUMBERS)
# Documents shown at first, and at most, once the end is reached or they are sorted; origins shown per document.
_FIRST_ROWS, _MAX_ROWS, _MAX_ORIGINS = 1000, 200_000, 3
# Seconds without typing before a search, and without moving before reading a document.
_SEARCH_DELAY, _READ_DELAY = 0.2, 0.1
_MIN_INTERVAL, _MAX_SHARE = 0.5, 0.1  # seconds between two searches of a changing bank, and their share of the time
_PLACEHOLDER: Final = "Part of a path, or a date; Enter searches the contents"
_CLOSING_SECONDS: Final = 0.5  # that closing waits for a change to the bank


class DocumentsView(View):
    NAME, TITLE, ABOUT = "documents", "Documents", "Find documents, inspect their codes, remove and restore them"
    HELP = """
    Space marks a document. `x` removes the marked ones, or the one at the cursor; `u` restores them. The files are not
    deleted, so the next ingest of their folder adds them again; `mbc bank remove --ignore` keeps them out.

    Enter searches the contents: the best documents come first, with the matching sentence underlined. `o` opens a
    document's file at that line, `y` copies its path. Tab moves to its text.

    `m` shows the document's codes in Codes: how many chunks of the bank have each, and the words they have in common.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search"),
        Binding("x,delete", "remove", "Remove"),
        Binding("u,ctrl+z", "undo", "Undo"),
        Binding("greater_than_sign", "sort", "Sort"),
        Binding("m", "map", "Codes"),
        Binding("o", "open_file", "Open file", show=False),
        Binding("y", "copy", "Copy path", show=False),
        Binding("escape", "leave", "Back"),
        Binding("down", "take_focus", "Down", show=False),
    ]

    def __init__(self, key: int, options: DashboardOptions) -> None:
        super().__init__(key, options)
        self._documents: dict[Hashable, StoredDocument] = {}
        self._order: int | None = None  # the column to sort by, the largest numbers first
        self._seen: BankSnapshot | None = None  # the bank last searched
        self._limit, self._has_more = _FIRST_ROWS, False
        self._shown: str | None = None  # the text of the search that is shown
        self._is_searching = False
        self._only = ""  # the full name of a document jumped to, which may be a prefix of others
        self._began = 0.0
        self._throttle = Throttle(_MAX_SHARE, _MIN_INTERVAL)
        self._passages: dict[Hashable, Source] = {}  # results of a content search, by document
        self._read: tuple[StoredDocument, CodeShape] | None = None  # the one shown, with its codes
        self._changes = list[Thread]()
        self._table = RowTable(_COLUMNS, can_mark=True, id="rows")
        self._input = Input(placeholder=_PLACEHOLDER, compact=True, id="text")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="search"):
            yield self._input
            yield Static(id="count", markup=False)
        yield Static(id="trouble", markup=False)
        with Container(id="both"):
            with box("Documents", id="found"):
                yield self._table
            with box("Document", id="document"):
                yield Facts()
                yield PassagePane(id="content")

    def on_mount(self) -> None:
        self.query_one("#trouble").can_focus = True  # without a focus, the view's keys would do nothing
        self.watch(self._table, "key", self._read_soon, init=False)
        self.watch(self._table, "cursor", self._read_on, init=False)
        self.watch(self._table, "marked", self._show_marked, init=False)

    def on_unmount(self) -> None:
        for thread in self._changes:
            thread.join(_CLOSING_SECONDS)

    def take_focus(self) -> None:
        self.query_one("#trouble" if self.has_class("-trouble") else "#rows").focus()

    def draw(self) -> None:
        if self.state.bank is None and self.state.bank_error is not None:
            self._seen, self._passages = None, {}
            self._show_error(no_bank_text(self.state.bank_error))
        else:
            self._search_if_stale()
        if self.screen.focused is None:
            self.take_focus()  # what had it may be hidden now

    @on(Input.Changed, "#text")
    def _search_typed(self) -> None:
        self._passages, self._is_searching = {}, True
        self._limit = _FIRST_ROWS if self._order is None else _MAX_ROWS
        self.debounce("search", _SEARCH_DELAY, self._search_now)

    @on(Input.Submitted, "#text")
    def _submit(self) -> None:
        self._table.focus()
        self._is_searching = True
        self.debounce("search", _READ_DELAY, self._search_contents)

    def action_search(self) -> None:
        self._input.focus()

    def action_leave(self) -> None:
        if not (self._table.has_focus or self.query_one("#trouble").has_focus):
            self.take_focus()
        elif self._table.marked:
            self._table.marked = frozenset()
        else:
            self._input.value = ""

    def action_remove(self) -> None:
        marked = tuple(self._documents[key] for key, _ in self._table.rows if key in self._table.marked)
        documents = marked or (() if self._current is None else (self._current,))

        question = f"Remove {_named(documents)} from the bank? No file is deleted, and u restores what was removed."
        job = partial(remove_documents, self.options.bank, documents)
        end = partial(self._end_removal, documents)
        self.confirm(question, "Remove", "Keep", partial(self._change, job, end))

    def action_undo(self) -> None:
        self._change(partial(restore_documents, self.options.bank), self._end_undo)

    def action_open_file(self) -> None:
        if (document := self._current) is not None and document.origin.source:
            hit = self._passages.get(_key(document))
            self.dashboard.open_file(Path(document.origin.source), hit.line if hit else None)

    def action_map(self) -> None:
        if self._read is not None:
            self.dashboard.show_codes(*self._read)

    def action_copy(self) -> None:
        if (document := self._current) is not None:
            self.dashboard.copy(document.name)

    def show_only(self, name: str) -> None:
        """Show only the document with this path and part, or this digest."""
        self._only, self._input.value = name, sanitise(name)  # Input draws text as it is
        self._search_typed()  # two names may look alike
        self._table.focus()

    def action_sort(self) -> None:
        column = 0 if self._order is None else self._order + 1
        self._order = column if column < len(_COLUMNS) else None
        self._show_rows()
        if self._order is not None:
            self._read_all()

    def available(self) -> dict[str, bool]:
        is_typing = self._input.has_focus  # then letters are text, not keys
        has_rows = bool(self._table.rows) and not is_typing and not self.has_class("-trouble")
        return {
            "take_focus": is_typing,
            "leave": not self._table.has_focus or bool(self._table.marked or self._input.value),
            "undo": not is_typing,
            **dict.fromkeys(("remove", "sort", "copy"), has_rows),
            "map": has_rows and self._read is not None,
            "open_file": has_rows and self._current is not None and bool(self._current.origin.source),
            "search": not is_typing,
        }

    @property
    def _current(self) -> StoredDocument | None:
        return self._documents.get(self._table.key)

    def _read_on(self, cursor: int) -> None:
        """At the end of the first rows, find the rest."""
        if cursor == self._table.cells - 1:
            self._read_all()

    def _read_all(self) -> None:
        if self._has_more and self._limit != _MAX_ROWS:
            self._limit = _MAX_ROWS
            self.query_one("#count", Static).update("reading all…")
            self._search_now()

    def _show_rows(self) -> None:
        documents, columns = list(self._documents.values()), list(_COLUMNS)
        if (number := self._order) is not None:
            column = columns[number]
            documents.sort(key=lambda document: _sort_key(document, number), reverse=column.is_number)
            columns[number] = replace(column, title=f"{column.title} {'↓' if column.is_number else '↑'}")
        self.dashboard.request_redraw()
        self._table.show([(_key(document), _cells(document)) for document in documents], columns)

    def _show_matches(self, text: str, result: tuple[tuple[StoredDocument, ...], int, bool] | MBCError) -> None:
        if isinstance(result, MBCError):
            self._is_searching = False
            self._show_error(error_text(result))
            return
        rows, matches, is_done = result
        if not is_done and self._shown == text:
            return  # the old rows stay until all new ones are there
        self._shown = text
        self._has_more = is_done and len(rows) < matches
        hint = "Enter searches the contents"
        listed = f"{len(rows):,} of {matches:,} shown" if len(rows) < matches else f"{matches:,} found"
        no_match = "The bank is empty. Add documents in Ingest (3)."
        if text:
            listed, no_match = f"{listed} · {hint}", f"No path or date matches. {hint}, Escape shows all."
        self._table.empty = no_match if is_done else ""
        self._list(rows, listed if is_done else f"{matches:,} so far")
        if is_done:
            self._is_searching = False
            self._throttle.record(self._began, time.monotonic())
            self._search_if_stale()

    def _list(self, documents: Iterable[StoredDocument], count: str) -> None:
        before, self._documents = self._current, {_key(document): document for document in documents}
        self._show_trouble(False)
        self.query_one("#count", Static).update(count)
        self._show_rows()
        if before != self._current:
            self._read_soon()

    def _search_if_stale(self) -> None:
        """Search again if the bank has changed, but limit the share of time this takes; keep what contents gave."""
        if self.state.bank is not self._seen and not (self._is_searching or self._passages):
            delay = max(_READ_DELAY, self._throttle.seconds_left(time.monotonic()))
            self.debounce("refresh", delay, self._refresh)

    def _refresh(self) -> None:
        if not (self._is_searching or self._passages):  # otherwise another search has begun meanwhile
            self._search_now()

    def _search_now(self) -> None:
        typed = self._input.value.strip()
        self._seen, self._is_searching, self._began = self.state.bank, True, time.monotonic()
        is_exact = bool(self._only) and typed == sanitise(self._only).strip()
        text = self._only if is_exact else typed
        job = partial(search_documents, self.options.bank, text, self._limit, is_exact=is_exact)
        self.run_job("search", job, partial(self._show_matches, typed))

    def _search_contents(self) -> None:
        """Search the documents' contents; typing afterwards searches names again."""
        if not (query := self._input.value.strip()):
            self._search_now()
            return
        worker = self.dashboard.query_one(AskView).answer_worker
        self.query_one("#count", Static).update("searching…")
        self.run_job("search", partial(worker.search, query), self._show_passages)

    def _show_passages(self, hits: list[tuple[StoredDocument, Source]] | MBCError) -> None:
        self._is_searching = False
        if isinstance(hits, MBCError):
            self._show_error(error_text(hits))
            return
        self._order, self._has_more = None, False
        self._passages = {_key(document): passage for document, passage in hits}
        self._list_best([document for document, _ in hits])
        self._table.go(0)
        self._read_soon()

    def _list_best(self, documents: Sequence[StoredDocument]) -> None:
        self._list(documents, f"{pluralise(len(documents), 'document')}, best first")

    def _read_soon(self) -> None:
        self.debounce("read", _READ_DELAY, self._read_now)

    def _read_now(self) -> None:
        if (document := self._current) is not None:
            job = partial(read_document, self.options.bank, document)
            self.run_job("read", job, partial(self._show_document, document))
        else:
            self._show_read(None)
            self.query_one(Facts).show([])

    def _show_document(
        self, listed: StoredDocument, read: tuple[StoredDocument, CodeShape, Source] | MBCError | None
    ) -> None:
        if read is None or listed != self._current:
            return  # the table is about to show that it was removed
        if isinstance(read, MBCError):
            self._show_read(None)
            self.query_one(Facts).update(error_text(read))
        else:
            document, shape, passage = read
            hit = self._passages.get(_key(listed))
            self.query_one(PassagePane).show(replace(passage, sentence=hit.sentence if hit else None), is_document=True)
            self.query_one(Facts).show(_facts(document, shape))
            self._show_read((document, shape))

    def _show_read(self, read: tuple[StoredDocument, CodeShape] | None) -> None:
        self._read = read
        self.query_one(PassagePane).display = read is not None

    def _change(self, change: Callable[[], object], done: Callable[[Any], object]) -> None:
        def end(result: object) -> None:
            if isinstance(result, MBCError):
                self.notify(error_text(result).plain, severity="error", markup=False)
            else:
                done(result)

        self._changes.append(self.run_job(f"change {len(self._changes)}", change, end))

    def _end_removal(self, documents: Sequence[StoredDocument], removed: int) -> None:
        if self._passages:
            self._list_best([document for document in self._documents.values() if document not in documents])
        else:
            self._search_now()
        if not removed:
            self.notify("Already removed.", markup=False)
            return
        self._table.marked = frozenset()
        self.notify(f"Removed {_named(documents)}. Press u to undo.", markup=False)

    def _end_undo(self, counts: tuple[int, int]) -> None:
        (self._search_contents if self._passages else self._search_now)()
        restored, removed = counts
        left = f"; {removed - restored:,} had been ingested again" if restored < removed else ""
        self.notify(f"Restored {pluralise(restored, 'document')}{left}.", markup=False)

    def _show_marked(self, marked: frozenset[Hashable]) -> None:
        self.dashboard.request_redraw()
        self.query_one("#found").border_subtitle = f"{len(marked):,} marked" if marked else ""

    def _show_error(self, text: Text) -> None:
        self.query_one("#trouble", Static).update(text)
        self._show_trouble(True)
        self.query_one("#count", Static).update("")

    def _show_trouble(self, is_shown: bool) -> None:
        """Show the error instead of the documents, or these again."""
        hidden = self.query_one("#both" if is_shown else "#trouble")
        self.set_class(is_shown, "-trouble")
        if hidden.has_focus_within:
            self.take_focus()


def _named(documents: Sequence[StoredDocument]) -> str:
    return display_path(documents[0].name) if len(documents) == 1 else pluralise(len(documents), "document")


def _key(document: StoredDocument) -> Hashable:
    return (document.origin.source, document.origin.part) if document.origin.source else document.digest


def _cells(document: StoredDocument) -> tuple[str, ...]:
    size = "" if document.size is None else format_size(document.size)
    return display_path(document.name), document.origin.date or "", f"{document.chunks:,}", size


def _sort_key(document: StoredDocument, column: int) -> tuple[object, ...]:
    # Sort numeric parts, such as rows, numerically.
    origin = document.origin
    name = (origin.source or document.digest, len(origin.part), origin.part)
    return (("", origin.date or "", document.chunks, document.size or 0)[column], *name)


def _facts(document: StoredDocument, shape: CodeShape) -> list[tuple[str, object]]:
    origins, more = document.origins[:_MAX_ORIGINS], len(document.origins) - _MAX_ORIGINS
    places = (", ".join(filter(None, (display_path(origin.name), origin.date))) for origin in origins)
    texts: Any = document.texts or ()
    text_bytes = sum(len(text.payload) for text in texts)
    text = f", text {format_size(text_bytes)}" if text_bytes else ""
    original = "" if document.size is None else f"; original {format_size(document.size)}"
    codes = f"codes {format_size(shape.bytes_of(document.chunks))}"
    return [
        *(("" if number else "read from", place) for number, place in enumerate(places)),
        ("", more > 0 and f"and {pluralise(more, 'other place')}"),
        ("stored", f"{pluralise(document.chunks, 'chunk')}: {codes}{text}{original}"),
    ]
