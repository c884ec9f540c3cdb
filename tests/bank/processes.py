"""Processes to be killed, run by path: `python processes.py COMMAND BANK ...`. They load nothing but mbc_engine.bank.

`write` goes through the same history every time and prints each step once it is committed; `watch` reads the bank
meanwhile and fails as soon as anything is inconsistent.
"""

import hashlib
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mbc_engine.bank import BankHeader, CodeShape, MemoryBank, ModelSignature, StoredDocument, count
from mbc_engine.bank.exchange import export, replace_content
from mbc_engine.errors import BankError
from mbc_engine.text import Chunk, Document

SIGNATURE = ModelSignature("mini", "aa" * 8, "bb" * 8)
SHAPE = CodeShape(tokens=12, levels=1, num_codes=512, per_position=False)
DIM = 4
STEPS = 60


def item(source: int, content: int) -> StoredDocument:
    codes = np.random.default_rng(content).integers(0, 512, (1 + content % 4, 12, 1))
    digest = hashlib.sha256(b"%d" % content).hexdigest()
    chunks = [Chunk(f"Chunk {number} of document {content}, " * (content % 9), number) for number in range(len(codes))]
    return StoredDocument.of(Document(f"/folder/{source}", "", "", digest, content), codes, chunks)


def step(number: int) -> tuple[str, list[StoredDocument]]:
    """One step: documents are added, changed, read twice or removed; now and then the bank is compacted."""
    items = [item(which % 340, which % 900) for which in range(40 * number, 40 * number + 40)]
    return ("remove", items[:25]) if number % 5 == 3 else ("compact", []) if number % 10 == 9 else ("add", items)


def state_after(steps: int, before: dict[str, str]) -> dict[str, str]:
    """Source and digest of every document in a bank after some steps."""
    state = dict(before)
    for number in range(steps):
        kind, items = step(number)
        for document in items:
            if kind == "add":
                state[document.origin.source] = document.digest[:32]
            else:
                state.pop(document.origin.source, None)
    return state


def open_bank(path: Path) -> MemoryBank:
    return MemoryBank.open(path, create=BankHeader(SIGNATURE, SHAPE, DIM, keeps_text=True))


def say(*words: object) -> None:
    print(*words, flush=True)


def write(path: Path) -> None:
    with open_bank(path) as bank:
        for number in range(STEPS):
            kind, items = step(number)
            if kind == "add":
                bank.put(items)
            elif kind == "remove":
                bank.remove([document.origin[:2] for document in items])
            else:
                bank.compact()
            say(number + 1)


def state_of(bank: MemoryBank) -> dict[str, str]:
    """Source and digest of every document in a bank, after checking that it is consistent."""
    with bank.snapshot():
        totals, counts = bank.totals(), bank.counts()
        codes = np.concatenate([np.zeros((0, 12, 1), np.uint16), *[codes for codes, _ in bank.blocks()]])
        documents = list(bank.documents(whole=True))
        chunks = bank.chunks_at(range(totals.chunks))
        texts = bank.texts_at(range(totals.chunks))
    assert np.array_equal(counts, count(codes, bank.header.shape)), "counts are not those of the codes"
    assert (len(documents), len(codes)) == (totals.documents, totals.chunks), "totals do not fit"
    assert [chunk.document for chunk in chunks if chunk.ordinal == 0] == documents
    for document in documents:
        assert np.array_equal(document.codes, item(0, document.size or 0).codes), "codes of another document"
    expected = [chunk for document in documents for chunk in item(0, document.size or 0).texts]
    assert texts == expected, "texts of other documents"
    return {origin.source: document.digest for document in documents for origin in document.origins}


def watch(path: Path) -> None:
    """Checks snapshots of a bank, both held open and freshly opened, until SIGTERM."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    with MemoryBank.open(path, read_only=True) as bank:
        seen = 0
        say("watching")
        while not ended:
            state_of(bank)
            with MemoryBank.open(path, read_only=True) as reopened:
                state_of(reopened)
            seen += 2
    say(seen)


def compact(path: Path) -> None:
    """Empties half of a large bank, then compacts it."""
    with open_bank(path) as bank:
        bank.put([item(number, number) for number in range(3000)])
        bank.remove([(f"/folder/{number}", "") for number in range(3000) if number % 3])
        say("compacting")
        bank.compact()
        say("compacted")


def replace(path: Path, by: Path) -> None:
    say("replacing")
    replace_content(path, by)
    say("replaced")


def large(path: Path, documents: str) -> None:
    with open_bank(path) as bank:
        bank.put([item(number, number) for number in range(int(documents))])


def fill(path: Path, limit: str) -> None:
    """Adds documents until the disk is full or a file reaches `limit` bytes, if that is not 0."""
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        with open_bank(path) as bank:
            for number in range(100_000):
                bank.put([item(which, which) for which in range(40 * number, 40 * number + 40)])
                say(number + 1)
    except BankError as error:
        say(f"{error.message}|{error.hint}")


def lines(path: Path) -> bytes:
    with MemoryBank.open(path, read_only=True) as bank:
        return b"".join(export(bank))


COMMANDS: dict[str, Callable[..., None]] = {
    function.__name__: function for function in (write, watch, compact, replace, large, fill)
}

if __name__ == "__main__":
    BankHeader.block_chunks = property(lambda header: 200)  # type: ignore[assignment, method-assign]
    command, bank_path, *rest = sys.argv[1:]
    COMMANDS[command](Path(bank_path), *map(Path if command == "replace" else str, rest))
