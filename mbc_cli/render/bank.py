"""A bank, its documents and an ingest into it, on the terminal or as JSON."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from mbc_cli.render.progress import ProgressView
from mbc_cli.render.terminal import out, print_facts, print_json, print_json_lines, print_rows
from mbc_cli.text import counted, near, per_chunk, plain, seconds, size
from mbc_engine.errors import DataError
from mbc_engine.events import DocumentsIngested, Event, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.question import Files
from mbc_engine.text.formats import SUFFIXES

if TYPE_CHECKING:
    from mbc_engine.bank import BankHeader, BankSizes, BankTotals, CodeShape, MemoryBank, StoredDocument


def show_info(name: str, header: "BankHeader", totals: "BankTotals", sizes: "BankSizes") -> None:
    shape, floats = header.shape, header.float_bytes(totals.chunks)
    times = f"{floats / sizes.codes:,.0f}" if floats > 10 * sizes.codes else f"{floats / max(sizes.codes, 1):.2g}"
    print_facts(
        [
            ("bank", name),
            ("made", header.created),
            ("model", f"{header.signature.name} ({header.signature.fingerprint})"),
            ("holds", holdings(totals)),
            *([] if header.keeps_origins else [("sources", "not kept")]),
            *([] if header.keeps_text else [("text", "not kept")]),
            ("a chunk", f"{shape.bits_per_chunk} bits: {code_layout(shape.tokens, shape.levels, shape.num_codes)}"),
            ("vectors", f"{header.dim} wide, {codebooks(shape)}"),
            *size_facts(sizes, totals.chunks),
            *([("as float32", f"the vectors would take {size(floats)}, {times} times the codes")] if floats else []),
        ]
    )


def print_info_json(name: str, header: "BankHeader", totals: "BankTotals", sizes: "BankSizes") -> None:
    info = {
        "path": name,
        "created": header.created,
        "model": {**asdict(header.signature), "fingerprint": header.signature.fingerprint},
        "codes": {**asdict(header.shape), "dim": header.dim, "bits_per_chunk": header.shape.bits_per_chunk},
        "keeps_sources": header.keeps_origins,
        "keeps_text": header.keeps_text,
        **asdict(totals),
        "sizes": sizes,
        "float32_bytes": header.float_bytes(totals.chunks),
    }
    print_json(info)


def code_layout(tokens: int, levels: int, num_codes: int) -> str:
    """How a chunk's codes are made up: `12 tokens x 2 levels of 512 codes`."""
    return f"{tokens} tokens" + (f" x {levels} levels" if levels > 1 else "") + f" of {num_codes} codes"


def codebooks(shape: "CodeShape") -> str:
    return "one codebook for each token" if shape.per_position else "one codebook for all"


def holdings(totals: "BankTotals") -> str:
    """How much a bank holds; origins only where documents were read from several places."""
    is_plain = totals.origins in (0, totals.documents)
    origins = "" if is_plain else f" from {counted(totals.origins, 'origin')}"
    return f"{counted(totals.documents, 'document')}{origins}, {counted(totals.chunks, 'chunk')}"


def size_facts(sizes: "BankSizes", chunks: int) -> list[tuple[str, str]]:
    def each(count: int) -> str:
        return f", {per_chunk(count, chunks)}" if chunks else ""

    return [
        ("codes", f"{size(sizes.codes)}{each(sizes.codes)}"),
        *([("text", f"{size(sizes.texts)}{each(sizes.texts)}")] if sizes.texts else []),
        ("index", size(sizes.file - sizes.codes - sizes.texts)),
        ("file on disk", f"{size(sizes.file)}{each(sizes.file)}"),
        ("codebook", f"{size(sizes.codebook)}, in the model"),
    ]


def show_holdings(bank: "MemoryBank", extra: dict[str, Any] | None = None) -> None:
    """A bank after something was done to it: as JSON, with something `extra`, or for people."""
    totals, sizes = bank.totals(), bank.sizes()
    if extra is None:
        print_facts([("bank", bank.name), ("holds", holdings(totals)), *size_facts(sizes, totals.chunks)])
        return
    result = {"path": bank.name, **asdict(totals), "sizes": sizes}
    print_json({**extra, "bank": result} if extra else result)


def show_list(documents: "Iterable[StoredDocument]", *, as_json: bool) -> None:
    """A line an origin, or a line a document where the bank keeps no origins; as JSON always that."""
    if as_json:
        print_json_lines(map(_object, documents))
        return
    columns = (("chunks", ">6"), ("bytes", ">10"), ("date", "<10"), ("document", ""))
    print_rows(columns, (row for document in documents for row in _rows(document)))


def show_documents(documents: "Iterable[StoredDocument]", shape: "CodeShape", *, with_codes: bool) -> None:
    files = Files()
    for number, document in enumerate(documents):
        if number:
            out.print()
        sizes = [] if document.size is None else [("bytes", f"{document.size:,}")]
        print_facts(
            [
                *(
                    ("" if at else "read from", plain(", ".join(filter(None, (near(own.name), own.date, state)))))
                    for at, own in enumerate(document.origins)
                    for state in files.look(own, document.digest)[:1]
                ),
                ("digest", document.digest),
                *sizes,
                ("chunks", f"{document.chunks:,}, {counted(_code_bytes(document, shape), 'byte')} of codes"),
            ]
        )
        assert document.codes is not None
        for ordinal, chunk in enumerate(document.codes.tolist() if with_codes else [], 1):
            print(f"{ordinal:>6}  {' '.join('.'.join(map(str, levels)) for levels in chunk)}")


