"""Documents on their way from one bank or export to another."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import singledispatchmethod
from pathlib import Path
from typing import Any

from mbc_cli.render.bank.facts import holdings
from mbc_cli.render.consoles import print_facts
from mbc_cli.render.progress import ProgressView
from mbc_cli.text import counted, near, size
from mbc_engine.bank import BankTotals
from mbc_engine.events import DocumentsCopied, Event

_EVERY = 1000


class MergeView(ProgressView):
    """Follows merges by their events, all in one bar.

    Args:
        total: documents of all banks together.
    """

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._before = self._done = 0

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: DocumentsCopied) -> None:
        self._done = self._before + event.done
        self.bar("Merging", self._total, completed=self._done)

    def next_bank(self) -> None:
        """From here on, events are of another bank."""
        self._before = self._done


class ImportView(ProgressView):
    """Follows an import by its events: documents, and how far the file was read.

    Args:
        total: bytes of the file, None if unknown.
        position: tells how many of them were read.
    """

    def __init__(self, total: int | None, position: Callable[[], int]) -> None:
        super().__init__(in_bytes=True)
        self._total, self._position = total, position
        self.documents = 0

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: DocumentsCopied) -> None:
        self.documents = event.done
        self.bar("Importing", self._total, completed=self._position(), note=counted(event.done, "document"))


class ExportView(ProgressView):
    """Follows an export by its lines.

    Args:
        totals: what there is to export.
        is_shown: False where the lines share the terminal with the bar.
    """

    def __init__(self, totals: BankTotals, *, is_shown: bool) -> None:
        super().__init__(is_shown=is_shown)
        self._totals = totals
        self._digest = hashlib.sha256()

    def followed(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The same lines, counted and hashed."""
        for number, line in enumerate(lines):
            self._digest.update(line)
            yield line
            if number % _EVERY == 0:
                self.bar("Exporting", self._totals.documents, completed=min(number, self._totals.documents))
        self.bar("Exporting", self._totals.documents, completed=self._totals.documents)

    def show_summary(self, file: Path) -> None:
        """What was exported where, and the hash that tells whether another export is the same."""
        print_facts(
            [
                ("export", f"{near(file)}, {size(file.stat().st_size)}"),
                ("holds", holdings(self._totals)),
                ("SHA-256", f"{self._digest.hexdigest()} (before compression)"),
            ]
        )

    def summary_json(self, file: Path) -> dict[str, Any]:
        """The same as JSON."""
        return {
            "path": str(file),
            "size": file.stat().st_size,
            "documents": self._totals.documents,
            "chunks": self._totals.chunks,
            "sha256": self._digest.hexdigest(),
        }
