"""An ingest on the terminal: progress on stderr, what became of the files on stdout."""

from functools import singledispatchmethod
from typing import Any

from rich.text import Text

from mbc_cli.render.bank import size_facts
from mbc_cli.render.consoles import out, print_facts
from mbc_cli.render.progress import ProgressView
from mbc_cli.render.text import counted, near, plain, seconds
from mbc_engine.bank import BankSizes
from mbc_engine.errors import DataError
from mbc_engine.events import Event, FilesIngested, FileSkipped, IngestFinished, IngestStarted

_REASONS = 5


class IngestView(ProgressView):
    """Follows an ingest by its events."""

    def __init__(self) -> None:
        super().__init__()
        self._files = 0
        self._skipped: list[FileSkipped] = []
        self._finished: IngestFinished | None = None

    @singledispatchmethod
    def show(self, event: Event) -> None:
        """Draw an event."""

    @show.register
    def _(self, event: IngestStarted) -> None:
        self._files = event.files
        self.bar("Memorising", event.files)
        if not self.is_live:
            self.line(f"Memorising {counted(event.files, 'file')}.")

    @show.register
    def _(self, event: FileSkipped) -> None:
        self._skipped.append(event)

    @show.register
    def _(self, event: FilesIngested) -> None:
        note = f"{event.chunks / max(event.seconds, 1e-3):.0f} chunks/s"
        self.bar("Memorising", self._files, completed=event.files + event.unchanged, note=note)

    @show.register
    def _(self, event: IngestFinished) -> None:
        self._finished = event
        if event.files + event.unchanged + event.skipped >= self._files:
            self.bar("Memorising", self._files, completed=self._files)

    def stopping(self) -> None:
        """Answer a first Ctrl-C."""
        self.line("Stopping after this batch; Ctrl-C again ends at once and loses it.")

    def stopped(self) -> None:
        """Say what a stop leaves behind."""
        self.line("Stopped. What is counted above is saved; the same command goes on from there.")

    def show_summary(self, bank: str) -> None:
        """Counts, reasons of skipped files, and the bank's sizes."""
        done = self._done
        out.print(
            f"Memorised {counted(done.files, 'file')}, {counted(done.chunks, 'chunk')} in {seconds(done.seconds)}"
            + (f" ({done.chunks / max(done.seconds, 1e-3):.0f} chunks/s)" if done.chunks else "")
            + f"; {done.unchanged:,} unchanged, {done.skipped:,} skipped."
        )
        for skipped in self._skipped[:_REASONS]:
            out.print(Text(f"  skipped: {near(skipped.source)} {plain(skipped.reason)}", "yellow"))
        if len(self._skipped) > _REASONS:
            out.print(Text(f"  and {len(self._skipped) - _REASONS:,} more", "yellow"))
        print_facts(
            [
                ("bank", bank),
                ("holds", f"{counted(done.bank_documents, 'document')}, {counted(done.bank_chunks, 'chunk')}"),
                *size_facts(BankSizes(done.code_bytes, done.codebook_bytes, done.file_bytes), done.bank_chunks),
            ]
        )

    def summary_json(self, bank: str) -> dict[str, Any]:
        """The same as JSON, with every skipped file."""
        done = self._done
        return {
            "files": done.files,
            "chunks": done.chunks,
            "unchanged": done.unchanged,
            "skipped": [{"source": item.source, "reason": item.reason} for item in self._skipped],
            "seconds": done.seconds,
            "bank": {
                "path": bank,
                "documents": done.bank_documents,
                "chunks": done.bank_chunks,
                "sizes": {"codes": done.code_bytes, "codebook": done.codebook_bytes, "file": done.file_bytes},
            },
        }

    def require_something(self) -> None:
        """Raises DataError if not a single file could be read."""
        if not self._done.files and not self._done.unchanged:
            raise DataError(
                "No file that can be read was found.", hint="Text (.txt) and Markdown (.md) files can be read."
            )

    @property
    def _done(self) -> IngestFinished:
        assert self._finished is not None, "the ingest's last event has not come"
        return self._finished
