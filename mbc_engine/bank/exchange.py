"""Moves documents in and out of banks: merge, JSON Lines export and import, replace, undoable and proven removal."""

import hashlib
import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, Final, TypeVar

import numpy as np

from mbc_engine.bank import database
from mbc_engine.bank.memory_bank import MemoryBank, deleting_if_unused, require_one_model
from mbc_engine.bank.records import (
    BankHeader,
    CodeShape,
    EncodedText,
    ModelSignature,
    Origin,
    Outline,
    StoredDocument,
    check,
    count,
)
from mbc_engine.bank.text_codec import LM, OpenTextModel, decode_found, encode_chunk
from mbc_engine.bank.upgrades import open_current
from mbc_engine.errors import BankError, DataError
from mbc_engine.events import Event, Progressed
from mbc_engine.text import Chunk
from mbc_engine.text.context import LONGEST
from mbc_engine.text.document import day_of

_T = TypeVar("_T")
# Documents of another bank, removed ones, or chunks of an export, that are stored together.
_BATCH = 10_000
# Chunks decoded together, rounded up to whole documents.
_DECODE_BATCH: Final = 16


def merge(bank: MemoryBank, other: MemoryBank) -> Iterator[Event]:
    """Add the documents of another bank; all or, on any error, none.

    The result is as if the other's documents had been ingested after the bank's own: content that both have is stored
    once, with the origins of both; where both read the same source and part, the other's content wins.

    Raises ModelMismatch if the banks are not of one model, BankError if the bank cannot be written, keeps origins or
    text that the other lacks, or both have texts coded with different language models.
    """
    require_one_model(bank, other)
    _require_kept(bank, other.name, other.header)
    with other.snapshot(), bank.changing():
        done, total = 0, other.totals().documents
        for batch in _batches(other.documents(whole=True)):
            _require_readable(batch, other)
            bank.put(batch)
            done += len(batch)
            if done < total:
                yield Progressed("copy documents", done, total)
    yield Progressed("copy documents", total, total)


def _require_readable(documents: Iterable[StoredDocument], bank: MemoryBank) -> None:
    """Raises BankError if a text of these documents of a bank is damaged, unless only a language model could decode it."""
    texts = chain.from_iterable(document.texts or () for document in documents)
    decode_found([text for text in texts if isinstance(text, EncodedText) and text.codec != LM], bank.name, None)


def _require_kept(bank: MemoryBank, giver: str, header: BankHeader) -> None:
    if bank.header.keeps_origins and not header.keeps_origins:
        raise BankError(
            f"{giver} does not record where its documents came from, but {bank.name} does.",
            hint="Put it into a bank made with --no-sources.",
        )
    if bank.header.keeps_text and not header.keeps_text:
        raise BankError(
            f"{giver} does not keep the text of its documents, but {bank.name} does.",
            hint="Put it into a bank that keeps no text, or ingest its documents again.",
        )
    if not bank.header.keeps_text and bank.header.context_tokens != header.context_tokens:
        # Without text, a chunk is found in its file by cutting this again.
        raise BankError(
            f"{giver} and {bank.name} are not cut into the same chunks, since only one of them has contexts.",
            hint="Re-encode the one without them with `mbc bank reencode`.",
        )


_DIGEST_PREFIX: Final = b'{"digest":"'
# Of a bank with contexts, and of one without.
FORMAT, PLAIN_FORMAT = "mbc-bank-export-3", "mbc-bank-export-2"
# Bytes of an export: these, and so many times those of the bank.
_EXPORTED, _EXPORTED_PER_STORED = 256 << 20, 32
# JSON reads such a pair as one character; a text that is not valid Unicode may hold it as two.
_BETWEEN_SURROGATES: Final = re.compile("(?<=[\ud800-\udbff])(?=[\udc00-\udfff])")
# Lines are partitioned by the start of their digest, and each partition is sorted; larger ones spill to disk.
_SHARES: Final = 64
_SHARE_BYTES: Final = 1 << 20


