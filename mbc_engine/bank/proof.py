"""Removal with proof: afterwards the bank equals one that never saw what was removed, and the file holds no trace."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mbc_engine.bank.database import bytes_at, wal_of
from mbc_engine.bank.exchange import export
from mbc_engine.bank.merging import copy
from mbc_engine.bank.store import MemoryBank
from mbc_engine.errors import BankError

if TYPE_CHECKING:
    from mbc_engine.bank.format import Codes
    from mbc_engine.bank.records import StoredDocument

_SEARCH: Final = """
import json, mmap, sys
files, digests = json.load(sys.stdin)
found = set()
for name in files:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found.update(digest for digest in digests if content.find(bytes.fromhex(digest)) >= 0)
print(len(found))
"""


@dataclass(frozen=True)
class Proof:
    """What speaks for a removal.

    Attributes:
        removed: documents that are gone; one that was read elsewhere too stays for that.
        never_seen: SHA-256 of the export of a bank made anew from all else.
        found: SHA-256 of the export of the bank itself.
        traces: how many of the removed documents' content hashes still stand anywhere in the file.
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
    kept: list[tuple[StoredDocument, Codes]] = []
    gone: list[StoredDocument] = []
    digests = {digest[: 2 * bank.header.digest_bytes] for digest in digests}
    for document, codes in bank.items():
        origins = tuple(origin for origin in document.origins if origin[:2] not in names)
        if document.digest in digests or (document.origins and not origins):
            gone.append(document)
        else:
            kept.append((replace(document, origins=origins), codes))
    header = bank.header
    with MemoryBank.in_memory(header.signature, header.shape, bank.books(), keeps_origins=header.keeps_origins) as anew:
        copy(reversed(kept), anew)
        never_seen = _digest(anew)
    with bank.changing():
        bank.remove(names)
        bank.remove_documents(digests)
    bank.settle()
    traces = _traces(bank.path, [bytes.fromhex(document.digest) for document in gone]) if bank.path else 0
    return Proof(len(gone), never_seen, _digest(bank), traces)


def _digest(bank: MemoryBank) -> str:
    digest = hashlib.sha256()
    for line in export(bank):
        digest.update(line)
    return digest.hexdigest()


def _traces(path: Path, digests: Collection[bytes]) -> int:
    files = [str(file) for file in (path, wal_of(path)) if bytes_at(file)]
    sought = json.dumps([files, [digest.hex() for digest in digests]])
    # Another process: see refuse_foreign for what closing the file would do to this one's.
    searched = subprocess.run(  # noqa: S603 - this Python, and a program that is written above
        [sys.executable, "-I", "-c", _SEARCH], input=sought, capture_output=True, text=True, check=False
    )
    if searched.returncode:
        raise BankError(f"{path} cannot be searched.", hint=searched.stderr.strip().rpartition("\n")[2] or None)
    return int(searched.stdout)
