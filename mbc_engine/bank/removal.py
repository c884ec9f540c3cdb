"""Removals that can be undone: what is taken out of a bank is kept, codes and all, and can be put back.

Removal with proof: afterwards the bank equals one that never saw what was removed, and the file holds no trace.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mbc_engine.bank.database import bytes_at, wal_of
from mbc_engine.bank.exchange import copy, export, require_text
from mbc_engine.bank.records import ModelSignature, StoredItem
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError


@dataclass(frozen=True)
class Taken:
    """What was removed, held in memory.

    Attributes:
        signature: the model of the bank it was in.
        items: the documents with their codes and texts as `MemoryBank.stored_items` has them; origins are those
            removed, though the document may have others still.
    """

    signature: ModelSignature
    items: tuple[StoredItem, ...]


def take(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str] = ()) -> Taken:
    """Remove origins, given as source and part, and documents, given by their digests, and return them.

    Raises:
        BankError: the bank cannot be written.
    """
    sought, whole = set(names), {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    with bank.changing():
        items = []
        for document, codes, texts in bank.stored_lookup(sought, digests):
            gone = tuple(own for own in document.origins if document.digest in whole or own[:2] in sought)
            items.append((replace(document, origins=gone), codes.copy(), texts))
        bank.remove(sought)
        bank.remove_documents(digests)
    return Taken(bank.header.signature, tuple(items))


def restore(bank: MemoryBank, taken: Taken) -> int:
    """Put back what was taken, at any later time; returns how many origins, or without origins how many documents.

    What has been read again since under the name it had stays as it is now.

    Raises:
        BankError: the bank cannot be written, or has become one that keeps text, which was not taken.
        ModelMismatch: the bank belongs to another model by now.
    """
    with bank.changing():
        bank.require(taken.signature)
        require_text(bank, all(texts is not None for _, _, texts in taken.items), "What was removed")
        if bank.header.keeps_origins:
            items = _not_read_again(bank, taken)
        else:
            known = {document.digest for document, _ in bank.lookup((), [own.digest for own, *_ in taken.items])}
            items = [item for item in taken.items if item[0].digest not in known]
        copy(items, bank)
    return sum(max(1, len(document.origins)) for document, *_ in items)


def _not_read_again(bank: MemoryBank, taken: Taken) -> list[StoredItem]:
    """The documents with those origins under whose names the bank holds nothing."""
    names = {own[:2] for document, *_ in taken.items for own in document.origins}
    held = {own[:2] for document, _ in bank.lookup(names) for own in document.origins}
    left = [
        (replace(document, origins=tuple(own for own in document.origins if own[:2] not in held)), codes, texts)
        for document, codes, texts in taken.items
    ]
    return [item for item in left if item[0].origins]


# So many bytes of a row SQLite keeps together, at least; what is longer may go on in another page.
_IN_ONE_PIECE: Final = 480
_SEARCH: Final = """
import json, mmap, sys
files, documents = json.load(sys.stdin)
found = set()
for name in files:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for number, traces in enumerate(documents):
            if any(content.find(bytes.fromhex(trace)) >= 0 for trace in traces):
                found.add(number)
print(len(found))
"""


@dataclass(frozen=True)
class Proof:
    """What speaks for a removal.

    Attributes:
        removed: documents that are gone; one that was read elsewhere too stays for that.
        never_seen: SHA-256 of the export of a bank made anew from all else.
        found: SHA-256 of the export of the bank itself.
        traces: of how many of the removed documents the content hash or a stored text still stands in the file.
    """

    removed: int
    never_seen: str
    found: str
    traces: int

    @property
    def holds(self) -> bool:
        """Whether nothing is left."""
        return self.never_seen == self.found and not self.traces


def remove_with_proof(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str]) -> Proof:
    """Remove origins, given as source and part, and documents, given by their digests.

    Raises:
        BankError: the bank cannot be written.
    """
    kept: list[StoredItem] = []
    gone: list[list[bytes]] = []
    others: set[bytes] = set()
    digests = {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    for document, codes, texts in bank.stored_items():
        origins = tuple(origin for origin in document.origins if origin[:2] not in names)
        if document.digest in digests or (document.origins and not origins):
            gone.append([bytes.fromhex(document.digest), *(text[:_IN_ONE_PIECE] for text in texts or ())])
        else:
            kept.append((replace(document, origins=origins), codes, texts))
            others.update(text[:_IN_ONE_PIECE] for text in texts or ())
    header = bank.header
    with MemoryBank.in_memory(
        header.signature, header.shape, header.dim, keeps_origins=header.keeps_origins, keeps_text=header.keeps_text
    ) as anew:
        copy(reversed(kept), anew)
        never_seen = _digest(anew)
    with bank.changing():
        bank.remove(names)
        bank.remove_documents(digests)
    bank.settle()
    # A text that another document has as well stays for that.
    sought = [[trace for trace in traces if trace not in others] for traces in gone]
    traces = _traces(bank.path, sought) if bank.path else 0
    return Proof(len(gone), never_seen, _digest(bank), traces)


def _digest(bank: MemoryBank) -> str:
    digest = hashlib.sha256()
    for line in export(bank):
        digest.update(line)
    return digest.hexdigest()


def _traces(path: Path, documents: Collection[Collection[bytes]]) -> int:
    """Of how many documents something is found in the file."""
    files = [str(file) for file in (path, wal_of(path)) if bytes_at(file)]
    sought = json.dumps([files, [[trace.hex() for trace in traces] for traces in documents]])
    # Another process: see refuse_foreign for what closing the file would do to this one's.
    searched = subprocess.run(  # noqa: S603 - this Python, and a program that is written above
        [sys.executable, "-I", "-c", _SEARCH], input=sought, capture_output=True, text=True, check=False
    )
    if searched.returncode:
        raise BankError(f"{path} cannot be searched.", hint=searched.stderr.strip().rpartition("\n")[2] or None)
    return int(searched.stdout)