def export(
    bank: MemoryBank, open_model: OpenTextModel | None = None, on_read: Callable[[int], object] | None = None
) -> Iterator[bytes]:
    """The lines of a bank's export, with line ends, from a snapshot taken at the first.

    `open_model` is for texts coded with a language model; without it such a text is a string, its bytes in base64. All
    documents are read and decoded before the first is written; `on_read` gets the number read so far.
    """
    with bank.snapshot():
        header, totals = bank.header, bank.totals()
        yield _line(
            format=FORMAT if header.context_tokens else PLAIN_FORMAT,
            model=asdict(header.signature),
            codes=asdict(header.shape),
            dim=header.dim,
            origins=header.keeps_origins,
            texts=header.keeps_text,
            **({"context_tokens": header.context_tokens} if header.context_tokens else {}),
        )
        yield from _sorted(_every_line(bank, open_model, on_read))
        counts = b64encode(bank.counts().astype("<i8").tobytes()).decode()
        yield _line(documents=totals.documents, chunks=totals.chunks, counts=counts)


def import_lines(lines: Iterable[bytes], path: Path) -> Iterator[Event]:
    """Add an export to the bank at `path`, created if there is none: all of it or, on any error, nothing.

    Raises DataError if the lines are not an export, or are damaged or truncated; BankError if the bank cannot be
    written, or keeps origins or text that the export lacks; ModelMismatch if it belongs to another model.
    """
    numbered = enumerate(lines, 1)
    _, first = next(numbered, (1, b""))
    with _wrap_line_errors(1):
        head = _head(json.loads(first))
    with deleting_if_unused(path, may_be_empty=True), MemoryBank.open(path, create=head) as bank, bank.changing():
        if bank.header.shape != head.shape:
            raise DataError(
                "The export's codes have a different shape from the bank's.", hint="Import it into another bank."
            )
        _require_kept(bank, "The export", head)
        yield from _import_documents(bank, numbered, head)


def _import_documents(bank: MemoryBank, lines: Iterator[tuple[int, bytes]], head: BankHeader) -> Iterator[Event]:
    shape = bank.header.shape
    counts = np.zeros_like(bank.counts())
    waiting: list[StoredDocument] = []
    room = _BATCH

    def store() -> None:
        codes = [document.codes for document in waiting if document.codes is not None]
        if codes:
            counts[:] += count(np.concatenate(codes), shape)  # together, as each count takes time for every code
        bank.put(waiting)
        waiting.clear()

    for documents, (number, line) in enumerate(lines):
        with _wrap_line_errors(number):
            record = json.loads(line)
            if "counts" in record:
                store()
                if record["documents"] != documents or b64decode(record["counts"]) != counts.astype("<i8").tobytes():
                    raise ValueError("the counts do not match the documents")
                if next(lines, None) is not None:
                    raise ValueError("lines follow the counts")
                yield Progressed("copy documents", documents, documents)
                return
            document = _document(record, bank.header.digest_bytes, head)
        waiting.append(document)
        room -= document.chunks
        if room <= 0:
            store()
            room = _BATCH
            yield Progressed("copy documents", documents + 1, None)
    raise DataError("The export is incomplete.", hint="Export the bank again.")


def _head(record: Any) -> BankHeader:
    if record["format"] not in (FORMAT, PLAIN_FORMAT):
        raise ValueError("not an export")
    context_tokens = record["context_tokens"] if record["format"] == FORMAT else 0
    model, codes, dim = record["model"], record["codes"], record["dim"]
    texts = model["name"], model["amortizer"], model["codebook"]
    numbers = codes["tokens"], codes["levels"], codes["num_codes"], dim, context_tokens
    answers = codes["per_position"], record["origins"], record["texts"]
    if not (
        _are(str, texts) and _are(int, numbers) and _are(bool, answers) and 0 < dim < 1 << 63 and context_tokens >= 0
    ):
        raise TypeError("its values are not what they should be")
    "".join(texts).encode()
    shape = CodeShape(*numbers[:3], codes["per_position"])
    return BankHeader(ModelSignature(*texts), shape, dim, record["origins"], record["texts"], context_tokens)


