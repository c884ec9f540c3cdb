"""A table of documents, ordered by a column if wanted."""

from collections.abc import Hashable
from dataclasses import replace
from typing import Final

from textual import on

from mbc_cli.text import near, size
from mbc_cli.tui.jobs.documents import Found
from mbc_cli.tui.widgets.rows import Column, Row, Rows
from mbc_engine.bank import FoundDocument

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
