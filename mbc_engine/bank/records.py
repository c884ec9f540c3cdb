"""What a bank says about itself and its documents."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mbc_engine.bank.codes import CodeShape
from mbc_engine.text import Chunk, Document


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
        """As much of content hashes, hexadecimal, as the bank keeps. Raises ValueError if one of them is shorter."""
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


class Origin(NamedTuple):
    """Where a document was read: a source, the part of it ("" is all of it), and the date it bears there."""

    source: str
    part: str
    date: str | None

    @property
    def name(self) -> str:
        """Source and part as people write them."""
        return origin_name(self.source, self.part)


def origin_name(source: str, part: str) -> str:
    """A source, or a part of it, as people write it."""
    return f"{source}#{part}" if part else source


@dataclass(frozen=True)
class StoredDocument:
    """A content as a bank knows it, or as it is to be stored.

    Attributes:
        digest: the content hash, hexadecimal; of a stored one, as many bytes as the bank keeps.
        chunks: how many chunks it has.
        size: bytes it was read from; None in a bank without origins.
        origins: everywhere it was read, in sorted order; empty in a bank without origins.
        codes: [chunks, tokens, levels], where they were asked for or are to be stored.
        texts: the texts of the chunks likewise: as bytes as `decode_chunk` reads them, or still to be encoded.
    """

    digest: str
    chunks: int
    size: int | None
    origins: tuple[Origin, ...]
    codes: NDArray[np.integer[Any]] | None = field(default=None, compare=False, repr=False)
    texts: Sequence[bytes] | Sequence[Chunk] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        document: Document,
        codes: NDArray[np.integer[Any]] | None = None,
        texts: Sequence[bytes] | Sequence[Chunk] | None = None,
    ) -> Self:
        """A document that was read, with the codes and texts of its chunks."""
        origin = Origin(document.source, document.part, document.date)
        return cls(document.digest, 0 if codes is None else len(codes), document.size, (origin,), codes, texts)

    @property
    def origin(self) -> Origin:
        """Where it was read first; of a document without origins, one without names."""
        return self.origins[0] if self.origins else Origin("", "", None)


class StoredChunk(NamedTuple):
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