def _document(record: Any, digest_bytes: int, head: BankHeader) -> StoredDocument:
    origins = tuple(Origin(origin["source"], origin["part"], origin["date"]) for origin in record["origins"])
    for source, part, date in origins:
        names = (source, part) if date is None else (source, part, date)
        if not _are(str, names):
            raise TypeError("an origin is not text")
        "".join(names).encode()
        if date not in (None, day_of(date)):
            raise ValueError("a date is not a day as 2024-05-31")
    if bool(origins) != head.keeps_origins:
        raise ValueError("there are origins in all documents or in none")
    size = record["size"]
    if not (type(size) is int and 0 <= size < 1 << 63 if head.keeps_origins else size is None):
        raise TypeError("a size is not a number of bytes")
    shape, chunks = head.shape, record["chunks"]
    if type(chunks) is not int or chunks < 1:
        raise ValueError("a document has at least one chunk")
    if len(bytes.fromhex(record["digest"])) < digest_bytes:
        raise ValueError("a digest is too short")
    values = np.frombuffer(b64decode(record["codes"], validate=True), "<u2")
    codes = check(values.reshape(chunks, shape.tokens, shape.levels), shape)
    texts = _texts(record, chunks) if head.keeps_text else None
    outline = _outline(record, chunks) if head.context_tokens else Outline()
    return StoredDocument(record["digest"], chunks, size, origins, codes, texts, outline=outline)


def _outline(record: Any, chunks: int) -> Outline:
    title, headings = record["title"], record["headings"]
    if not _are(str, [title, *headings]) or len(headings) not in (0, chunks):
        raise ValueError("there are not headings for each chunk")
    "".join([title, *headings]).encode()
    if max(map(len, [title, *headings])) > LONGEST:
        raise ValueError("a title or heading is too long")
    return Outline(title, tuple(headings) if any(headings) else ())


def _texts(record: Any, chunks: int) -> list[EncodedText]:
    if len(record["texts"]) != chunks:
        raise ValueError("there is not a text for each chunk")
    if any(type(start) is not int or not parts or not _are(str, parts) for start, *parts in record["texts"]):
        raise TypeError("a text is not a number and a string")
    return [encode_chunk(Chunk("".join(parts), start)) for start, *parts in record["texts"]]


def _are(kind: type, values: Iterable[Any]) -> bool:
    return all(type(value) is kind for value in values)


def _every_line(
    bank: MemoryBank, open_model: OpenTextModel | None, on_read: Callable[[int], object] | None
) -> Iterator[bytes]:
    batch: list[StoredDocument] = []
    total = bank.totals().documents
    room = _EXPORTED + _EXPORTED_PER_STORED * bank.sizes().file
    for done, document in enumerate(bank.documents(whole=True), 1):
        batch.append(document)
        if done == total or sum(document.chunks for document in batch) >= _DECODE_BATCH:
            for line in _document_lines(batch, bank, open_model):
                if (room := room - len(line)) < 0:
                    raise database.damaged(bank.name)
                yield line
            batch.clear()
            if on_read:
                on_read(done)


def _document_lines(
    documents: Sequence[StoredDocument], bank: MemoryBank, open_model: OpenTextModel | None
) -> Iterator[bytes]:
    has_contexts = bank.header.context_tokens > 0
    encoded = [text for document in documents for text in document.texts or () if isinstance(text, EncodedText)]
    decodable = [text if open_model or text.codec != LM else None for text in encoded]
    decoded = zip(encoded, decode_found(decodable, bank.name, open_model), strict=True)
    for document in documents:
        assert document.codes is not None
        texts = [
            [chunk.start, *_BETWEEN_SURROGATES.split(chunk.text)] if chunk else b64encode(text.payload).decode()
            for text, chunk in islice(decoded, document.chunks)
        ]
        yield _line(
            digest=document.digest,
            size=document.size,
            origins=[origin._asdict() for origin in document.origins],
            chunks=document.chunks,
            codes=b64encode(document.codes.astype("<u2").tobytes()).decode(),
            **({"texts": texts} if bank.header.keeps_text else {}),
            **(document.outline._asdict() if has_contexts else {}),
        )


def _line(**values: Any) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


