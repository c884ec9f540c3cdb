"""What a bank knows of files, looked up beforehand: those who read them elsewhere have no bank."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

from mbc_engine.bank import DocumentRecord, MemoryBank


@dataclass(frozen=True)
class KnownParts:
    """What a bank knows of one source.

    Attributes:
        digests: as much as the bank keeps of the content hash of each part, hexadecimal.
    """

    digests: dict[str, str] = field(default_factory=dict)

    def knows(self, document: DocumentRecord) -> bool:
        """See `MemoryBank.knows`; the document is of this source."""
        known = self.digests.get(document.part)
        return known is not None and document.digest.startswith(known)

    def parts_of(self, source: str) -> set[str]:
        """See `MemoryBank.parts_of`."""
        return set(self.digests)


@dataclass(frozen=True)
class KnownContents:
    """What a bank without sources knows.

    Attributes:
        digests: as much as it keeps of every content hash.
        width: bytes of each.
    """

    digests: frozenset[bytes]
    width: int

    def knows(self, document: DocumentRecord) -> bool:
        """See `MemoryBank.knows`."""
        return bytes.fromhex(document.digest)[: self.width] in self.digests

    def parts_of(self, source: str) -> set[str]:
        """Nothing: it is not known what was read where."""
        return set()


def known_parts(bank: MemoryBank, sources: Collection[str]) -> dict[str, KnownParts]:
    """What a bank knows of each of these sources that it has read, in one pass over its documents."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for document in bank.documents():
        for origin in document.origins:
            if origin.source in sources:
                found[origin.source][origin.part] = document.digest
    return {source: KnownParts(digests) for source, digests in found.items()}


def known_contents(bank: MemoryBank) -> KnownContents:
    """All contents of a bank without sources."""
    digests = frozenset(digest for listing in bank.listings() for digest in listing.digests)
    return KnownContents(digests, bank.header.digest_bytes)