def documents_json(documents: "Iterable[StoredDocument]", shape: "CodeShape") -> None:
    """A line of JSON a document; codes are [chunks][tokens][levels]."""
    files = Files()
    print_json_lines(
        {
            **_object(document),
            "code_bytes": _code_bytes(document, shape),
            "origins": [
                {**origin._asdict(), "state": files.look(origin, document.digest)[0]} for origin in document.origins
            ],
            "codes": None if document.codes is None else document.codes.tolist(),
        }
        for document in documents
    )


def _rows(document: "StoredDocument") -> Iterator[tuple[object, ...]]:
    if not document.origins:
        yield document.chunks, "", "", document.digest
    for origin in document.origins:
        yield document.chunks, document.size, origin.date or "", near(origin.name)


def _object(document: "StoredDocument") -> dict[str, Any]:
    return {
        "digest": document.digest,
        "chunks": document.chunks,
        "size": document.size,
        "origins": [origin._asdict() for origin in document.origins],
    }


def _code_bytes(document: "StoredDocument", shape: "CodeShape") -> int:
    return -(-document.chunks * shape.bits_per_chunk // 8)


READABLE: Final = f"Files that can be read: {' '.join(sorted(SUFFIXES))}, most of them also as .gz and .xz."
_REASONS: Final = 5


class IngestProgress(ProgressView):
    """Follows an ingest by its events, or, where it watches, one after another.

    `doing` and `done` say what happens to files, `saved` what a stop leaves.
    """

    def __init__(
        self,
        bank: str,
        *,
        as_json: bool,
        watches: bool = False,
        doing: str = "Memorising",
        done: str = "Memorised",
        saved: str = "Everything counted above is saved",
    ) -> None:
        super().__init__(in_bytes=True)
        self._bank, self._as_json, self._watches = bank, as_json, watches
        self._doing, self._done, self._saved = doing, done, saved
        self._size = self._skips = 0
        self._skipped: list[FileSkipped] = []
        self._end: IngestFinished | None = None

    def show(self, event: Event) -> None:
        match event:
            case IngestStarted():
                self._size, self._skipped, self._skips = event.size, [], 0
                if self._end is None and not self.is_live:  # no bar says it
                    sizes = f", {size(event.size)}" if event.size else ""  # nobody knows that of a stream
                    self.line(f"{self._doing} {counted(event.files, 'file')}{sizes}.")
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
                is_first, self._end = self._end is None, event
                if self._watches:
                    self._show_round(event, is_first=is_first)

    def stopping(self) -> None:
        saving = "" if self._watches else " Documents that are encoded are being saved; Ctrl-C again ends at once."
        self.announce(f"Stopping.{saving}")

    def stopped(self) -> None:
        self.announce(f"Stopped. {self._saved}; run the same command again to continue.")

    @property
    def is_complete(self) -> bool:
        return self._finished.is_complete

    def show_result(self) -> None:
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
        for skipped in self._skipped[:_REASONS]:
            out.print(Text(f"  skipped: {near(skipped.source)} {plain(skipped.reason)}", "yellow"))
        if self._skips > _REASONS:
            out.print(Text(f"  and {self._skips - _REASONS:,} more", "yellow"))

    def _show_round(self, end: IngestFinished, *, is_first: bool) -> None:
        has_changed = bool(end.documents or end.removed)
        self.remove_bar(self._doing)
        if self._as_json and (is_first or has_changed):
            print_json_lines([self._summary_json(end)])
        elif is_first:
            self._show_summary(end)
        elif has_changed and not self._as_json:
            out.print(
                f"{time.strftime('%H:%M:%S')}  {counted(end.documents, 'document')} memorised "
                f"({counted(end.chunks, 'chunk')}), {end.removed:,} removed, {end.skipped:,} skipped"
            )
            self.show_skipped()
        if is_first:
            self.line("Watching for changes; Ctrl-C stops.")

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
            totals, sizes = _holdings(end)
            print_facts([("bank", self._bank), ("holds", holdings(totals)), *size_facts(sizes, totals.chunks)])

    def _summary_json(self, end: IngestFinished) -> dict[str, Any]:
        totals, sizes = _holdings(end)
        return {
            **{name: getattr(end, name) for name in ("documents", "chunks", "unchanged", "removed")},
            "skipped": [{"source": item.source, "reason": item.reason} for item in self._skipped],
            "seconds": end.seconds,
            "encoding": end.encoding,
            "bank": {"path": self._bank, **asdict(totals), "sizes": sizes},
        }

    @property
    def _finished(self) -> IngestFinished:
        assert self._end is not None, "the ingest's last event has not come"
        return self._end


def rate(count: int, noun: str, duration: float) -> str:
    """`84 chunks/s`; below ten with a digit more."""
    value = count / max(duration, 1e-3)
    return f"{value:,.0f} {noun}s/s" if value >= 10 else f"{value:.1f} {noun}s/s"


def _holdings(end: IngestFinished) -> "tuple[BankTotals, BankSizes]":
    from mbc_engine.bank import BankSizes, BankTotals

    totals = BankTotals(end.bank_documents, end.bank_origins, end.bank_chunks)
    return totals, BankSizes(end.code_bytes, end.text_bytes, end.codebook_bytes, end.file_bytes)
