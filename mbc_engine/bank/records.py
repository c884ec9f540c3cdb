"""What a bank tells about itself and its documents."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.codes import Codes, CodeShape


@dataclass(frozen=True)
class ModelSignature:
    """Which model wrote a bank: fingerprints of amortizer and codebook, hexadecimal. The name is for people only."""

    name: str = field(compare=False)
    amortizer: str
    codebook: str

    @property
    def fingerprint(self) -> str:
        """Both fingerprints, short enough for a message."""
        return f"{self.amortizer[:8]}-{self.codebook[:8]}"


def fingerprint(codebook: NDArray[np.floating[Any]]) -> str:
    """16 hexadecimal digits of the SHA-256 of `books` and a codebook's values as float32."""
    digest = hashlib.sha256(b"books")
    digest.update(np.ascontiguousarray(codebook, "<f4").data)
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class BankHeader:
    """What a bank says about itself.

    Attributes:
        signature: the model whose codes it holds.
        shape: the shape of the codes.
        dim: the width of a codebook vector (D in the paper).
        keeps_origins: whether documents are known by where they were read; otherwise by a short content hash alone.
        keeps_text: whether the exact text of every chunk is kept beside its codes.
        created: when it was made, ISO 8601, UTC.
    """

    signature: ModelSignature
    shape: CodeShape
    dim: int
    keeps_origins: bool
    keeps_text: bool
    created: str

    @property
    def digest_bytes(self) -> int:
        """Bytes of a content hash that the bank keeps. With 6, one in 560 banks of a million documents confuses two."""
        return 16 if self.keeps_origins else 6

    def shortened(self, digests: Iterable[str]) -> list[bytes]:
        """As much of content hashes, hexadecimal, as the bank keeps.

        Raises:
            ValueError: one of them is shorter.
        """
        width = self.digest_bytes
        kept = [bytes.fromhex(digest)[:width] for digest in digests]
        if any(len(digest) < width for digest in kept):
            raise ValueError(f"a digest has at least {width} bytes")
        return kept

    def float_bytes(self, chunks: int) -> int:
        """What so many chunks would take as the float32 vectors [T, D] that their codes stand for."""
        return 4 * self.shape.tokens * self.dim * chunks

    @property
    def codebook_bytes(self) -> int:
        """What the codebook takes as float32. It is in the model, not in the bank."""
        shape = self.shape
        return 4 * shape.levels * shape.positions * shape.num_codes * self.dim

    @property
    def block_chunks(self) -> int:
        """A block with this many chunks is full. Large ones waste less of a database page, small ones change faster."""
        return 8192 if self.keeps_origins else 32_768


class DocumentRecord(Protocol):
    """What a bank needs to know of a document beside its codes; see `documents.Document`."""

    @property
    def source(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def date(self) -> str | None: ...


@dataclass(frozen=True)
class Record:
    """A `DocumentRecord` of documents that come from elsewhere than files, such as another bank."""

    source: str
    part: str
    digest: str
    size: int
    date: str | None


def origin_name(source: str, part: str) -> str:
    """A source, or a part of it, as people write it."""
    return f"{source}#{part}" if part else source


class Origin(NamedTuple):
    """Where a document was read: a source, the part of it ("" is all of it), and the date it bears there."""

    source: str
    part: str
    date: str | None

    @property
    def name(self) -> str:
        """Source and part as people write them."""
        return origin_name(self.source, self.part)


@dataclass(frozen=True)
class StoredDocument:
    """A content as the bank knows it.

    Attributes:
        digest: the content hash, as many bytes of it as the bank keeps, hexadecimal.
        chunks: how many chunks it has.
        size: bytes it was read from; None in a bank without origins.
        origins: everywhere it was read, in sorted order; empty in a bank without origins.
    """

    digest: str
    chunks: int
    size: int | None
    origins: tuple[Origin, ...]


# A document, its codes, and its texts as they are stored, None where the bank keeps none.
StoredItem = tuple[StoredDocument, Codes, list[bytes] | None]


@dataclass(frozen=True)
class StoredChunk:
    """The `ordinal`-th chunk (from 0) of a document in a bank of this name."""

    document: StoredDocument
    ordinal: int
    bank: str


@dataclass(frozen=True)
class BankTotals:
    """How much a bank holds. Documents are distinct contents; one read in two places has two origins."""

    documents: int
    origins: int
    chunks: int


@dataclass(frozen=True)
class BankSizes:
    """Bytes: the packed codes; the compressed texts; the codebook, which is in the model; the file.

    The file includes the log of changes beside it (`-wal`) that are not merged into it yet.
    """

    codes: int
    texts: int
    codebook: int
    file: int
