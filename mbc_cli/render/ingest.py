"""An ingest on the terminal: progress on stderr, what became of the files on stdout."""

import time
from dataclasses import asdict
from typing import Any, Final

from rich.text import Text

from mbc_cli.render.bank import holdings, size_facts
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_facts, print_json, print_json_lines
from mbc_cli.text import counted, near, plain, seconds, size
from mbc_engine.bank import BankSizes, BankTotals
from mbc_engine.errors import DataError
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.text.formats import SUFFIXES

READABLE: Final = f"Files that can be read: {' '.join(sorted(SUFFIXES))}, most of them also as .gz and .xz."
_REASONS: Final = 5


class IngestView(ProgressView):
    """Follows an ingest by its events.

    Args:
        bank: its name.
        as_json: the result is printed as JSON, with every skipped file.
        doing, done: what happens to the files, in present and past.
        saved: what a stop leaves behind.
    """

    def __init__(
        self,
        bank: str,
        *,
        as_json: bool,
        doing: str = "Memorising",
        done: str = "Memorised",
        saved: str = "Everything counted above is saved",
    ) -> None:
        super().__init__(in_bytes=True)
        self._bank, self._as_json = bank, as_json
        self._doing, self._done, self._saved = doing, done, saved
        self._size = 0
        self._skipped: list[FileSkipped] = []
        self._skips = 0
        self._end: IngestFinished | None = None

    def show(self, event: Event) -> None:
        """Draw an event."""
        match event:
            case IngestStarted():
                self._size, self._skipped, self._skips = event.size, [], 0
                self._start(event)
                self.bar(self._doing, self._size or None)
            case FileSkipped():
                self._skips += 1
                if self._as_json or len(self._skipped) < _REASONS:
                    self._skipped.append(event)
            case DocumentsIngested():
                note = ""
                if event.chunks:
                    note = rate(event.chunks, "chunk", event.seconds)
                elif done := event.documents + event.unchanged:
                    note = rate(done, "document", event.seconds)
                self.bar(self._doing, self._size or None, completed=event.size, note=note)
            case IngestFinished():
                self._end = event

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.announce("Stopping. Documents that are encoded are being saved; Ctrl-C again ends at once.")

    def stopped(self) -> None:
        """Say what a stop leaves behind."""
        self.announce(f"Stopped. {self._saved}; run the same command again to continue.")

    @property
    def is_complete(self) -> bool:
        """Whether everything was gone through; it was stopped before otherwise."""
        return self._finished.is_complete

    def show_result(self) -> None:
        """Counts, skipped files with the reasons, and the bank's sizes if it holds anything."""
        if self._as_json:
            print_json(self._summary_json(self._finished))
        else:
            self._show_summary(self._finished)

    def require_something(self) -> None:
        """Raises DataError if not a single document could be read."""
        end = self._finished
        if not (end.documents or end.unchanged or end.removed):
            raise DataError("No readable files were found.", hint=READABLE)

    def show_skipped(self) -> None:
        """The first skipped files, and why they were."""
        for skipped in self._skipped[:_REASONS]:
            out.print(Text(f"  skipped: {near(skipped.source)} {plain(skipped.reason)}", "yellow"))
        if self._skips > _REASONS:
            out.print(Text(f"  and {self._skips - _REASONS:,} more", "yellow"))

    def _start(self, event: IngestStarted) -> None:
        if not self.is_live:  # no bar says it
            sizes = f", {size(event.size)}" if event.size else ""  # nobody knows that of a stream
            self.line(f"{self._doing} {counted(event.files, 'file')}{sizes}.")

    def _show_summary(self, end: IngestFinished) -> None:
        share = f"{end.encoding / max(end.seconds, 1e-3):.0%}"
        speed = f" ({rate(end.chunks, 'chunk', end.seconds)}, {share} of the time in the encoder)" if end.chunks else ""
        out.print(
            f"{self._done} {counted(end.documents, 'document')}, {counted(end.chunks, 'chunk')} in "
            f"{seconds(end.seconds)}{speed}."
        )
        out.print(f"{end.unchanged:,} unchanged, {end.removed:,} removed, {end.skipped:,} skipped.")
        self.show_skipped()
        if end.bank_documents:
            facts = size_facts(_sizes(end), end.bank_chunks)
            print_facts([("bank", self._bank), ("holds", holdings(_totals(end))), *facts])

    def _summary_json(self, end: IngestFinished) -> dict[str, Any]:
        counts = ("documents", "chunks", "unchanged", "removed")
        return {
            **{name: getattr(end, name) for name in counts},
            "skipped": [{"source": item.source, "reason": item.reason} for item in self._skipped],
            "seconds": end.seconds,
            "encoding": end.encoding,
            "bank": {"path": self._bank, **asdict(_totals(end)), "sizes": asdict(_sizes(end))},
        }

    @property
    def _finished(self) -> IngestFinished:
        assert self._end is not None, "the ingest's last event has not come"
        return self._end


class WatchView(IngestView):
    """Follows one ingest after another: a summary of the first, then a line for each that changed something."""

    _is_first = True

    def show(self, event: Event) -> None:
        super().show(event)
        if isinstance(event, IngestFinished):
            self.remove_bar(self._doing)
            if self._is_first or event.documents or event.removed:
                self._show_ingest(event)
            self._is_first = False

    def stopping(self) -> None:
        self.announce("Stopping.")

    def _start(self, event: IngestStarted) -> None:
        if self._is_first:
            super()._start(event)

    def _show_ingest(self, end: IngestFinished) -> None:
        if self._as_json:
            print_json_lines([self._summary_json(end)])
        elif self._is_first:
            self._show_summary(end)
        else:
            out.print(
                f"{time.strftime('%H:%M:%S')}  {counted(end.documents, 'document')} memorised "
                f"({counted(end.chunks, 'chunk')}), {end.removed:,} removed, {end.skipped:,} skipped"
            )
            self.show_skipped()
        if self._is_first:
            self.line("Watching for changes; Ctrl-C ends it.")


def rate(count: int, noun: str, duration: float) -> str:
    """`84 chunks/s`; below ten with a digit more."""
    value = count / max(duration, 1e-3)
    return f"{value:,.0f} {noun}s/s" if value >= 10 else f"{value:.1f} {noun}s/s"


def _totals(end: IngestFinished) -> BankTotals:
    return BankTotals(end.bank_documents, end.bank_origins, end.bank_chunks)


def _sizes(end: IngestFinished) -> BankSizes:
    return BankSizes(end.code_bytes, end.text_bytes, end.codebook_bytes, end.file_bytes)
