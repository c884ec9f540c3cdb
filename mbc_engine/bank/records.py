"""What a bank tells about itself and its documents."""

from dataclasses import dataclass, field
from typing import Protocol

from mbc_engine.bank.format import CodeShape


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


@dataclass(frozen=True)
class BankHeader:
    """What a bank says about itself: its model, its codes, the width of their vectors, and when it was made (UTC)."""

    signature: ModelSignature
    shape: CodeShape
    dim: int
    created: str


class DocumentRecord(Protocol):
    """What a bank keeps of a document beside its codes; see `documents.Document`."""

    @property
    def source(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def date(self) -> str | None: ...


@dataclass(frozen=True)
class StoredDocument:
    """A document as the bank knows it; `size` in bytes, as it was read."""

    source: str
    digest: str
    size: int
    date: str | None
    chunks: int


@dataclass(frozen=True)
class ChunkSource:
    """Where a chunk came from: the `ordinal`-th (from 0) of the document read from `source`."""

    source: str
    digest: str
    ordinal: int
    date: str | None


@dataclass(frozen=True)
class BankSizes:
    """Bytes: the packed codes; the codebook they need as float32, levels · positions · num_codes · dim · 4; the file.

    The file includes the log of changes beside it (`-wal`) that are not merged into it yet.
    """

    codes: int
    codebook: int
    file: int
