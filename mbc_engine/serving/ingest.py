"""Reading files into a bank (paper, algorithm 2, lines 2 to 5): forward passes only, committed batch by batch."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mbc_engine.bank import MemoryBank
from mbc_engine.documents import Document, Skipped, chunk, find_files, read_files
from mbc_engine.events import Event, FilesIngested, FileSkipped, IngestFinished, IngestStarted
from mbc_engine.model.checkpoint import signature
from mbc_engine.model.mbc import MBC


def ingest(
    model: MBC,
    bank: MemoryBank,
    paths: Sequence[Path],
    *,
    batch_chunks: int = 256,
    stop: threading.Event | None = None,
) -> Iterator[Event]:
    """Memorise files and folders. Files the bank holds unchanged are passed over, changed ones replace their codes.

    Args:
        model: the bank's own model.
        bank: where the codes go; each batch is one transaction.
        paths: files and folders.
        batch_chunks: a commit follows when this many chunks wait; documents are not divided between commits.
        stop: set it to end after the file in progress; what has been read is committed.

    Raises:
        DataError: a path does not exist.
        BankError: the bank cannot be written.
        ModelMismatch: another model wrote the bank.
    """
    bank.require(signature(model))
    began = time.monotonic()
    found = find_files(paths)
    yield IngestStarted(len(found.files))
    for skipped in found.skipped:
        yield FileSkipped(skipped.source, skipped.reason)
    files = chunks = unchanged = unreadable = 0
    waiting: list[tuple[Document, list[str]]] = []
    for number, item in enumerate(read_files(found.files), 1):
        if isinstance(item, Skipped):
            unreadable += 1
            yield FileSkipped(item.source, item.reason)
        elif bank.digest_of(item.source) == item.digest:
            unchanged += 1
        else:
            waiting.append((item, chunk(item.text, model.documents.token_counts, model.documents.capacity)))
        is_stopping = stop is not None and stop.is_set()
        is_full = sum(len(pieces) for _, pieces in waiting) >= batch_chunks
        if is_full or is_stopping or number == len(found.files):
            chunks += _memorise(model, bank, waiting)
            files += len(waiting)
            waiting = []
        if not waiting:
            yield FilesIngested(files, chunks, unchanged, round(time.monotonic() - began, 3))
        if is_stopping:
            break
    sizes = bank.sizes()
    yield IngestFinished(
        files=files,
        chunks=chunks,
        unchanged=unchanged,
        skipped=len(found.skipped) + unreadable,
        seconds=round(time.monotonic() - began, 3),
        bank_documents=bank.num_documents,
        bank_chunks=bank.num_chunks,
        code_bytes=sizes.codes,
        codebook_bytes=sizes.codebook,
        file_bytes=sizes.file,
    )


def _memorise(model: MBC, bank: MemoryBank, waiting: Sequence[tuple[Document, list[str]]]) -> int:
    """Encode the chunks of all waiting documents together and store them. Returns how many chunks there were."""
    codes = model.memorise([piece for _, pieces in waiting for piece in pieces])
    items, start = [], 0
    for document, pieces in waiting:
        items.append((document, codes[start : start + len(pieces)]))
        start += len(pieces)
    bank.add(items)
    return start
