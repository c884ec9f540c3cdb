"""An ingest on the terminal: progress on stderr, what became of the files on stdout."""

import time
from dataclasses import asdict
from functools import singledispatchmethod
from typing import Any, Final

from rich.text import Text

from mbc_cli.render.bank import holdings, size_facts
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_facts, print_json_lines
from mbc_cli.text import counted, near, plain, seconds, size
from mbc_engine.bank import BankSizes, BankTotals
from mbc_engine.errors import DataError
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.text.formats import SUFFIXES

_REASONS: Final = 5


class IngestView(ProgressView):
    """Follows an ingest by its events.

    Args:
        keeps_reasons: every skipped file is wanted in the end, not only the first few.
    """

    doing, done = "Memorising", "Memorised"

    def __init__(self, *, keeps_reasons: bool = False) -> None:
        super().__init__(in_bytes=True)
        self._keeps_reasons = keeps_reasons
        self._size = 0
        self._skipped: list[FileSkipped] = []
        self._skips = 0
        self._finished: IngestFinished | None = None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: IngestStarted) -> None:
        self._size, self._skipped, self._skips = event.size, [], 0
        self.started(event)
        self.bar(self.doing, self._size or None)

    @show.register
    def _(self, event: FileSkipped) -> None:
        self._skips += 1
        if self._keeps_reasons or len(self._skipped) < _REASONS:
            self._skipped.append(event)

    @show.register
    def _(self, event: DocumentsIngested) -> None:
        note = ""
        if event.chunks:
            note = rate(event.chunks, "chunk", event.seconds)
        elif done := event.documents + event.unchanged:
            note = rate(done, "document", event.seconds)
        self.bar(self.doing, self._size or None, completed=event.size, note=note)

    @show.register
    def _(self, event: IngestFinished) -> None:
        self._finished = event

    def started(self, event: IngestStarted) -> None:
        """Say what there is to do where no bar says it."""
        if not self.is_live:
            sizes = f", {size(event.size)}" if event.size else ""  # nobody knows that of a stream
            self.line(f"{self.doing} {counted(event.files, 'file')}{sizes}.")

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.tell("Stopping. Documents that are encoded are being saved; Ctrl-C again ends at once.")

    def stopped(self) -> None:
        """Say what a stop leaves behind."""
        self.tell("Stopped. Everything counted above is saved; run the same command again to continue.")

    @property
    def is_complete(self) -> bool:
        """Whether everything was gone through; it was stopped before otherwise."""
        return self._end.is_complete

    def show_summary(self, bank: str) -> None:
        """Counts, reasons of skipped files, and the bank's sizes if it holds anything."""
        end = self._end
        speed = f" ({rate(end.chunks, 'chunk', end.seconds)}, {_encoding(end)} in the encoder)" if end.chunks else ""
        out.print(
            f"{self.done} {counted(end.documents, 'document')}, {counted(end.chunks, 'chunk')} in "
            f"{seconds(end.seconds)}{speed}."
        )
        out.print(f"{end.unchanged:,} unchanged, {end.removed:,} removed, {end.skipped:,} skipped.")
        self.show_skipped()
        if end.bank_documents:
            print_facts([("bank", bank), ("holds", holdings(_totals(end))), *size_facts(_sizes(end), end.bank_chunks)])

    def show_skipped(self) -> None:
        """The first skipped files, and why they were."""
        for skipped in self._skipped[:_REASONS]:
            out.print(Text(f"  skipped: {near(skipped.source)} {plain(skipped.reason)}", "yellow"))
        if self._skips > _REASONS:
            out.print(Text(f"  and {self._skips - _REASONS:,} more", "yellow"))

    def summary_json(self, bank: str) -> dict[str, Any]:
        """The same as JSON, with every skipped file; times in seconds, sizes in bytes."""
        end = self._end
        return {
            "documents": end.documents,
            "chunks": end.chunks,
            "unchanged": end.unchanged,
            "removed": end.removed,
            "skipped": [{"source": item.source, "reason": item.reason} for item in self._skipped],
            "seconds": end.seconds,
            "encoding": end.encoding,
            "bank": {
                "path": bank,
                **asdict(_totals(end)),
                "sizes": asdict(_sizes(end)),
            },
        }

    def require_something(self) -> None:
        """Raises DataError if not a single document could be read."""
        end = self._end
        if not (end.documents or end.unchanged or end.removed):
            raise DataError(
                "No readable files were found.",
                hint=f"Files that can be read: {' '.join(sorted(SUFFIXES))}, most of them also as .gz and .xz.",
            )

    @property
    def _end(self) -> IngestFinished:
        assert self._finished is not None, "the ingest's last event has not come"
        return self._finished


class ReencodeView(IngestView):
    """Follows a bank on its way to another model."""

    doing, done = "Memorising anew", "Memorised anew"

    def stopped(self) -> None:
        """Say what a stop leaves behind."""
        self.tell("Stopped. The bank is unchanged; run the same command again to continue.")


class WatchView(IngestView):
    """Follows one ingest after another: a summary of the first, then a line for each that changed something.

    Args:
        bank: the bank's name.
        as_json: each is told as a line of JSON.
    """

    def __init__(self, bank: str, *, as_json: bool) -> None:
        super().__init__(keeps_reasons=as_json)
        self._bank, self._as_json, self._is_first = bank, as_json, True

    def show(self, event: Event) -> None:
        """Draw an event."""
        super().show(event)
        if isinstance(event, IngestFinished):
            self.remove_bar(self.doing)
            self._tell(event)
            self._is_first = False

    def started(self, event: IngestStarted) -> None:
        """Only the first is worth it."""
        if self._is_first:
            super().started(event)

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.tell("Stopping.")

    def _tell(self, event: IngestFinished) -> None:
        if not (self._is_first or event.documents or event.removed):
            return
        if self._as_json:
            print_json_lines([self.summary_json(self._bank)])
        elif self._is_first:
            self.show_summary(self._bank)
        else:
            out.print(
                f"{time.strftime('%H:%M:%S')}  {counted(event.documents, 'document')} memorised "
                f"({counted(event.chunks, 'chunk')}), {event.removed:,} removed, {event.skipped:,} skipped"
            )
            self.show_skipped()
        if self._is_first:
            self.line("Watching for changes; Ctrl-C ends it.")


def rate(count: int, noun: str, duration: float) -> str:
    """`84 chunks/s`; below ten with a digit more."""
    value = count / max(duration, 1e-3)
    return f"{value:,.0f} {noun}s/s" if value >= 10 else f"{value:.1f} {noun}s/s"


def _encoding(end: IngestFinished) -> str:
    return f"{end.encoding / max(end.seconds, 1e-3):.0%} of the time"


def _totals(end: IngestFinished) -> BankTotals:
    return BankTotals(end.bank_documents, end.bank_origins, end.bank_chunks)


def _sizes(end: IngestFinished) -> BankSizes:
    return BankSizes(end.code_bytes, end.text_bytes, end.codebook_bytes, end.file_bytes)