def _sorted(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Sort the lines of documents, which begin with their digests, in little memory."""
    with ExitStack() as stack:
        shares = [stack.enter_context(SpooledTemporaryFile(_SHARE_BYTES)) for _ in range(_SHARES)]
        digest_start = len(_DIGEST_PREFIX)
        for line in lines:
            shares[int(line[digest_start : digest_start + 2], 16) * _SHARES >> 8].write(line)
        for share in shares:
            share.seek(0)
            yield from sorted(share)


@contextmanager
def _wrap_line_errors(line: int) -> Iterator[None]:
    try:
        yield
    except database.INVALID_DATA_ERRORS as error:
        raise DataError(
            f"Line {line} is not a valid line of a bank export: {error}.",
            hint="Use a file written by `mbc bank export`.",
        ) from error


def replace_content(path: Path, by: Path, *, check: Callable[[], None] | None = None) -> None:
    """Atomically replace the bank at `path` by a copy of the one at `by`; a killed process leaves the old one.

    `check` is called under the write lock, before anything changes; an exception from it aborts the replacement.
    """
    database.open_file(by, read_only=True).close()
    with closing(open_current(path, read_only=False)) as connection, database.wrap_sqlite_errors(str(path)):
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("ATTACH ? AS new", (f"{by.absolute().as_uri()}?mode=rw",))
        with database.transaction(connection, "IMMEDIATE"):
            if check:
                check()
            for table in database.TABLES:
                connection.execute(f"DELETE FROM main.{table}")  # noqa: S608 - constant table name
                connection.execute(f"INSERT INTO main.{table} SELECT * FROM new.{table}")  # noqa: S608


def remove_undoably(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str] = ()) -> int:
    """Remove origins, given as source and part, and documents, given by digest, and keep them beside the bank's file.

    Returns how many origins or, in a bank without origins, documents they are.
    """
    assert bank.path is not None, "a bank in memory has nothing beside it"
    sought, whole = set(names), {digest.hex() for digest in bank.header.shortened(digests)}
    path = database.beside(bank.path, "removed.new")

    def gone(document: StoredDocument) -> StoredDocument:
        is_whole = document.digest in whole
        return replace(document, origins=tuple(at for at in document.origins if is_whole or at[:2] in sought))

    with bank.changing():
        database.delete(path)  # left by an interrupted removal
        try:
            with MemoryBank.open(path, create=bank.header) as beside:
                with beside.changing():
                    for some_names in _batches(sorted(sought)):
                        beside.put([gone(document) for document in bank.lookup(some_names, with_texts=True)])
                    for some_digests in _batches(sorted(whole)):
                        beside.put([gone(document) for document in bank.lookup((), some_digests, with_texts=True)])
                beside.checkpoint()  # of its files, only this one takes the place of the last undo's
                totals = beside.totals()
            if totals.documents:
                bank.remove(sought, digests, is_undoable=True)
            else:
                database.delete(path)
        except BaseException:
            database.delete(path)
            raise
    bank.checkpoint()
    return totals.origins if bank.header.keeps_origins else totals.documents


def undo_removal(bank: MemoryBank) -> tuple[int, int]:
    """Put back what `remove_undoably` removed last.

    Returns how many origins or, in a bank without origins, documents are restored, and how many had been removed: those
    that have been ingested again since are left as they are. Raises BankError if nothing is kept, or the bank now keeps
    text, which the removed documents lack; ModelMismatch if it now belongs to another model.
    """
    if bank.path is None or not database.bytes_at(path := database.beside(bank.path, "removed")):
        raise BankError(
            f"No removal from {bank.name} can be undone.",
            hint="Only the last removal by `mbc bank remove`, --prune or the dashboard can be undone, once; ingest files again "
            "with `mbc ingest`.",
        )
    restored = removed = 0
    with MemoryBank.open(path, read_only=True) as beside, bank.changing():
        beside.require(beside.header.signature, bank.header.shape)
        bank.require(beside.header.signature, bank.header.shape)
        _require_kept(bank, "What was removed", beside.header)
        for documents in _batches(beside.documents(whole=True)):
            removed += _places(documents)
            if bank.header.keeps_origins:
                names = {origin[:2] for document in documents for origin in document.origins}
                present = {origin[:2] for document in bank.lookup(names) for origin in document.origins}
                left = (tuple(at for at in document.origins if at[:2] not in present) for document in documents)
                missing = [replace(document, origins=at) for document, at in zip(documents, left, strict=True) if at]
            else:
                missing = [document for document in documents if not bank.has_content(document.digest)]
            restored += _places(missing)
            bank.put(missing)
    bank.checkpoint()
    database.end_undo(bank.path)
    return restored, removed


def _batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    return iter(lambda: list(islice(remaining, _BATCH)), [])


def _places(documents: Iterable[StoredDocument]) -> int:
    return sum(max(1, len(document.origins)) for document in documents)


# A text may continue on another SQLite page, so each half is searched for; shorter ones would match by chance.
_SHORTEST_TRACE: Final = 12
_SEARCH: Final = """
import json, mmap, sys
files, documents = json.load(sys.stdin)
found, holding = set(), {}
for name in files:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number, traces in enumerate(documents):
            if any(content.find(bytes.fromhex(trace)) >= 0 for trace in traces):
                found.add(number)
                holding[name] = True
print(json.dumps([len(found), list(holding)]))
"""


@dataclass(frozen=True)
class Proof:
    """Evidence that a removal is complete.

    Attributes:
        removed: documents that are gone; one with other origins stays.
        never_seen: SHA-256 of the export of a new bank made from the remaining documents.
        found: SHA-256 of the export of the bank itself.
        traces: removed documents whose content hash or a stored text is still in the file, or in one beside it: the log,
            an unfinished re-encoding, or a copy that an upgrade kept.
        files: the names of the files in which they are.
    """

    removed: int
    never_seen: str
    found: str
    traces: int
    files: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return self.never_seen == self.found and not self.traces


def remove_with_proof(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str]) -> Proof:
    """Remove origins, given as source and part, and documents, given by digest, and what is kept of earlier ones."""
    remaining: list[StoredDocument] = []
    gone: list[list[bytes]] = []
    shared_texts: set[bytes] = set()
    digests = {digest.hex() for digest in bank.header.shortened(digests)}
    with bank.changing():  # what another process wrote in between would be taken for a failure
        for document in bank.documents(whole=True):
            origins = tuple(origin for origin in document.origins if origin[:2] not in names)
            payloads = [text.payload for text in document.texts or () if isinstance(text, EncodedText)]
            halves = [
                half for payload in payloads for half in (payload[: len(payload) // 2], payload[len(payload) // 2 :])
            ]
            texts = [half for half in halves if len(half) >= _SHORTEST_TRACE]
            if document.digest in digests or (document.origins and not origins):
                gone.append([bytes.fromhex(document.digest), *texts])
            else:
                remaining.append(replace(document, origins=origins))
                shared_texts.update(texts)
        _require_readable(remaining, bank)
        with MemoryBank.open(None, create=bank.header) as anew:
            anew.put(remaining[::-1])
            never_seen = _digest(anew)
        bank.remove(names, digests)
        found = _digest(bank)
    bank.checkpoint()
    # A text that a remaining document shares stays.
    sought = [[trace for trace in traces if trace not in shared_texts] for traces in gone]
    traces, files = _traces(bank.path, sought) if bank.path else (0, ())
    return Proof(len(gone), never_seen, found, traces, files)


def _digest(bank: MemoryBank) -> str:
    digest = hashlib.sha256()
    for line in export(bank):
        digest.update(line)
    return digest.hexdigest()


def _traces(path: Path, documents: Iterable[Iterable[bytes]]) -> tuple[int, tuple[str, ...]]:
    """How many documents have traces, and in which files."""
    files = list(map(str, database.files_of(path)))
    sought = json.dumps([files, [[trace.hex() for trace in traces] for traces in documents]])
    # In another process, as closing the file in this one would drop its locks; see `_refuse_foreign`.
    searched = subprocess.run(  # noqa: S603 - this Python, and a program that is written above
        [sys.executable, "-I", "-c", _SEARCH], input=sought, capture_output=True, text=True, check=False
    )
    if searched.returncode:
        hint = searched.stderr.strip().rpartition("\n")[2]
        raise BankError(f"{path} cannot be searched.", hint=hint or None)
    traces, holding = json.loads(searched.stdout)
    return traces, tuple(Path(file).name for file in holding)
