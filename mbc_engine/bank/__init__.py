"""The memory bank: the codes of every document in one file. Needs no model and no torch."""

from mbc_engine.bank.counts import count
from mbc_engine.bank.format import Codes, CodeShape, pack, unpack
from mbc_engine.bank.records import (
    BankHeader,
    BankSizes,
    ChunkSource,
    DocumentRecord,
    ModelSignature,
    StoredDocument,
)
from mbc_engine.bank.store import MemoryBank

__all__ = [
    "BankHeader",
    "BankSizes",
    "ChunkSource",
    "CodeShape",
    "Codes",
    "DocumentRecord",
    "MemoryBank",
    "ModelSignature",
    "StoredDocument",
    "count",
    "pack",
    "unpack",
]
