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
from mbc_engine.bank.exchange import export, require_text
from mbc_engine.bank.records import ModelSignature, StoredDocument
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError


@dataclass(frozen=True)
class Taken:
    """What was removed, held in memory.

    Attributes:
        signature: the model of the bank it was in.
        documents: with their codes and texts; origins are those removed, though the document may have others still.
    """

    signature: ModelSignature
    documents: tuple[StoredDocument, ...]


def take(bank: MemoryBank, names: Collection[tuple[str, str]], digests: Collection[str] = ()) -> Taken:
    """Remove origins, given as source and part, and documents, given by their digests, and return them.

    Raises BankError if the bank cannot be written.
    """
    sought, whole = set(names), {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    with bank.changing():
        documents = []
        for document in bank.lookup(sought, digests, with_texts=True):
            gone = tuple(own for own in document.origins if document.digest in whole or own[:2] in sought)
            assert document.codes is not None
            documents.append(replace(document, origins=gone, codes=document.codes.copy()))
        bank.remove(sought, digests)
    return Taken(bank.header.signature, tuple(documents))


def restore(bank: MemoryBank, taken: Taken) -> int:
    """Put back what was taken, at any later time; returns how many origins, or without origins how many documents.

    What has been read again since under the name it had stays as it is now.

    Raises:
        BankError: the bank cannot be written, or has become one that keeps text, which was not taken.
        ModelMismatch: the bank belongs to another model by now.
    """
    with bank.changing():
        bank.require(taken.signature)
        require_text(bank, all(own.texts is not None for own in taken.documents), "What was removed")
        if bank.header.keeps_origins:
            documents = _not_read_again(bank, taken)
        else:
            known = {document.digest for document in bank.lookup((), [own.digest for own in taken.documents])}
            documents = [own for own in taken.documents if own.digest not in known]
        bank.put(documents)
    return sum(max(1, len(document.origins)) for document in documents)


def _not_read_again(bank: MemoryBank, taken: Taken) -> list[StoredDocument]:
    """The documents with those origins under whose names the bank holds nothing."""
    names = {own[:2] for document in taken.documents for own in document.origins}
    held = {own[:2] for document in bank.lookup(names) for own in document.origins}
    left = [
        replace(document, origins=tuple(own for own in document.origins if own[:2] not in held))
        for document in taken.documents
    ]
    return [document for document in left if document.origins]


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

    Raises BankError if the bank cannot be written.
    """
    kept: list[StoredDocument] = []
    gone: list[list[bytes]] = []
    others: set[bytes] = set()
    digests = {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    for document in bank.documents(whole=True):
        origins = tuple(origin for origin in document.origins if origin[:2] not in names)
        texts = [text[:_IN_ONE_PIECE] for text in document.texts or () if isinstance(text, bytes)]
        if document.digest in digests or (document.origins and not origins):
            gone.append([bytes.fromhex(document.digest), *texts])
        else:
            kept.append(replace(document, origins=origins))
            others.update(texts)
    header = bank.header
    with MemoryBank.create(
        None,
        header.signature,
        header.shape,
        header.dim,
        keeps_origins=header.keeps_origins,
        keeps_text=header.keeps_text,
    ) as anew:
        anew.put(kept[::-1])
        never_seen = _digest(anew)
    bank.remove(names, digests)
    bank.checkpoint()
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
