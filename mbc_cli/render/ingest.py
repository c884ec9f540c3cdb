"""An ingest on the terminal: its progress, and what it did, also as JSON."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from mbc_cli.render.bank import content_summary, size_facts
from mbc_cli.render.terminal import ProgressView, is_on, notes, out, print_facts, print_json, print_json_lines
from mbc_cli.text import display_path, format_duration, format_size, pluralise, sanitise
from mbc_engine import events
from mbc_engine.errors import DataError
from mbc_engine.events import IngestFinished
from mbc_engine.text import IGNORE_FILE

if TYPE_CHECKING:
    from mbc_engine.bank import BankSizes, BankTotals

READABLE: Final = (
    "Files that can be read: text, Markdown, HTML, PDF, Office, OpenDocument, RTF, EPUB, mail, subtitles, LaTeX, tables, "
    "JSON and source code; those of text also as .gz and .xz."
)
_REASONS = _NAMES = 5


class IngestProgress(ProgressView):
    """Shows an ingest's progress from its events or, when watching, several in succession.

    `doing` and `done` are the verbs for what happens to files; `stopping` is what to announce after Ctrl-C.
    """

    def __init__(
        self, bank: str, *, as_json: bool, watches: bool = False, doing: str = "Memorising", done: str = "Memorised"
    ) -> None:
        super().__init__(in_bytes=True)
        self._bank, self._as_json, self._watches = bank, as_json, watches
        self._doing, self._done = doing, done
        saving = "" if watches else " Saving the documents encoded so far; Ctrl-C again stops at once."
        self.stopping = f"Stopping.{saving}"
        self._size = self._files = 0
        self._skipped: list[events.FileSkipped] = []  # all for JSON or with --verbose, else the first of each reason
        self._reasons: Counter[str] = Counter()
        self._left_out: list[events.FilesLeftOut] = []
        self._lost: list[events.ContentLost] = []
        self._recoded: events.TextsRecoded | None = None
        self._problem = ""
        self._end: IngestFinished | None = None

    def show(self, event: events.Event) -> None:
        match event:
            case events.IngestStarted():
                self._begin(event)
            case events.FileSkipped():
                self._reasons[event.reason] += 1
                if self._as_json or is_on("verbose") or self._reasons[event.reason] == 1:
                    self._skipped.append(event)
            case events.FilesLeftOut():
                self._left_out.append(event)
            case events.ContentLost():
                self._lost.append(event)
            case events.DocumentsIngested():
                self._show_progress(event)
            case events.TextsRecoded():
                self._show_recoding(event)
            case IngestFinished():
                is_first, self._end = self._end is None, event
                if self._watches:
                    self._show_round(event, is_first=is_first)

    def _begin(self, event: events.IngestStarted) -> None:
        self._size, self._files, self._recoded = event.size, event.files, None
        self._skipped, self._reasons, self._left_out, self._lost = [], Counter(), [], []
        if self._end is None and not self.is_live:  # no bar shows it
            sizes = f", {format_size(event.size)}" if event.size else ""  # unknown for a stream
            self.line(f"{self._doing} {pluralise(event.files, 'file')}{sizes}.")
        self.bar(self._doing, self._size or None)

    def _show_progress(self, event: events.DocumentsIngested) -> None:
        notes = [f"{event.files:,}/{self._files:,} files"] if self._files > 1 else []
        if event.current:
            notes.append(sanitise(Path(event.current).name))
        if event.chunks:
            notes.append(_rate(event.chunks, "chunk", event.seconds))
        elif done := event.documents + event.unchanged:
            notes.append(_rate(done, "document", event.seconds))
        self.bar(self._doing, self._size or None, completed=event.size, note=" · ".join(notes))

    def _show_recoding(self, event: events.TextsRecoded) -> None:
        if event.problem:
            if event.problem != self._problem:  # a watch would repeat it after every change
                self.line(f"Texts remain compressed with zstd: {event.problem}")
            self._problem, self._recoded = event.problem, event
            self.remove_bar("Recoding texts")
            return
        # Only once a text is done is the language model known to be available. A watch reports each round anyway.
        if event.done and not self._recoded and self._end is None:
            self.line(
                f"You can ask questions now. Recoding {pluralise(event.chunks, 'text')} with the language model to save "
                "space, when nothing else needs the machine: leave it, or stop it with Ctrl-C; the next ingest continues."
            )
        self.recoding_bar(event)
        if self._watches and event.done == event.chunks:
            self.remove_bar("Recoding texts")  # the watch continues
        self._recoded = event if event.done else None

    @property
    def is_complete(self) -> bool:
        return self._finished.is_complete

    def show_result(self) -> None:
        if self._as_json:
            print_json(self._summary_json(self._finished))
        else:
            self._show_summary(self._finished)

    def require_documents(self, *, may_be_none: bool = False, text_column: str | None = None) -> None:
        """Raises DataError if not a single document could be read, unless there may be none and none was skipped."""
        end = self._finished
        if not (end.documents or end.unchanged or end.removed or (may_be_none and not self._skipped)):
            if text_column is not None:
                raise DataError(f"No rows with a text in {text_column!r} were found.", hint="Check --text-column.")
            raise DataError("No readable files were found.", hint=READABLE)

    def show_skipped(self) -> None:
        """Print every skipped file with --verbose, else the first for each reason."""
        for number, skipped in enumerate(self._skipped):
            if not is_on("verbose") and number == _REASONS:
                rest = self._reasons.total() - sum(self._reasons[item.reason] for item in self._skipped[:_REASONS])
                out.print(Text(f"  skipped: {rest:,} more; --verbose lists every file", "yellow"))
                return
            alike = 0 if is_on("verbose") else self._reasons[skipped.reason] - 1
            others = f" (and {alike:,} more)" if alike else ""
            out.print(Text(f"  skipped: {display_path(skipped.source)} {sanitise(skipped.reason)}{others}", "yellow"))

    def _show_lost(self) -> None:
        """Print what was not kept of documents: all with --verbose, else of the first."""
        shown = self._lost if is_on("verbose") else self._lost[:_NAMES]
        for lost in shown:
            what = sanitise(", ".join(lost.losses))
            out.print(Text(f"  not kept: {what} of {display_path(lost.source)}", "yellow"))
        if rest := len(self._lost) - len(shown):
            out.print(Text(f"  not kept: parts of {pluralise(rest, 'more document')}; --verbose lists them", "yellow"))

    def _show_round(self, end: IngestFinished, *, is_first: bool) -> None:
        has_changed = bool(end.documents or end.removed)
        self.remove_bar(self._doing)
        if self._as_json and (is_first or has_changed):
            print_json_lines([self._summary_json(end)])
        elif is_first:
            self._show_summary(end)
        elif has_changed and not self._as_json:
            out.print(f"{time.strftime('%H:%M:%S')}  {_changes(end)}")
            self.show_skipped()
            self._show_lost()
        if is_first:
            self.line("Watching for changes; Ctrl-C stops.")

    def _show_summary(self, end: IngestFinished) -> None:
        """One line, after what should be known of some files; --verbose adds sizes, and --quiet leaves out all."""
        if is_on("quiet"):
            return
        if end.not_english:
            counts = f"{pluralise(end.not_english, 'document')} {'does' if end.not_english == 1 else 'do'}"
            out.print(Text(f"{counts} not seem to be in English: {_listed(end.not_english_sources)}", "yellow"))
        self.show_skipped()
        self._show_lost()
        for left_out in self._left_out:
            takes = f"; --all-files takes {'it' if left_out.count == 1 else 'them'}"
            way_out = "" if left_out.reason == IGNORE_FILE else takes
            out.print(Text(f"  left out: {_listed(left_out.sources)} ({sanitise(left_out.reason)}){way_out}"))
        if end.gone:
            are, them = ("file is", "it") if end.gone == 1 else ("files are", "them")
            names = f": {_listed(end.gone_sources)}" if end.gone_sources else ""
            out.print(Text(f"{end.gone:,} ingested {are} gone{names}; --prune removes {them}", "yellow"))
        if end.removed_sources:
            out.print(Text(f"  removed: {_listed(end.removed_sources)}"))
        done = [pluralise(end.documents, "document"), pluralise(end.chunks, "chunk")]
        rest = {"unchanged": end.unchanged, "removed": end.removed, "skipped": end.skipped}
        done += [f"{count:,} {what}" for what, count in rest.items() if count]
        line = f"{self._done} {', '.join(done)} in {format_duration(end.seconds)}."
        if end.bank_documents:
            totals, sizes = _holdings(end)
            line += f" {display_path(self._bank)} holds {content_summary(totals)}, {format_size(sizes.file)}."
        out.print(line)
        if end.pruned:
            notes.print(
                "`mbc bank undo` restores what --prune removed; `mbc bank compact` deletes what is kept for that."
            )
        if is_on("verbose"):
            self._show_sizes(end)

    def _show_sizes(self, end: IngestFinished) -> None:
        share = f"{end.encoding / max(end.seconds, 1e-3):.0%} of the time in the encoder"
        recoding = None
        if (recoded := self._recoded) and recoded.done:
            recoding = f"{pluralise(recoded.done, 'text')} in {format_duration(recoded.seconds)}, "
            recoding += f"{format_size(recoded.before_bytes)} to {format_size(recoded.after_bytes)}"
        print_facts(
            ("speed", end.chunks > 0 and f"{_rate(end.chunks, 'chunk', end.seconds)}, {share}"),
            ("recoded", recoding),
            *(size_facts(_holdings(end)[1], end.bank_chunks) if end.bank_documents else ()),
        )

    def _summary_json(self, end: IngestFinished) -> dict[str, Any]:
        totals, sizes = _holdings(end)
        return {
            **{name: getattr(end, name) for name in ("documents", "chunks", "unchanged", "removed")},
            "skipped": [{"source": item.source, "reason": item.reason} for item in self._skipped],
            "left_out": [asdict(item) for item in self._left_out],
            "losses": [asdict(item) for item in self._lost],
            "gone": {"files": end.gone, "sources": end.gone_sources},
            "not_english": {"documents": end.not_english, "sources": end.not_english_sources},
            "memorised": end.memorised_sources,
            "pruned": end.removed_sources,
            "seconds": end.seconds,
            "encoding": end.encoding,
            "recoded": self._recoded,
            "bank": {"path": self._bank, **asdict(totals), "sizes": sizes},
        }

    @property
    def _finished(self) -> IngestFinished:
        assert self._end is not None, "the ingest's last event has not come"
        return self._end


def _changes(end: IngestFinished) -> str:
    """What one round of a watch did: `memorised clara.txt (1 document, 1 chunk), removed ada.txt`."""
    documents, chunks = pluralise(end.documents, "document"), pluralise(end.chunks, "chunk")
    named, gone = _listed(end.memorised_sources), _listed(end.removed_sources)
    done = [
        end.documents and f"memorised {f'{named} ({documents}, {chunks})' if named else f'{documents} ({chunks})'}",
        end.removed and f"removed {gone or pluralise(end.removed, 'document')}",
        end.skipped and f"{end.skipped:,} skipped",
    ]
    return ", ".join(str(part) for part in done if part)


def _listed(sources: Sequence[str]) -> str:
    return ", ".join(map(display_path, sources[:_NAMES])) + (", …" if len(sources) > _NAMES else "")


def _rate(count: int, noun: str, duration: float) -> str:
    """`84 chunks/s`; one decimal below ten."""
    value = count / max(duration, 1e-3)
    return f"{value:,.0f} {noun}s/s" if value >= 10 else f"{value:.1f} {noun}s/s"


def _holdings(end: IngestFinished) -> "tuple[BankTotals, BankSizes]":
    from mbc_engine.bank import BankSizes, BankTotals

    totals = BankTotals(end.bank_documents, end.bank_origins, end.bank_chunks)
    return totals, BankSizes(end.code_bytes, end.word_bytes, end.text_bytes, end.codebook_bytes, end.file_bytes)
